// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

const testGuard = 50 * time.Millisecond

var errBoom = errors.New("boom")

// leaseFor returns a lease of this process with duration d and the given clock.
func leaseFor(clock func() time.Time, d time.Duration) *Lease {
	return NewLease(LeaseConfig{
		Holder: Holder{"n1", member.Token{Version: 3}}, Own: true,
		Until: clock().Add(d), Guard: testGuard, Clock: clock,
	})
}

// TestTermEndsBeforeItsLease checks that the context of the work ends earlier than the lease by the
// guard, even if the strategy is delayed.
func TestTermEndsBeforeItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseFor(time.Now, time.Second)
		term := l.Term()
		ctx, returned := l.beginUse(t.Context())
		defer returned()
		if !term.Valid() || term.Token().Version != 3 || term.Leader() != "n1" || term.Err() != nil {
			t.Errorf("at first: got valid %v, %+v, %v; want true, n1 with 3000000000000, nil",
				term.Valid(), term.Holder(), term.Err())
		}
		if left := time.Until(term.Deadline()); left != time.Second {
			t.Errorf("Deadline: got %v from now, want 1s", left)
		}
		begin := time.Now()
		<-ctx.Done()
		if took := time.Since(begin); took != time.Second-testGuard {
			t.Errorf("the context ended after %v, want %v", took, time.Second-testGuard)
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

// TestValidReadsTheClock checks that a late timer delays Done, but never Valid.
func TestValidReadsTheClock(t *testing.T) {
	now := time.Now()
	l := leaseFor(func() time.Time { return now }, time.Hour)
	defer l.End(ErrClosed)
	if !l.Term().Valid() {
		t.Error("within the lease: got invalid")
	}
	now = now.Add(time.Hour) // the process was paused; no timer has fired
	if l.Term().Valid() {
		t.Error("after the lease: got valid")
	}
}

// TestLapsedLeaseIsNotExtended checks that a lapsed lease cannot be extended, whether or not a
// caller has seen the lapse. The process was paused, and the strategy runs before the timer.
func TestLapsedLeaseIsNotExtended(t *testing.T) {
	for _, looked := range []bool{false, true} {
		now := time.Now()
		l := leaseFor(func() time.Time { return now }, time.Hour)
		ctx, returned := l.beginUse(t.Context())
		now = now.Add(time.Hour)
		if looked && l.Term().Valid() {
			t.Error("after the lease: got valid")
		}
		if l.Extend(now.Add(time.Hour)) {
			t.Errorf("looked %v: the lapsed lease was extended", looked)
		}
		if l.Term().Valid() || l.Term().Err() != ErrLeaseEnded || context.Cause(ctx) != ErrLeaseEnded {
			t.Errorf("looked %v: got valid %v, err %v, cause %v; want false, ErrLeaseEnded",
				looked, l.Term().Valid(), l.Term().Err(), context.Cause(ctx))
		}
		returned()
	}
}

// TestLeaseLapsesWhileItIsExtended checks that Extend fails if another caller finds the lease
// lapsed just after Extend has checked it.
func TestLeaseLapsesWhileItIsExtended(t *testing.T) {
	begin := time.Now()
	later := begin.Add(time.Hour)
	clock := func() time.Time { return begin }
	l := leaseFor(func() time.Time { return clock() }, time.Hour)
	clock = func() time.Time {
		clock = func() time.Time { return later }
		if l.Term().Valid() {
			t.Error("after the lease: got valid")
		}
		return begin
	}
	if l.Extend(later.Add(time.Hour)) || l.Term().Valid() || l.Term().Err() != ErrLeaseEnded {
		t.Errorf("got valid %v, err %v; want false, ErrLeaseEnded", l.Term().Valid(), l.Term().Err())
	}
}

func TestExtendedLeaseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseFor(time.Now, time.Second)
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			if !l.Extend(time.Now().Add(time.Second)) {
				t.Fatal("the lease was not extended")
			}
		}
		if !l.Term().Valid() {
			t.Errorf("after 50s of extensions: got %v, want a valid term", l.Term().Err())
		}
		l.End(ErrClosed)
	})
}

// TestLeaseWithoutDeadline checks that a lease without a deadline lasts until End.
func TestLeaseWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLease(LeaseConfig{Own: true})
		time.Sleep(1000 * time.Hour)
		if term := l.Term(); !term.Valid() || !term.Deadline().IsZero() {
			t.Errorf("got valid %v, deadline %v; want true, zero", term.Valid(), term.Deadline())
		}
		l.End(ErrSuperseded)
		if term := l.Term(); term.Valid() || term.Err() != ErrSuperseded || !l.Ended() {
			t.Errorf("after End: got valid %v, %v", term.Valid(), term.Err())
		}
	})
}

// TestTermOfAnotherIsNeverValid checks that the term of another process is never valid, although it
// has a token and a leader.
func TestTermOfAnotherIsNeverValid(t *testing.T) {
	l := NewLease(LeaseConfig{Holder: Holder{"n2", member.Token{Version: 5}}})
	term := l.Term()
	if term.Valid() || !term.Deadline().IsZero() || term.Token().Version != 5 ||
		term.Leader() != "n2" {
		t.Errorf("got valid %v, deadline %v, %+v", term.Valid(), term.Deadline(), term.Holder())
	}
	err := term.Do(t.Context(), func(context.Context) error { return errBoom })
	if !errors.Is(err, ErrNotLeader) {
		t.Errorf("Do: got %v, want ErrNotLeader", err)
	}
}

