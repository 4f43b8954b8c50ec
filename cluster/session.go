// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// recordSession implements record.Session for a node. Its records end with this run of the
// node: when it leaves, when its next run joins, or after LeaderTimeout + LeaseTimeout (or
// TTLTimeout if that is shorter) without a message from it.
type recordSession struct {
	node *Node
	id   uint64
	lost record.LostFunc // nil for none
}

func newRecordSession(n *Node, lost record.LostFunc) *recordSession {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return &recordSession{node: n, id: binary.BigEndian.Uint64(b[:]), lost: lost}
}

// Member implements record.Session.
func (s *recordSession) Member() string { return s.node.cfg.self.String() }

// Owns implements record.Session.
func (s *recordSession) Owns(r member.Record) bool {
	return r.Session == s.id && r.Owner == s.node.look().view.Self
}

// Hold implements record.Session. It blocks until the node knows that it may act on the
// record: for as long as it takes to lose a session at most.
func (s *recordSession) Hold(
	ctx context.Context, key string, token member.Token,
) (*leader.Lease, error) {
	n := s.node
	ctx, cancel := context.WithTimeoutCause(ctx, n.cfg.timings.HoldTimeout(), record.ErrNotHeld)
	defer cancel()
	for {
		l, known, err := n.holdings.hold(ctx, s, key, token)
		switch {
		case err != nil || l != nil:
			return l, err
		case !known:
			return nil, fmt.Errorf("%w: %q by %v", record.ErrNotHeld, key, token)
		}
		_, changed := n.holdings.turned.get()
		if err := n.wait(ctx, changed); err != nil {
			return nil, fmt.Errorf("%w: %q by %v: %w", record.ErrNotHeld, key, token, err)
		}
	}
}

// HoldRemaining returns how long the leases of this node's records last at least, unless the
// leader extends them, which it does all the time. While it is not 0, a valid lease ends only
// because its record was revoked, dropped or given up.
func (n *Node) HoldRemaining() time.Duration {
	until, _ := n.holdings.turned.get()
	if until.IsZero() {
		return 0
	}
	return max(0, until.Sub(n.clock())-n.terms.guard)
}

// holdings are the leases of the node's records that have not ended, as far as the loop
// knows.
type holdings struct {
	turned cell[time.Time] // until when records are trusted, and that the table changed

	mu     sync.Mutex
	all    []holding
	closed error
}

// holding is the lease of one record.
type holding struct {
	*leader.Lease
	of    *recordSession
	key   string
	token member.Token
}

// hold returns the lease of a record; nil if the node may not act on the record yet. known
// reports whether that may still come.
func (hs *holdings) hold(
	ctx context.Context, s *recordSession, key string, token member.Token,
) (l *leader.Lease, known bool, err error) {
	n := s.node
	err = n.do(ctx, func(now time.Time) (statemachine.Output, error) {
		known = n.machine.Owns(key) == token
		held, until := n.machine.Holds(now, key)
		if l = hs.find(s, key, token); l != nil {
			return statemachine.Output{}, nil
		}
		if held == token && until.Sub(now) > n.terms.guard {
			l = leader.NewLease(leader.LeaseConfig{
				Holder: leader.Holder{ID: s.Member(), Token: token}, Own: true,
				Until: until, Guard: n.terms.guard, Clock: n.clock,
			})
			return statemachine.Output{}, hs.add(holding{l, s, key, token})
		}
		return statemachine.Output{}, nil
	})
	return l, known, err
}

// find returns the lease of a record that there is: a caller that asks again and again must
// not add to them.
func (hs *holdings) find(s *recordSession, key string, token member.Token) *leader.Lease {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	i := slices.IndexFunc(hs.all, func(h holding) bool {
		return h.of == s && h.key == key && h.token == token && !h.Ended() &&
			h.Remaining() > s.node.terms.guard
	})
	if i < 0 || hs.closed != nil {
		return nil
	}
	return hs.all[i].Lease
}

func (hs *holdings) add(h holding) error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.closed != nil {
		h.End(hs.closed)
		return hs.closed
	}
	hs.all = append(hs.all, h)
	return nil
}

// update follows the machine. When it returns, leases that are over have ended with all
// their contexts.
func (hs *holdings) update(now time.Time, m *statemachine.Machine, changed bool) {
	until := m.TrustsUntil()
	last := hs.turned.latest.Load()
	if !changed && last != nil && last.Equal(until) {
		return
	}
	hs.mu.Lock()
	kept := hs.all[:0]
	for _, h := range hs.all {
		token, until := m.Holds(now, h.key)
		switch {
		case h.Ended():
		case token == h.token && h.Extend(until):
			kept = append(kept, h)
		case token == h.token: // ended by its lease
		default:
			h.End(h.whyLost(m))
		}
	}
	clear(hs.all[len(kept):])
	hs.all = kept
	hs.mu.Unlock()
	hs.turned.set(until)
}

// whyLost returns why the node may no longer act on the record.
func (h holding) whyLost(m *statemachine.Machine) error {
	now := m.Durable().Held.Records
	r, ok := now.Find(h.key)
	switch {
	case !ok || r.Token != h.token || r.Revoked:
		if h.of.lost != nil {
			return cmp.Or(h.of.lost(h.key, now), record.ErrNotHeld)
		}
		return record.ErrNotHeld
	case m.Owns(h.key) != h.token:
		return record.ErrReleased
	default:
		return leader.ErrLeaseEnded
	}
}

// close ends all leases, and gives the functions that run under them some time to return.
func (hs *holdings) close(ctx context.Context, cause error, within time.Duration) {
	hs.mu.Lock()
	all := slices.Clone(hs.all) // the loop still updates it
	if hs.closed == nil {
		hs.closed = cause
	}
	hs.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, h := range all {
		h.End(cause)
	}
	for _, h := range all {
		if h.Wait(ctx) != nil {
			return
		}
	}
}
