// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// MaxUnhandled bounds the number of pairs of sender and name in an unhandledLog, because peers
// choose the names. Further events are counted without a warning.
const MaxUnhandled = 256

// unhandledLog remembers the events without a handler for which a warning was logged. The zero
// value is ready for use.
type unhandledLog struct {
	mu     sync.Mutex
	warned map[unhandled]bool
}

// unhandled is a type of event without a handler at this node.
type unhandled struct {
	from member.Address
	name string
}

// mayWarn reports whether to log a warning about an event, which happens once for each name and
// sender.
func (u *unhandledLog) mayWarn(from member.Address, name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := unhandled{from, name}
	if u.warned[key] || len(u.warned) >= MaxUnhandled {
		return false
	}
	if u.warned == nil {
		u.warned = map[unhandled]bool{}
	}
	u.warned[key] = true
	return true
}

// DropFrame counts a dropped frame, and logs it if err is not nil.
func (o *Reporter) DropFrame(from member.Identity, reason string, err error) {
	o.Metrics.addDrop(reason)
	if err != nil && o.log.Enabled(context.Background(), slog.LevelDebug) {
		o.log.Debug("dropped a frame", slog.String("peer", addressText(from.Address)),
			slog.String("reason", reason), ErrAttr(err))
	}
}

// DropEvent counts and logs an event that reached no handler. senderTold reports whether the sender
// receives err.
func (o *Reporter) DropEvent(
	from member.Identity, name, reason string, senderTold bool, err error,
) {
	l := line{slog.LevelWarn, "dropped an event that has no handler here; " +
		"further ones of this name from this peer are only counted"}
	malformed := errors.Is(err, receiver.ErrMalformed)
	if malformed {
		l = line{slog.LevelWarn, "dropped an event that does not decode into its type here; " +
			"further ones of this name from this peer are only counted"}
	}
	unhandled := malformed || errors.Is(err, receiver.ErrUnknown)
	if !unhandled || from.Address.IsObserver() || !o.unhandled.mayWarn(from.Address, name) {
		o.DropFrame(from, reason, err)
		return
	}
	o.Metrics.addDrop(reason)
	o.log.LogAttrs(context.Background(), l.level, l.text,
		slog.String("peer", addressText(from.Address)), slog.String("event", safetext.PeerText(name)),
		slog.Bool("sender_told", senderTold), ErrAttr(err))
}
