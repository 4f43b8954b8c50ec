// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

const testGuard = 50 * time.Millisecond

func newTerms() *terms { return &terms{clock: time.Now, guard: testGuard} }

// leading is the view of a leader, at port 1, in its own eyes.
func leading(version uint64) member.View {
	v := viewOf(version, 1, true, at(1, member.Active), at(2, member.Active))
	v.Self, v.Role = at(1, 0).Identity, member.Leading
	return v
}

func following(version uint64) member.View {
	v := leading(version)
	v.Self, v.Role = at(2, 0).Identity, member.Following
	return v
}

func seeking() member.View {
	v := leading(1)
	v.Role, v.Leader, v.Quorate = member.Seeking, member.Address{}, false
	return v
}

// lease renews the authority of version for d from now.
func (ts *terms) lease(view member.View, d time.Duration) *tenure {
	now := time.Now()
	return ts.update(now, view, authority{view.Version, now.Add(d)})
}

// TestTermEndsBeforeItsLease: the loop stands still, and the context of the
// work ends all the same, the guard before the lease does.
func TestTermEndsBeforeItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTerms()
		term := Term{ts.lease(leading(3), time.Second)}
		ctx, returned := term.t.begin(t.Context())
		defer returned()
		if !term.Valid() || term.Token() != 3 || term.Leader().Name != "n1" || term.Err() != nil {
			t.Errorf("at first: got valid %v, token %d, leader %q, err %v; want true, 3, n1, nil",
				term.Valid(), term.Token(), term.Leader().Name, term.Err())
		}
		if left := time.Until(term.Deadline()); left != time.Second {
			t.Errorf("Deadline: got %v from now, want 1s", left)
		}
		begin := time.Now()
		<-ctx.Done()
		if took := time.Since(begin); took != time.Second-testGuard {
			t.Errorf("context ended after %v, want %v", took, time.Second-testGuard)
		}
		<-term.Done()
		if cause := context.Cause(ctx); cause != ErrLeaseEnded || term.Err() != ErrLeaseEnded {
			t.Errorf("causes: got %v and %v, want ErrLeaseEnded", cause, term.Err())
		}
		if term.Valid() || !term.Deadline().IsZero() {
			t.Error("after the end: the term is still valid")
		}
	})
}

// TestValidReadsTheClock: a late timer makes Done late, never Valid.
func TestValidReadsTheClock(t *testing.T) {
	now := time.Now()
	ts := &terms{clock: func() time.Time { return now }, guard: testGuard}
	term := Term{ts.update(now, leading(1), authority{1, now.Add(time.Hour)})}
	defer ts.close(ErrClosed)
	if !term.Valid() {
		t.Error("within the lease: got invalid")
	}
	now = now.Add(time.Hour) // the process stood still; no timer has fired
	if term.Valid() {
		t.Error("after the lease: got valid")
	}
}

// TestLapsedTermNeverComesBack: the process or the machine stood still for longer
// than the lease. Before the timer runs the loop takes an echo, by which the machine
// has authority again: that is of another term, whether somebody has looked or not.
func TestLapsedTermNeverComesBack(t *testing.T) {
	for _, looked := range []bool{false, true} {
		now := time.Now()
		ts := &terms{clock: func() time.Time { return now }, guard: testGuard}
		lease := func() Term {
			return Term{ts.update(now, leading(3), authority{3, now.Add(time.Hour)})}
		}
		first := lease()
		ctx, returned := first.t.begin(t.Context())
		now = now.Add(time.Hour)
		if looked && first.Valid() {
			t.Error("after the lease: got valid")
		}
		second := lease()
		if first.Valid() || first.Err() != ErrLeaseEnded || context.Cause(ctx) != ErrLeaseEnded {
			t.Errorf("looked %v: the first term: got valid %v, err %v, cause %v; want false, ErrLeaseEnded",
				looked, first.Valid(), first.Err(), context.Cause(ctx))
		}
		if !second.Valid() || second.Token() != 3 {
			t.Errorf("looked %v: the second term: got valid %v, token %d; want true, 3",
				looked, second.Valid(), second.Token())
		}
		returned()
		ts.close(ErrClosed)
	}
}

// TestTermLapsesWhileItIsExtended: somebody sees that the lease has passed just after
// the loop saw that it had not.
func TestTermLapsesWhileItIsExtended(t *testing.T) {
	begin := time.Now()
	look := func() time.Time { return begin }
	ts := &terms{clock: func() time.Time { return look() }, guard: testGuard}
	first := Term{ts.update(begin, leading(3), authority{3, begin.Add(time.Hour)})}
	defer ts.close(ErrClosed)
	later := begin.Add(time.Hour)
	look = func() time.Time {
		look = func() time.Time { return later }
		if first.Valid() {
			t.Error("after the lease: got valid")
		}
		return begin
	}
	second := Term{ts.update(begin, leading(3), authority{3, later.Add(time.Hour)})}
	if first.Valid() || first.Err() != ErrLeaseEnded || !second.Valid() {
		t.Errorf("got valid %v, err %v, then valid %v; want false, ErrLeaseEnded, true",
			first.Valid(), first.Err(), second.Valid())
	}
}

func TestExtendedTermGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTerms()
		first := ts.lease(leading(1), time.Second)
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			if again := ts.lease(leading(1), time.Second); again != nil {
				t.Fatalf("extended: got another term %v", again)
			}
		}
		if !(Term{first}).Valid() {
			t.Errorf("after 50s of extensions: got %v, want a valid term", first.cause)
		}
		ts.close(ErrClosed)
	})
}

