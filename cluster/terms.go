// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/member"
)

// terms knows the present tenure. The loop tells it what the machine says; a
// hand-over may end the node's own tenure before the machine is asked.
type terms struct {
	clock func() time.Time
	guard time.Duration

	mu      sync.Mutex
	current *tenure
	handing int // hand-overs under way; the node begins no own tenure meanwhile
}

// authority is what the machine says about the node itself: the version that
// it leads until then, 0 for none.
type authority struct {
	version uint64
	until   time.Time
}

// update follows a change of the view or the lease. It returns the tenure that
// began, nil when none did. When it returns, a tenure that is over has ended
// with all its contexts.
func (ts *terms) update(now time.Time, view member.View, own authority) *tenure {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	leads := own.version != 0 && own.until.Sub(now) > ts.guard && ts.handing == 0
	follows := view.Quorate && !view.Leader.IsZero() && view.Leader != view.Self.Address
	next := &tenure{leader: memberAt(view, view.Leader), token: view.Version, own: leads}
	switch cur := ts.current; {
	case !leads && !follows:
		ts.end(view)
		return nil
	case cur != nil && !cur.ended() && cur.own == leads && cur.token == next.token &&
		cur.leader.Address == next.leader.Address && (!leads || cur.extend(own.until)):
		return nil
	}
	ts.end(view)
	next.began, next.clock, next.guard = now, ts.clock, ts.guard
	next.done = make(chan struct{})
	if leads {
		next.start(own.until)
	}
	ts.current = next
	return next
}

// end ends the present tenure because of what the view says.
func (ts *terms) end(view member.View) {
	cur := ts.current
	if cur == nil {
		return
	}
	cause := ErrSuperseded
	if cur.own && view.Role == member.Leading && view.Version == cur.token {
		cause = ErrLeaseEnded // it leads on, in name
	}
	cur.end(cause)
}

// close ends the present tenure for good.
func (ts *terms) close(cause error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.handing++ // and never back
	if ts.current != nil {
		ts.current.end(cause)
	}
}

// handsOver reports whether a hand-over that was asked for is under way.
func (ts *terms) handsOver() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.handing > 0
}

// handOver ends the node's own tenure ahead of its authority, and gives the
// functions that run under it the guard's time to return, as they have when a
// lease ends. The caller hands over and then calls what it returned.
func (ts *terms) handOver(ctx context.Context) (done func()) {
	ts.mu.Lock()
	ts.handing++
	cur := ts.current
	ts.mu.Unlock()
	if cur != nil && cur.own {
		cur.end(ErrHandedOver)
		ctx, cancel := context.WithTimeout(ctx, ts.guard)
		defer cancel()
		for _, u := range cur.running() {
			select {
			case <-u.left:
			case <-ctx.Done():
			}
		}
	}
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.handing--
	}
}

// Leader is the term of the quorate leader; false when there is none as far as
// this node knows. A provisional leader shows only in View.
func (n *Node) Leader() (Term, bool) {
	t := n.look().live()
	return Term{t}, t != nil
}

// WaitLeader blocks until there is a quorate leader. When ctx ends first, the
// error is ErrNoQuorum, with ErrRosterLost where that is so, and the cause of
// ctx.
func (n *Node) WaitLeader(ctx context.Context) (Term, error) {
	for {
		seen, changed := n.seen.get()
		if t := seen.live(); t != nil {
			return Term{t}, nil
		}
		if err := n.wait(ctx, changed); err != nil {
			return Term{}, n.noQuorum(err)
		}
	}
}

// Terms yields the newest term and each later one, until ctx ends or the node
// closes. A slow reader misses terms in between, never the last. A term that is
// over when it is read shows so by Done.
func (n *Node) Terms(ctx context.Context) iter.Seq[Term] {
	return func(yield func(Term) bool) {
		var last *tenure
		for {
			seen, changed := n.seen.get()
			if seen.term != last {
				last = seen.term
				if !yield(Term{last}) {
					return
				}
				continue
			}
			if n.wait(ctx, changed) != nil {
				return
			}
		}
	}
}

// WhileLeader runs fn whenever this node is the quorate leader, and only then,
// until ctx ends or the node closes; it returns why. Calls of fn are serial.
//
// The context of fn ends before the node's authority does, with the cause; fn
// must return then. When fn returns nil, the node goes on leading and fn runs
// again in the next term. When it returns an error of its own while it leads,
// the node yields: leadership is transferred to another member, and where no
// other can take it, fn runs again after RetryInterval.
func (n *Node) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, term Term) error,
) error {
	for n.over(ctx) == nil {
		seen, changed := n.seen.get()
		t := seen.live()
		if t == nil || !t.own {
			_ = n.wait(ctx, changed) // the condition of the loop looks again
			continue
		}
		failed := n.lead(ctx, t, fn)
		if failed != nil && ctx.Err() == nil && !t.ended() {
			n.yield(ctx, t, failed)
		} else {
			_ = n.wait(ctx, t.done)
		}
	}
	return n.over(ctx)
}

// lead runs fn once.
func (n *Node) lead(
	ctx context.Context, t *tenure, fn func(ctx context.Context, term Term) error,
) error {
	ctx, end := t.begin(ctx)
	defer end()
	return fn(ctx, Term{t})
}

// yield gives leadership up because fn failed.
func (n *Node) yield(ctx context.Context, t *tenure, failed error) {
	n.log.Warn("work of the leader failed, yielding",
		observe.ErrAttr(failed), slog.Uint64("version", t.token))
	if err := n.Transfer(ctx, member.Address{}); err != nil {
		n.log.Warn("could not yield leadership", observe.ErrAttr(err), slog.Uint64("version", t.token))
		retry := time.NewTimer(n.cfg.RetryInterval)
		defer retry.Stop()
		select {
		case <-retry.C:
		case <-ctx.Done():
		case <-n.quit:
		}
	}
}
