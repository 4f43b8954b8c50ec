// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

const testGuard = 50 * time.Millisecond

func newTerms() *terms { return &terms{clock: time.Now, guard: testGuard} }

// leading returns the view of a leader at port 1.
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

// lease makes this node lead with the version of the view, for d from now.
func (ts *terms) lease(view member.View, d time.Duration) *clusterTerm {
	now := time.Now()
	return ts.updateTerm(now, view, view.Version, now.Add(d))
}

// workUnder runs a function under a term of this node. The second result makes that function
// return.
func workUnder(t *testing.T, term leader.Term) (ctx context.Context, returned func()) {
	t.Helper()
	began, over, done := make(chan context.Context), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = term.Do(t.Context(), func(ctx context.Context) error {
			began <- ctx
			<-over
			return nil
		})
	}()
	return <-began, func() { close(over); <-done }
}

// TestLapsedTermNeverComesBack pauses the process or the machine for longer than the lease. Before
// the timer fires, the loop processes an echo that gives the machine authority again. This must
// begin a new term, whether or not a caller has checked the old one.
func TestLapsedTermNeverComesBack(t *testing.T) {
	for _, looked := range []bool{false, true} {
		var now atomic.Int64
		begin := time.Now()
		clock := func() time.Time { return begin.Add(time.Duration(now.Load())) }
		ts := &terms{clock: clock, guard: testGuard}
		lease := func() leader.Term {
			return ts.updateTerm(clock(), leading(3), 3, clock().Add(time.Hour)).Term()
		}
		first := lease()
		ctx, returned := workUnder(t, first)
		now.Store(int64(time.Hour))
		if looked && first.Valid() {
			t.Error("after the lease: got valid")
		}
		second := lease()
		ended := leader.ErrLeaseEnded
		if first.Valid() || first.Err() != ended || context.Cause(ctx) != ended {
			t.Errorf("looked %v: the first term: got valid %v, err %v, cause %v; want false, %v",
				looked, first.Valid(), first.Err(), context.Cause(ctx), ended)
		}
		if !second.Valid() || second.Token().Version != 3 {
			t.Errorf("looked %v: the second term: got valid %v, token %v; want true, 3000000000000",
				looked, second.Valid(), second.Token())
		}
		returned()
		ts.closeTerms(ErrClosed)
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
		if !first.Term().Valid() {
			t.Errorf("after 50s of extensions: got %v, want a valid term", first.Term().Err())
		}
		ts.closeTerms(ErrClosed)
	})
}

// TestTermsFollowTheView checks which changes of the view end a term and begin another.
func TestTermsFollowTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := func(version uint64) func(*terms) *clusterTerm {
			return func(ts *terms) *clusterTerm { return ts.lease(leading(version), time.Second) }
		}
		show := func(view member.View) func(*terms) *clusterTerm {
			return func(ts *terms) *clusterTerm { return ts.updateTerm(time.Now(), view, 0, time.Time{}) }
		}
		lapsed := leading(1)
		lapsed.Quorate = false
		for _, c := range []struct {
			name        string
			first, next func(*terms) *clusterTerm
			cause       error // why the first term ended; nil if it continues
			begins      bool  // another
		}{
			{"still leading", lead(1), lead(1), nil, false},
			{"chosen again", lead(1), lead(2), leader.ErrSuperseded, true},
			{"lease lapsed", lead(1), show(lapsed), leader.ErrLeaseEnded, false},
			{"stepped down", lead(1), show(seeking()), leader.ErrSuperseded, false},
			{"follows another", lead(1), show(following(2)), leader.ErrSuperseded, true},
			{"still following", show(following(1)), show(following(1)), nil, false},
			{"leader lost", show(following(1)), show(seeking()), leader.ErrSuperseded, false},
			{"leads itself", show(following(1)), lead(2), leader.ErrSuperseded, true},
		} {
			ts := newTerms()
			first := c.first(ts)
			next := c.next(ts)
			if got := first.Term().Err(); got != c.cause {
				t.Errorf("%s: the first term ended with %v, want %v", c.name, got, c.cause)
			}
			if (next != nil) != c.begins {
				t.Errorf("%s: another term begins: got %v, want %v", c.name, next != nil, c.begins)
			}
			live := (&snapshot{term: ts.current}).liveTerm()
			if (live != nil) != (c.begins || c.cause == nil) {
				t.Errorf("%s: live term: got %v", c.name, live)
			}
			ts.closeTerms(ErrClosed)
		}
	})
}