// TestTermsFollowTheView: when a term ends and another begins.
func TestTermsFollowTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := func(version uint64) func(*terms) *tenure {
			return func(ts *terms) *tenure { return ts.lease(leading(version), time.Second) }
		}
		show := func(view member.View) func(*terms) *tenure {
			return func(ts *terms) *tenure { return ts.update(time.Now(), view, authority{}) }
		}
		lapsed := leading(1)
		lapsed.Quorate = false
		for _, c := range []struct {
			name        string
			first, next func(*terms) *tenure
			cause       error // of the first; nil when it goes on
			begins      bool  // another
		}{
			{"still leading", lead(1), lead(1), nil, false},
			{"chosen again", lead(1), lead(2), ErrSuperseded, true},
			{"lease lapsed", lead(1), show(lapsed), ErrLeaseEnded, false},
			{"stepped down", lead(1), show(seeking()), ErrSuperseded, false},
			{"follows another", lead(1), show(following(2)), ErrSuperseded, true},
			{"still following", show(following(1)), show(following(1)), nil, false},
			{"leader lost", show(following(1)), show(seeking()), ErrSuperseded, false},
			{"leads itself", show(following(1)), lead(2), ErrSuperseded, true},
		} {
			ts := newTerms()
			first := c.first(ts)
			next := c.next(ts)
			if got := (Term{first}).Err(); got != c.cause {
				t.Errorf("%s: the first term ended with %v, want %v", c.name, got, c.cause)
			}
			if (next != nil) != c.begins {
				t.Errorf("%s: another term begins: got %v, want %v", c.name, next != nil, c.begins)
			}
			if live := (&sight{term: ts.current}).live(); (live != nil) != (c.begins || c.cause == nil) {
				t.Errorf("%s: live term: got %v", c.name, live)
			}
			ts.close(ErrClosed)
		}
	})
}

// TestFollowersTermIsNeverValid, although it has token and leader.
func TestFollowersTermIsNeverValid(t *testing.T) {
	ts := newTerms()
	term := Term{ts.update(time.Now(), following(5), authority{})}
	if term.Valid() || !term.Deadline().IsZero() || term.Token() != 5 || term.Leader().Name != "n1" {
		t.Errorf("got valid %v, deadline %v, token %d, leader %q; want false, zero, 5, n1",
			term.Valid(), term.Deadline(), term.Token(), term.Leader().Name)
	}
}

func TestZeroTerm(t *testing.T) {
	var term Term
	if term.Valid() || term.Token() != 0 || !term.Deadline().IsZero() || term.Done() != nil ||
		term.Err() != nil || term.Leader() != (member.Member{}) {
		t.Errorf("got %+v, want nothing of it", term)
	}
}

// TestShortLeaseIsNoTerm: what would end at once does not begin.
func TestShortLeaseIsNoTerm(t *testing.T) {
	if got := newTerms().lease(leading(1), testGuard); got != nil {
		t.Errorf("a lease as long as the guard: got the term %+v, want none", got)
	}
}

// TestHandOverWaitsForTheWork: it ends first, and has the guard's time to
// return. No term of this node begins meanwhile.
func TestHandOverWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ cleanup, want time.Duration }{
			{10 * time.Millisecond, 10 * time.Millisecond},
			{time.Hour, testGuard},
		} {
			ts := newTerms()
			cur := ts.lease(leading(1), time.Minute)
			ctx, returned := cur.begin(t.Context())
			go func() {
				<-ctx.Done()
				time.Sleep(c.cleanup)
				returned()
			}()
			begin := time.Now()
			resume := ts.handOver(t.Context())
			if took := time.Since(begin); took != c.want {
				t.Errorf("work that needs %v to end: handOver took %v, want %v", c.cleanup, took, c.want)
			}
			if cause := context.Cause(ctx); cause != ErrHandedOver {
				t.Errorf("cause: got %v, want ErrHandedOver", cause)
			}
			if ts.lease(leading(1), time.Minute) != nil {
				t.Error("a term began during the hand-over")
			}
			resume()
			if ts.lease(leading(1), time.Minute) == nil {
				t.Error("after a hand-over that failed: got no term, want one")
			}
			ts.close(ErrClosed)
			time.Sleep(2 * time.Hour)
		}
	})
}

func TestContextOfTermEndsWithItsParent(t *testing.T) {
	ts := newTerms()
	cur := ts.lease(leading(1), time.Minute)
	defer ts.close(ErrClosed)
	boom := errors.New("boom")
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, returned := cur.begin(parent)
	defer returned()
	cancel(boom)
	if context.Cause(ctx) != boom {
		t.Errorf("cause: got %v, want that of the parent", context.Cause(ctx))
	}
}

// TestWorkOfAnEndedTermStartsEnded: the term may end before its work begins.
func TestWorkOfAnEndedTermStartsEnded(t *testing.T) {
	ts := newTerms()
	cur := ts.lease(leading(1), time.Minute)
	ts.close(ErrClosed)
	ctx, returned := cur.begin(t.Context())
	defer returned()
	if context.Cause(ctx) != ErrClosed {
		t.Errorf("cause: got %v, want ErrClosed", context.Cause(ctx))
	}
	if ts.lease(leading(1), time.Minute) != nil {
		t.Error("a term began after close")
	}
}
