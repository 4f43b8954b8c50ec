// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"log/slog"
	"time"

	"github.com/athena-go/athena/member"
)

// leaderlessWarning decides when a node without a leader logs why: soon, since an operator
// may be waiting for it, and then less and less often.
type leaderlessWarning struct {
	since  time.Time // when the leader was lost; zero while there is one
	at     time.Time // of the last line; zero before the first
	next   time.Time // when to look for a reason again
	repeat time.Duration
	text   string // of the last line
}

const (
	// The first line comes after warnRetries intervals of retries, and not before
	// minWarnDelay: a cluster that only starts, or replaces its leader, is faster.
	warnRetries  = 3
	minWarnDelay = 3 * time.Second
	// WarnInterval is the time between two looks for another reason.
	WarnInterval = 5 * time.Second
	// The same reason is logged again after minWarnRepeat, and then after twice the time
	// before, up to maxWarnRepeat.
	minWarnRepeat = 10 * time.Second
	maxWarnRepeat = time.Minute
)

// warnLeaderless logs why there is no leader, when it is time to, and that there is one
// again, unless a change of leader has just ended and says so. The loop has a turn at least
// at every attempt to join, keep-alive or question to the voters.
func (o *Observer) warnLeaderless(now time.Time, s State, elected bool) {
	w := &o.warning
	if !s.Leader.isZero() {
		if !w.at.IsZero() && !elected {
			o.log.Info("there is a leader with authority",
				slog.String("leader", addressText(s.Leader.Address)), slog.Uint64("version", s.Leader.Version),
				slog.Float64("leaderless_ms", Milliseconds(now.Sub(w.since))))
		}
		*w = leaderlessWarning{}
		return
	}
	if !w.isDue(now, o.cfg.RetryInterval) {
		return
	}
	text := o.noLeader(s, o.peers.listStatuses(s.Held, o.cfg.silentTimeout()))
	if !w.isNews(now, text) {
		return
	}
	l := line{slog.LevelWarn, "no leader with authority"}
	if s.View.Role == member.Seeking && s.Held.IsZero() {
		l = line{slog.LevelWarn, "not in a cluster yet"} // the cluster may have a leader
	}
	o.log.LogAttrs(context.Background(), l.level, l.text,
		slog.Float64("leaderless_ms", Milliseconds(now.Sub(w.since))), slog.String("why", text))
}

// isDue reports whether to look for the reason now.
func (w *leaderlessWarning) isDue(now time.Time, retryInterval time.Duration) bool {
	if w.since.IsZero() {
		*w = leaderlessWarning{
			since:  now,
			next:   now.Add(max(warnRetries*retryInterval, minWarnDelay)),
			repeat: minWarnRepeat,
		}
	}
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(WarnInterval)
	return true
}

// isNews reports whether to log a reason: another one, or the same after a while.
func (w *leaderlessWarning) isNews(now time.Time, text string) bool {
	switch {
	case text != w.text:
		w.repeat = minWarnRepeat
	case now.Sub(w.at) < w.repeat:
		return false
	default:
		w.repeat = min(2*w.repeat, maxWarnRepeat)
	}
	w.at, w.text = now, text
	return true
}