// TestFollowersTermIsNeverValid checks that a follower's term is never valid, although it has a
// token and a leader.
func TestFollowersTermIsNeverValid(t *testing.T) {
	ts := newTerms()
	cur := ts.updateTerm(time.Now(), following(5), 0, time.Time{})
	term := cur.Term()
	if term.Valid() || !term.Deadline().IsZero() || term.Token() != (member.Token{Version: 5}) ||
		term.Leader() != at(1, 0).Address.String() {
		t.Errorf("got valid %v, deadline %v, token %v, leader %q; want false, zero, 5000000000000, "+
			"that of port 1", term.Valid(), term.Deadline(), term.Token(), term.Leader())
	}
}

// TestShortLeaseIsNoTerm checks that a lease that would end immediately begins no term.
func TestShortLeaseIsNoTerm(t *testing.T) {
	if got := newTerms().lease(leading(1), testGuard); got != nil {
		t.Errorf("a lease as long as the guard: got the term %+v, want none", got)
	}
}

// TestHandOverWaitsForTheWork checks that a hand-over ends the term and waits for the work, but no
// longer than the guard time. No term of this node may begin during the hand-over.
func TestHandOverWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ cleanup, want time.Duration }{
			{10 * time.Millisecond, 10 * time.Millisecond},
			{time.Hour, testGuard},
		} {
			ts := newTerms()
			cur := ts.lease(leading(1), time.Minute)
			ctx, returned := workUnder(t, cur.Term())
			go func() {
				<-ctx.Done()
				time.Sleep(c.cleanup)
				returned()
			}()
			begin := time.Now()
			resume := ts.endOwnTerm(t.Context())
			if took := time.Since(begin); took != c.want {
				t.Errorf("work that needs %v to end: handOver took %v, want %v", c.cleanup, took, c.want)
			}
			if cause := context.Cause(ctx); cause != leader.ErrResigned {
				t.Errorf("cause: got %v, want ErrResigned", cause)
			}
			if ts.lease(leading(1), time.Minute) != nil {
				t.Error("a term began during the hand-over")
			}
			resume()
			if ts.lease(leading(1), time.Minute) == nil {
				t.Error("after a hand-over that failed: got no term, want one")
			}
			ts.closeTerms(ErrClosed)
			time.Sleep(2 * time.Hour)
		}
	})
}

// TestNoTermBeginsAfterClose checks that closeTerms ends the current term with the given cause, and
// that no term begins afterwards.
func TestNoTermBeginsAfterClose(t *testing.T) {
	ts := newTerms()
	cur := ts.lease(leading(1), time.Minute)
	ts.closeTerms(ErrClosed)
	if got := cur.Term().Err(); got != ErrClosed {
		t.Errorf("cause: got %v, want ErrClosed", got)
	}
	if ts.lease(leading(1), time.Minute) != nil {
		t.Error("a term began after close")
	}
}

// TestGiveUpIsOfOneTerm checks that resigning a term does not affect later terms, and has no effect
// the second time.
func TestGiveUpIsOfOneTerm(t *testing.T) {
	ts := newTerms()
	defer ts.closeTerms(ErrClosed)
	first := ts.lease(leading(1), time.Minute).Term()
	resume, ok := ts.resignTerm(t.Context(), first)
	if !ok || first.Err() != leader.ErrResigned || ts.lease(leading(1), time.Minute) != nil {
		t.Errorf("got %v and the cause %v, want ErrResigned and no term meanwhile", ok, first.Err())
	}
	resume()
	second := ts.lease(leading(1), time.Minute).Term()
	if _, ok := ts.resignTerm(t.Context(), first); ok || !second.Valid() {
		t.Error("giving the first term up ended the second")
	}
}
