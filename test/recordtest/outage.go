// SPDX-License-Identifier: Apache-2.0

//go:build unix

package recordtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
)

// Outages kills and pauses the only server of several Stores, in real time. It checks that every
// term ends within timeout, the timeout of the leases, and that terms never overlap. The function
// open must open a new member, which stays open until the end of the test.
func Outages(
	t *testing.T, s *programs.Server, timeout time.Duration,
	open func(t *testing.T, id string) record.Store,
) {
	for _, o := range []struct {
		name string
		away func()
		back func()
	}{
		{"Killed", s.Kill, s.Start},
		{"Paused", s.Pause, s.Resume},
	} {
		t.Run(o.name, func(t *testing.T) {
			var x Exclusive
			a := open(t, "a")
			l := lead(t, &x, a, open(t, "b"))
			first := l.next(t)
			at := time.Now()
			o.away()
			first.ends(t)
			if took := time.Since(at); took > timeout ||
				!errors.Is(context.Cause(first.ctx), leader.ErrLeaseEnded) {
				t.Errorf("the context ended %v after the server stopped, with %v; want ErrLeaseEnded within %v",
					took, context.Cause(first.ctx), timeout)
			}
			within, stop := context.WithTimeout(t.Context(), timeout/2)
			defer stop()
			_, err := a.Session(nil).Commit(within, record.Op{Kind: record.Set, Key: "k"})
			if !errors.Is(err, record.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Commit: got %v, want ErrNoQuorum and the cause of the context", err)
			}
			programs.Pause(t, timeout/2)
			o.back()
			if next := l.next(t); next.token.Less(first.token) {
				t.Errorf("the token decreased to %v from %v", next.token, first.token)
			}
		})
	}
	t.Run("Random", func(t *testing.T) {
		var x Exclusive
		l := lead(t, &x, open(t, "a"), open(t, "b"), open(t, "c"))
		for end := time.Now().Add(3 * timeout); time.Now().Before(end); {
			s.Pause()
			programs.Pause(t, rand.N(timeout*3/2))
			if rand.N(2) == 0 {
				s.Kill()
				s.Start()
			}
			s.Resume()
			programs.Pause(t, rand.N(timeout))
		}
		l.next(t)
	})
}

// CutOff uses a relay to cut a member off from its server. It checks that the term of the member
// ends before another member leads, and that the member later sees the changes that it missed.
func CutOff(t *testing.T, r *programs.Relay, behind, other record.Store, meanwhile func()) {
	var x Exclusive
	first := lead(t, &x, behind).next(t)
	others := lead(t, &x, other)
	r.Cut()
	next := others.next(t)
	if why := context.Cause(first.ctx); !errors.Is(why, leader.ErrLeaseEnded) {
		t.Errorf("the context ended with %v, want ErrLeaseEnded", why)
	}
	if !first.token.Less(next.token) {
		t.Errorf("token %v follows %v, want a greater one", next.token, first.token)
	}
	_, err := other.Session(nil).Commit(t.Context(),
		record.Op{Kind: record.Set, Key: "test/meanwhile"})
	if err != nil {
		t.Fatal(err)
	}
	meanwhile()
	r.Heal()
	eventually(t, "record that was set during the cut", func() bool {
		seen, err := behind.List(t.Context(), "test/meanwhile")
		return len(seen) == 1 && err == nil
	})
	if next.ctx.Err() != nil {
		t.Errorf("the reconnected member ended the term of the other member: %v", context.Cause(next.ctx))
	}
}

// leading receives the terms of a job as they begin.
type leading chan leadership

type leadership struct {
	ctx   context.Context
	token member.Token
}

// lead lets the members lead one job until the end of the test. The test fails if two of
// them lead at the same time.
func lead(t *testing.T, x *Exclusive, stores ...record.Store) leading {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	began := make(leading)
	for _, s := range stores {
		j := open(t, s, "job", election.JobOptions{})
		running.Go(func() {
			_ = j.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
				if err := x.EnterTerm(ctx, term); err != nil {
					t.Error(err)
				}
				select {
				case began <- leadership{ctx, term.Token()}:
				case <-ctx.Done():
				}
				<-ctx.Done()
				return nil
			})
		})
	}
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	return began
}

// next returns the next term that has not ended yet.
func (l leading) next(t *testing.T) leadership {
	t.Helper()
	for end := time.After(programs.Patience); ; {
		select {
		case n := <-l:
			if n.ctx.Err() == nil {
				return n
			}
		case <-end:
			t.Fatalf("no member has become leader within %v", programs.Patience)
		}
	}
}

// ends waits for the end of the term.
func (l leadership) ends(t *testing.T) {
	t.Helper()
	select {
	case <-l.ctx.Done():
	case <-time.After(programs.Patience):
		t.Fatalf("the context has not ended within %v", programs.Patience)
	}
}
