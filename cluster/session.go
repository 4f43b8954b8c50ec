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

// Hold implements record.Session.
func (s *recordSession) Hold(
	ctx context.Context, key string, token member.Token, fn func(context.Context) error,
) error {
	h, err := s.hold(ctx, key, token)
	if err != nil {
		return err
	}
	return h.Do(ctx, fn)
}

// hold blocks until the node knows that it may act on the record that was set under key with
// token: for as long as it takes to lose a session at most, or until ctx ends.
func (s *recordSession) hold(ctx context.Context, key string, token member.Token) (Holding, error) {
	n := s.node
	ctx, cancel := context.WithTimeoutCause(ctx, n.cfg.timings.HoldTimeout(), record.ErrNotHeld)
	defer cancel()
	for {
		t, known, err := n.holdings.hold(ctx, s, key, token)
		switch {
		case err != nil:
			return Holding{}, err
		case t != nil:
			return Holding{t, key, token}, nil
		case !known:
			return Holding{}, fmt.Errorf("%w: %q by %v", record.ErrNotHeld, key, token)
		}
		_, changed := n.holdings.turned.get()
		if err := n.wait(ctx, changed); err != nil {
			return Holding{}, fmt.Errorf("%w: %q by %v: %w", record.ErrNotHeld, key, token, err)
		}
	}
}

// Holding is the right of this node to act on one of its records. Holdings are small
// values to pass on. The zero Holding is never valid.
type Holding struct {
	t     *tenure
	key   string
	token member.Token
}

// Key is that of the record.
func (h Holding) Key() string { return h.key }

// Token is the fencing token: it is greater than that of every holding of this key
// before it, on whatever node.
func (h Holding) Token() member.Token { return h.token }

// Valid reports whether this node may act on the record at this moment. It reads the
// clock, and is never true again once it was false. See Term.Valid for what a virtual
// machine that was stopped with its clocks does not know.
func (h Holding) Valid() bool { return h.t != nil && h.t.remaining() > 0 }

// Done is closed when the node may act on the record no more: before anybody else may,
// or late by the length of a pause of the whole process. It is nil for the zero Holding.
func (h Holding) Done() <-chan struct{} {
	if h.t == nil {
		return nil
	}
	return h.t.done
}

// Err is why the holding is over, nil while it is not: ErrLeaseEnded when the leader did
// not extend it, record.ErrNotHeld or what Session.Lost says when the record was revoked or
// dropped, record.ErrReleased, ErrLeft, or ErrClosed.
func (h Holding) Err() error { return Term{h.t}.Err() }

// Do runs fn with a context that ends with ctx or with the holding, whose Err is then its
// cause, and returns what fn does. When the node leaves, that waits a moment for fn.
func (h Holding) Do(ctx context.Context, fn func(context.Context) error) error {
	if h.t == nil {
		return record.ErrNotHeld
	}
	ctx, end := h.t.begin(ctx)
	defer end()
	if err := h.Err(); err != nil {
		return err
	}
	return fn(ctx)
}

// HoldRemaining is how long the holdings of this node last at least, unless the leader
// extends that, which it does all the time: as long as that is not 0, a holding that is
// valid ends only since its record was revoked, dropped or given up.
func (n *Node) HoldRemaining() time.Duration {
	until, _ := n.holdings.turned.get()
	if until.IsZero() {
		return 0
	}
	return max(0, until.Sub(n.clock())-n.terms.guard)
}

// holdings are those that are not over, as far as the loop knows.
type holdings struct {
	turned cell[time.Time] // until when records are trusted, and that the table changed

	mu     sync.Mutex
	all    []holding
	closed error
}

type holding struct {
	*tenure
	of  *recordSession
	key string
	by  member.Token
}

// hold begins a holding; nil where the node may not act on the record yet, and known is
// whether it may come to that.
func (hs *holdings) hold(
	ctx context.Context, s *recordSession, key string, token member.Token,
) (t *tenure, known bool, err error) {
	n := s.node
	err = n.do(ctx, func(now time.Time) (statemachine.Output, error) {
		known = n.machine.Owns(key) == token
		held, until := n.machine.Holds(now, key)
		if t = n.holdings.find(s, key, token); t != nil {
			return statemachine.Output{}, nil
		}
		if held == token && until.Sub(now) > n.terms.guard {
			t = &tenure{own: true, began: now, clock: n.clock, guard: n.terms.guard,
				done: make(chan struct{})}
			t.start(until)
			return statemachine.Output{}, hs.add(holding{t, s, key, token})
		}
		return statemachine.Output{}, nil
	})
	return t, known, err
}

// find is a holding of a record that there is: each lasts as long as the record is held,
// and who asks again and again must not add to them.
func (hs *holdings) find(s *recordSession, key string, token member.Token) *tenure {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	i := slices.IndexFunc(hs.all, func(h holding) bool {
		return h.of == s && h.key == key && h.by == token && h.remaining() > h.guard
	})
	if i < 0 || hs.closed != nil {
		return nil
	}
	return hs.all[i].tenure
}

func (hs *holdings) add(h holding) error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.closed != nil {
		h.end(hs.closed)
		return hs.closed
	}
	hs.all = append(hs.all, h)
	return nil
}

// update follows the machine. When it returns, holdings that are over have ended with all
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
		case h.ended():
		case token == h.by && h.extend(until):
			kept = append(kept, h)
		case token == h.by: // ended by its lease
		default:
			h.end(whyLost(m, h))
		}
	}
	clear(hs.all[len(kept):])
	hs.all = kept
	hs.mu.Unlock()
	hs.turned.set(until)
}

// whyLost is why a node may not act on a record any more.
func whyLost(m *statemachine.Machine, h holding) error {
	now := m.Durable().Held.Records
	r, ok := now.Find(h.key)
	switch {
	case !ok || r.Token != h.by || r.Revoked:
		if h.of.lost != nil {
			return cmp.Or(h.of.lost(h.key, now), record.ErrNotHeld)
		}
		return record.ErrNotHeld
	case m.Owns(h.key) != h.by:
		return record.ErrReleased
	default:
		return ErrLeaseEnded
	}
}

// close ends all holdings, and gives the functions that run under them some time to
// return.
func (hs *holdings) close(ctx context.Context, cause error, within time.Duration) {
	hs.mu.Lock()
	all := hs.all
	if hs.closed == nil {
		hs.closed = cause
	}
	hs.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var left []*use
	for _, h := range all {
		left = append(left, h.running()...)
		h.end(cause)
	}
	for _, u := range left {
		select {
		case <-u.left:
		case <-ctx.Done():
			return
		}
	}
}
