// SPDX-License-Identifier: Apache-2.0

package recordtable

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// lateAfter is how long after the end of its lease work is reported that still runs.
const lateAfter = 5 * time.Second

// leases contains the leases of the node's records. Each update removes those that have ended.
type leases struct {
	mu     sync.Mutex
	all    []lease
	late   []lateWork
	until  time.Time     // until when the node may rely on its records
	next   chan struct{} // closed by the next update; nil if no caller is waiting
	closed error         // why no further leases are granted; nil before EndLeases
}

// lease is the lease of one record.
type lease struct {
	*leader.Lease
	session *session
	key     string
	token   member.Token
}

// lateWork is work that runs although its lease has ended.
type lateWork struct {
	lease
	ended    time.Time // when an update found that the lease had ended
	reported bool
}

// HoldRemaining returns the remaining time of the leases of this node's records. A leader normally
// extends the leases continuously. While HoldRemaining is greater than 0, a valid lease ends only
// if its record is revoked, dropped or released.
func (t *Table) HoldRemaining() time.Duration {
	t.leases.mu.Lock()
	until := t.leases.until
	t.leases.mu.Unlock()
	if until.IsZero() {
		return 0
	}
	return max(0, until.Sub(t.cfg.Clock())-t.cfg.Guard)
}

// find returns the lease of a record, and creates the lease if necessary. If the node may not act
// on the record now, the lease is nil. The next update then closes the channel.
func (ls *leases) find(
	now time.Time, m *statemachine.Machine, s *session, key string, token member.Token,
) (l *leader.Lease, updated <-chan struct{}, err error) {
	cfg := s.table.cfg
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed != nil {
		return nil, nil, ls.closed
	}
	for _, h := range ls.all {
		if h.session == s && h.key == key && h.token == token && !h.Ended() &&
			h.Remaining() > cfg.Guard {
			return h.Lease, nil, nil
		}
	}
	if held, until := m.Holds(now, key); held == token && until.Sub(now) > cfg.Guard {
		l = leader.NewLease(leader.LeaseConfig{
			Holder: leader.Holder{ID: cfg.Self, Token: token}, Own: true,
			Until: until, Guard: cfg.Guard, Clock: cfg.Clock,
		})
		ls.all = append(ls.all, lease{l, s, key, token})
		return l, nil, nil
	}
	if ls.next == nil {
		ls.next = make(chan struct{})
	}
	return nil, ls.next, nil
}

// updateAll extends or ends each lease as the machine has decided. It returns the work to report.
func (ls *leases) updateAll(now time.Time, m *statemachine.Machine, changed bool) []lateWork {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	until := m.TrustsUntil()
	if !changed && ls.until.Equal(until) {
		return nil
	}
	ls.until = until
	ls.all = slices.DeleteFunc(ls.all, func(l lease) bool {
		extended := l.extend(now, m)
		if !extended {
			ls.late = append(ls.late, lateWork{lease: l, ended: now})
		}
		return !extended
	})
	if ls.next != nil {
		close(ls.next)
		ls.next = nil
	}
	return ls.findLate(now)
}

// extend extends or ends the lease as the machine has decided. It reports whether the lease
// continues.
func (l lease) extend(now time.Time, m *statemachine.Machine) bool {
	if l.Ended() {
		return false
	}
	token, until := m.Holds(now, l.key)
	if token != l.token {
		l.End(l.endCause(m))
		return false
	}
	return l.Extend(until)
}

// findLate returns the work whose lease ended lateAfter ago, once for each lease. ls.mu must be
// held.
func (ls *leases) findLate(now time.Time) (found []lateWork) {
	if len(ls.late) == 0 {
		return nil
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	ls.late = slices.DeleteFunc(ls.late, func(w lateWork) bool { return w.Wait(over) == nil })
	for i := range ls.late {
		if w := &ls.late[i]; !w.reported && now.Sub(w.ended) >= lateAfter {
			w.reported = true
			found = append(found, *w)
		}
	}
	return found
}

// endCause returns why the node may no longer act on the record.
func (l lease) endCause(m *statemachine.Machine) error {
	records := m.Durable().Held.Records
	r, ok := records.Find(l.key)
	switch {
	case !ok || r.Token != l.token || r.Revoked:
		if l.session.lost != nil {
			return cmp.Or(l.session.lost(l.key, slices.Collect(records.All())), record.ErrNotHeld)
		}
		return record.ErrNotHeld
	case m.Owns(l.key) != l.token:
		return record.ErrReleased
	default:
		return leader.ErrLeaseEnded
	}
}

// EndLeases ends all leases with leader.ErrClosed and the given cause. Afterwards the node gets no
// lease and no further record. The function wait blocks until no function runs under the ended
// leases; if ctx is done first, it returns the cause of ctx.
func (t *Table) EndLeases(cause error) (wait func(ctx context.Context) error) {
	ls := &t.leases
	ls.mu.Lock()
	ls.closed = cmp.Or(ls.closed, closedError(cause))
	all := slices.Clone(ls.all)
	ls.mu.Unlock()
	for _, l := range all {
		l.End(closedError(cause))
	}
	return func(ctx context.Context) error {
		for _, l := range all {
			if err := l.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// refuse returns an error if a request would make the node the owner of a record after EndLeases:
// it could not use the record, and would keep it from other members.
func (ls *leases) refuse(r message.RecordRequest) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if slices.ContainsFunc(r.Changes, func(c message.Change) bool { return c.Owned }) {
		return ls.closed
	}
	return nil
}
