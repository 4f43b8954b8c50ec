// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// leases contains the leases of the node's records. Each update removes those that have ended.
type leases struct {
	mu     sync.Mutex
	all    []lease
	until  time.Time     // until when the node may rely on its records
	next   chan struct{} // closed by the next update; nil if no caller is waiting
	closed error         // why no further leases are granted; nil before CloseLeases
}

// lease is the lease of one record.
type lease struct {
	*leader.Lease
	session *session
	key     string
	token   member.Token
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
		return nil, nil, closedError(ls.closed)
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

// updateAll extends or ends each lease as the machine has decided.
func (ls *leases) updateAll(now time.Time, m *statemachine.Machine, changed bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	until := m.TrustsUntil()
	if !changed && ls.until.Equal(until) {
		return
	}
	ls.until = until
	ls.all = slices.DeleteFunc(ls.all, func(l lease) bool {
		if l.Ended() {
			return true
		}
		token, until := m.Holds(now, l.key)
		if token != l.token {
			l.End(l.endCause(m))
			return true
		}
		return !l.Extend(until)
	})
	if ls.next != nil {
		close(ls.next)
		ls.next = nil
	}
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

// CloseLeases ends all leases with the given cause and prevents new ones. It blocks until no
// function runs under a lease, or ctx is done.
func (t *Table) CloseLeases(ctx context.Context, cause error) {
	ls := &t.leases
	ls.mu.Lock()
	ls.closed = cmp.Or(ls.closed, cause)
	all := slices.Clone(ls.all)
	ls.mu.Unlock()
	for _, l := range all {
		l.End(cause)
	}
	for _, l := range all {
		if l.Wait(ctx) != nil {
			return
		}
	}
}