func TestZeroTerm(t *testing.T) {
	var term Term
	if term.Valid() || !term.Token().IsZero() || !term.Deadline().IsZero() || term.Done() != nil ||
		term.Err() != nil || term.Leader() != "" || term.Holder() != (Holder{}) {
		t.Errorf("got %+v, want nothing of it", term)
	}
	err := term.Do(t.Context(), func(context.Context) error { return errBoom })
	if err != ErrNotLeader {
		t.Errorf("Do: got %v, want ErrNotLeader", err)
	}
}

func TestTermDo(t *testing.T) {
	l := leaseFor(time.Now, time.Hour)
	var inside context.Context
	err := l.Term().Do(t.Context(), func(ctx context.Context) error {
		inside = ctx
		l.End(ErrResigned)
		return errBoom
	})
	if err != errBoom || context.Cause(inside) != ErrResigned {
		t.Errorf("got %v and the cause %v, want that of fn and ErrResigned", err, context.Cause(inside))
	}
	if err := l.Term().Do(t.Context(), nil); err != ErrResigned {
		t.Errorf("after the end of the term: got %v, want its Err", err)
	}
}

// TestDoReadsTheClock checks that Do runs no function under a lapsed lease. The process was paused,
// and the caller of Do runs before the timer.
func TestDoReadsTheClock(t *testing.T) {
	now := time.Now()
	l := leaseFor(func() time.Time { return now }, time.Hour)
	now = now.Add(time.Hour)
	err := l.Term().Do(t.Context(), func(context.Context) error { return errBoom })
	if err != ErrLeaseEnded || l.Term().Err() != ErrLeaseEnded {
		t.Errorf("got %v, err %v; want ErrLeaseEnded of both", err, l.Term().Err())
	}
}

func TestOnlyTheFirstCauseCounts(t *testing.T) {
	l := leaseFor(time.Now, time.Hour)
	l.End(ErrSuperseded)
	l.End(ErrClosed)
	if got := l.Term().Err(); got != ErrSuperseded {
		t.Errorf("got %v, want the first cause", got)
	}
}

func TestContextOfTermEndsWithItsParent(t *testing.T) {
	l := leaseFor(time.Now, time.Hour)
	defer l.End(ErrClosed)
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, returned := l.beginUse(parent)
	defer returned()
	cancel(errBoom)
	if context.Cause(ctx) != errBoom {
		t.Errorf("cause: got %v, want that of the parent", context.Cause(ctx))
	}
}

// TestWorkOfAnEndedTermStartsEnded checks that work begins with an ended context if its term has
// already ended.
func TestWorkOfAnEndedTermStartsEnded(t *testing.T) {
	l := leaseFor(time.Now, time.Hour)
	l.End(ErrClosed)
	ctx, returned := l.beginUse(t.Context())
	defer returned()
	if context.Cause(ctx) != ErrClosed {
		t.Errorf("cause: got %v, want ErrClosed", context.Cause(ctx))
	}
}

// TestWait checks that Wait returns when no function runs under the term, or when its context is
// done.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseFor(time.Now, time.Hour)
		if err := l.Wait(t.Context()); err != nil {
			t.Errorf("nothing runs: got %v, want nil", err)
		}
		for _, d := range []time.Duration{time.Second, 3 * time.Second} {
			_, returned := l.beginUse(t.Context())
			time.AfterFunc(d, returned)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errBoom)
		defer cancel()
		if err := l.Wait(ctx); err != errBoom || time.Since(begin) != 2*time.Second {
			t.Errorf("got %v after %v, want the cause after 2s", err, time.Since(begin))
		}
		if err := l.Wait(t.Context()); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("got %v after %v, want nil after 3s", err, time.Since(begin))
		}
		l.End(ErrClosed)
	})
}

// TestPauses checks that pauses grow from 100 ms to 10 s by a factor of 1.2, and start again at 100
// ms after a long run.
func TestPauses(t *testing.T) {
	var p pauses
	for i := range 100 {
		got := p.next(time.Second)
		if i == 0 && got != 100*time.Millisecond || i == 1 && got != 120*time.Millisecond ||
			i > 30 && got != 10*time.Second {
			t.Errorf("pause %d: got %v", i, got)
		}
	}
	if got := p.next(11 * time.Second); got != 100*time.Millisecond {
		t.Errorf("after a run of 11s: got %v, want 100ms", got)
	}
}

// TestTermThatEndedNamesNoOther checks that a process whose own term has ended is not advised to
// ask itself.
func TestTermThatEndedNamesNoOther(t *testing.T) {
	own := leaseFor(time.Now, time.Hour)
	own.End(ErrResigned)
	if got := own.Term().notLeader(); got != ErrNotLeader {
		t.Errorf("after its own term: got %q, want %q", got, ErrNotLeader)
	}
	other := NewLease(LeaseConfig{Holder: Holder{ID: "n2"}})
	if got := other.Term().notLeader(); !strings.Contains(got.Error(), "ask n2") {
		t.Errorf("in the term of n2: got %q, want it to name n2", got)
	}
}
