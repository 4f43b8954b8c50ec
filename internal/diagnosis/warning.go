// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"log/slog"
	"time"

	"github.com/athena-go/athena/member"
)

// leaderlessWarning decides when a node without a leader logs the reason. The first line appears
// soon, because an operator may be waiting. Further lines appear at growing intervals.
type leaderlessWarning struct {
	since  time.Time // when the leader was lost; zero while there is a leader
	at     time.Time // when the last line was logged; zero before the first
	next   time.Time // when to check the reason again
	repeat time.Duration
	text   string // the reason in the last line
}

const (
	// The first line is logged after warnRetries x RetryInterval, but not before minWarnDelay: a
	// normal start or change of leader takes less time.
	warnRetries  = 3
	minWarnDelay = 3 * time.Second
	// WarnInterval is how often the reason is checked for changes.
	WarnInterval = 5 * time.Second
	// The same reason is logged again after minWarnRepeat. The interval doubles each time, up
	// to maxWarnRepeat.
	minWarnRepeat = 10 * time.Second
	maxWarnRepeat = time.Minute
)

// warnLeaderless logs why there is no leader if a line is due. After such a line it logs the next
// leader, unless the line about the change of leader reports it. The event loop calls it in each
// turn: at least for every heartbeat, query and attempt to join.
func (o *Reporter) warnLeaderless(now time.Time, s State, elected bool) {
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
	text := o.explainNoLeader(s, o.peers.listStatuses(s.Held, o.cfg.silentTimeout()))
	if !w.shouldLog(now, text) {
		return
	}
	l := line{slog.LevelWarn, "no leader with authority"}
	if s.View.Role == member.Seeking && s.Held.IsZero() {
		l = line{slog.LevelWarn, "not in a cluster yet"} // the cluster may have a leader
	}
	o.log.LogAttrs(context.Background(), l.level, l.text,
		slog.Float64("leaderless_ms", Milliseconds(now.Sub(w.since))), slog.String("why", text))
}

// isDue reports whether it is time to check the reason again.
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

// shouldLog reports whether a reason is new, or was last logged long enough ago to log it again.
func (w *leaderlessWarning) shouldLog(now time.Time, text string) bool {
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
