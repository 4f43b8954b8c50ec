// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/election"
	leases "github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
)

func jobOf(t *testing.T, s record.Store) *election.Job {
	t.Helper()
	return open(t, s, "job", election.JobOptions{})
}

func TestLeaseOwnerIsCutOff(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var x Exclusive
		a := jobOf(t, stores[0])
		old := work(t, &x, a)
		first := old.next(t)
		other := work(t, &x, jobOf(t, stores[1]))
		clients[0].set(func(c *client) { c.cut = true })
		at := time.Now()
		if took := first.ends(t, leader.ErrLeaseEnded).Sub(at); took > leaseTrust {
			t.Errorf("the context ended %v after the cut, want %v at most", took, leaseTrust)
		}
		second := other.next(t)
		if took := second.at.Sub(at); took > leaseTimeout*5/4 || !first.token.Less(second.token) {
			t.Errorf("token %v after %v, another led %v after the cut", second.token, first.token, took)
		}
		clients[0].set(func(c *client) { c.cut = false })
		old.idle(t, 2*leaseTimeout)
		if second.ctx.Err() != nil {
			t.Error("the member that returned disturbed the other")
		}
		other.giveUp(t)
		if third := old.next(t); !second.token.Less(third.token) {
			t.Errorf("token %v after %v", third.token, second.token)
		}
	})
}

// A member trusts its lease from the time when it sends a renewal, not from the answer.
func TestLeaseIsAnsweredLate(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var x Exclusive
		const late = leaseTimeout / 4
		first := work(t, &x, jobOf(t, stores[0])).next(t)
		clients[0].set(func(c *client) { c.delay = late })
		time.Sleep(leaseTimeout)
		if first.ctx.Err() != nil {
			t.Fatalf("the context ended: %v", context.Cause(first.ctx))
		}
		began := lastRenewal(t, clients[0])
		time.Sleep(late) // until the answer
		clients[0].set(func(c *client) { c.cut = true })
		if took := first.ends(t, leader.ErrLeaseEnded).Sub(began); took != leaseTrust {
			t.Errorf("the context ended %v after the last renewal was sent, want %v", took, leaseTrust)
		}
	})
}

// lastRenewal waits for a renewal and returns the time at which it was sent.
func lastRenewal(t *testing.T, c *client) time.Time {
	t.Helper()
	c.service.mu.Lock()
	changed := c.changed
	c.service.mu.Unlock()
	<-changed
	return time.Now()
}

// The lease continues after the service was unavailable to all members.
func TestLeaseIsRenewedAfterTheServiceWasAway(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var x Exclusive
		w := work(t, &x, jobOf(t, stores[0]))
		first := w.next(t)
		clients[0].set(func(c *client) { c.cut = true })
		first.ends(t, leader.ErrLeaseEnded)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := stores[0].Session(nil).Commit(ctx, record.Op{Kind: record.Drop, Key: "k"})
		if !errors.Is(err, record.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, record.ErrUnknownOutcome) {
			t.Errorf("Commit: got %v, want ErrNoQuorum and why it ended", err)
		}
		clients[0].set(func(c *client) { c.cut = false })
		if again := w.next(t); again.token.Less(first.token) {
			t.Errorf("token %v after %v", again.token, first.token)
		}
	})
}

// A member that has had no answer for LeaseTimeout sends only renewals. So the outcome of its
// commit is known.
func TestLeaseServiceIsSilent(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		clients[0].set(func(c *client) { c.delay = time.Hour })
		time.Sleep(leaseTimeout)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := stores[0].Session(nil).Commit(ctx, record.Op{Kind: record.Set, Key: "k"})
		if !errors.Is(err, record.ErrNoQuorum) || errors.Is(err, record.ErrUnknownOutcome) {
			t.Errorf("Commit: got %v, want ErrNoQuorum", err)
		}
		if names, _ := clients[0].named("records/"); len(names) != 0 {
			t.Errorf("%q was written", names)
		}
	})
}

func TestLeaseRevoked(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var x Exclusive
		hung := make(chan struct{})
		defer close(hung)
		first := workWith(t, &x, jobOf(t, stores[0]), func(context.Context) { <-hung }).next(t)
		b := jobOf(t, stores[1])
		other := work(t, &x, b)
		clients[0].set(func(c *client) {
			c.sees = func(asked []leases.Change) {
				for _, a := range asked {
					if a.Kind == leases.Delete && first.ctx.Err() == nil {
						t.Errorf("%s is deleted while its context lasts", a.Name)
					}
				}
			}
		})
		enable(t, b, "n0", false)
		first.ends(t, leader.ErrDisabled)
		if next := other.next(t); next.at.Sub(first.at) > leaseTimeout/4 {
			t.Errorf("another led only %v after", next.at.Sub(first.at))
		}
	})
}

// A member that cannot reach the service holds a revoked record until its lease ends.
func TestLeaseRevokedFromAfar(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var x Exclusive
		first := work(t, &x, jobOf(t, stores[0])).next(t)
		b := jobOf(t, stores[1])
		other := work(t, &x, b)
		clients[0].set(func(c *client) { c.cut = true })
		at := time.Now()
		enable(t, b, "n0", false)
		r, ok := recordOfJob(t, stores[1], "job")
		if !ok || !r.Revoked || r.Token != first.token || first.ctx.Err() != nil {
			t.Errorf("got %+v, want the record revoked and its token %v", r, first.token)
		}
		again := record.Op{Kind: record.Drop, Key: r.Key}
		if _, err := stores[1].Session(nil).Commit(t.Context(), again); err != nil {
			t.Error(err)
		}
		if r, _ = recordOfJob(t, stores[1], "job"); r.Token != first.token {
			t.Errorf("dropped twice, the token is %v, want %v", r.Token, first.token)
		}
		held := record.Op{Kind: record.Held, Key: r.Key, Token: r.Token}
		_, err := stores[1].Session(nil).Commit(t.Context(), held)
		if !errors.Is(err, record.ErrConflict) {
			t.Errorf("a revoked record is held: %v", err)
		}
		if took := other.next(t).at.Sub(at); took < leaseTrust {
			t.Errorf("another led %v after the cut", took)
		}
		first.ends(t, leader.ErrLeaseEnded)
	})
}

// A write whose answer was lost cannot take effect after a later commit.
func TestLeaseUnknownOutcome(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		s, c := stores[0].Session(nil), clients[0]
		set := []record.Op{{Kind: record.Absent, Key: "k"}, {Kind: record.SetOwned, Key: "k"}}
		c.set(func(c *client) { c.late = true })
		if _, err := s.Commit(t.Context(), set...); !errors.Is(err, record.ErrUnknownOutcome) {
			t.Fatalf("Commit: got %v, want ErrUnknownOutcome", err)
		}
		c.set(func(c *client) { c.late = false })
		_, err := s.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "k"},
			record.Op{Kind: record.Drop, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		c.deliver()
		synctest.Wait()
		if r, err := stores[0].List(t.Context(), "k"); len(r) != 0 || err != nil {
			t.Errorf("got %+v, %v: the earlier commit took effect", r, err)
		}
	})
}

// Once a member has sent the request to drop a record, it no longer holds the record, even
// if the record still exists.
func TestLeaseReleased(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		s, c := stores[0].Session(nil), clients[0]
		token, err := s.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		drop := []record.Op{{Kind: record.Held, Key: "k", Token: token}, {Kind: record.Drop, Key: "k"}}
		err = RunHeld(t.Context(), s, "k", token, func(ctx context.Context) error {
			c.set(func(c *client) { c.late = true })
			defer c.set(func(c *client) { c.late = false })
			_, err := s.Commit(ctx, drop...)
			if !errors.Is(err, record.ErrUnknownOutcome) {
				t.Errorf("Commit: got %v, want ErrUnknownOutcome", err)
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, record.ErrReleased) {
			t.Errorf("the context ended with %v, want ErrReleased", err)
		}
		never := func(context.Context) error { t.Error("it is held"); return nil }
		if err := RunHeld(t.Context(), s, "k", token, never); !errors.Is(err, record.ErrNotHeld) {
			t.Errorf("Hold: got %v, want ErrNotHeld", err)
		}
		next, err := s.Commit(t.Context(), drop[0], record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil || !token.Less(next) {
			t.Fatalf("set again: got %v, %v", next, err)
		}
		err = RunHeld(t.Context(), s, "k", next, func(ctx context.Context) error {
			c.deliver()
			synctest.Wait()
			return ctx.Err()
		})
		if r, _ := stores[0].List(t.Context(), "k"); err != nil || len(r) != 1 {
			t.Errorf("got %+v, %v: the earlier drop took effect", r, err)
		}
	})
}

// Entries that a member leaves behind are overwritten or deleted.
func TestLeaseIsTidied(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		a, b := stores[0].Session(nil), stores[1].Session(nil)
		for _, key := range []string{"k", "l"} {
			if _, err := a.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		stay := record.Op{Kind: record.Set, Key: "stays", Value: []byte("v")}
		if _, err := a.Commit(t.Context(), stay); err != nil {
			t.Fatal(err)
		}
		if err := stores[0].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r, err := stores[1].List(t.Context(), ""); len(r) != 1 || err != nil {
			t.Errorf("got %+v, %v, want what stays", r, err)
		}
		_, err := b.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "k"},
			record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Error(err)
		}
		time.Sleep(leaseTimeout)
		if got := clients[0].left(); got != 3 {
			t.Errorf("%d entries, want a lease, its record, and what stays", got)
		}
	})
}

func TestLeaseClosed(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var x Exclusive
		w := work(t, &x, jobOf(t, stores[0]))
		first := w.next(t)
		other := work(t, &x, jobOf(t, stores[1]))
		watch := stores[0].Watch(t.Context(), "")
		if err := stores[0].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := first.ends(t, leader.ErrClosed).Sub(other.next(t).at); took > 0 {
			t.Errorf("the context ended %v after another led", took)
		}
		if err := <-w.done; !errors.Is(err, leader.ErrClosed) {
			t.Errorf("WhileLeader: got %v, want ErrClosed", err)
		}
		s := stores[0].Session(nil)
		_, commit := s.Commit(t.Context(), record.Op{Kind: record.Set, Key: "k"})
		_, records := stores[0].List(t.Context(), "")
		hold := RunHeld(t.Context(), s, "k", member.Token{}, nil)
		for name, err := range map[string]error{"Commit": commit, "Records": records, "Hold": hold} {
			if !errors.Is(err, leader.ErrClosed) {
				t.Errorf("%s: got %v, want ErrClosed", name, err)
			}
		}
		for range watch { // ends when the Store is closed
		}
	})
}

func TestLeaseClosedMeanwhile(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		clients[0].set(func(c *client) { c.cut = true })
		done := make(chan error)
		go func() {
			_, err := stores[0].Session(nil).Commit(t.Context(), record.Op{Kind: record.Drop, Key: "k"})
			done <- err
		}()
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := stores[0].Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %v, want why the lease is not removed", err)
		}
		if err := <-done; !errors.Is(err, leader.ErrClosed) || errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Commit: got %v, want ErrClosed", err)
		}
	})
}

// When a Store sees a manual change, it ends the contexts that depend on the changed entry.
func TestLeaseByHand(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		const key = "records/latch/job/leader"
		var x Exclusive
		w := work(t, &x, jobOf(t, stores[0]))
		for _, by := range []struct {
			kind leases.Kind
			name string
			want error
		}{
			{leases.Delete, key, record.ErrNotHeld},
			{leases.Put, key, record.ErrNotHeld},
			{leases.Delete, "leases/", leader.ErrLeaseEnded},
		} {
			led := w.next(t)
			names, revisions := clients[1].named(by.name)
			at := time.Now()
			for i, name := range names {
				_, err := clients[1].Write(t.Context(), leases.Change{
					Kind: by.kind, Name: name, Revision: revisions[i], Value: []byte("by hand"),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if took := led.ends(t, by.want).Sub(at); took > 0 {
				t.Errorf("%s: the context ended after %v", by.name, took)
			}
			if _, err := stores[1].Session(nil).Commit(t.Context(), record.Op{
				Kind: record.Drop, Key: "latch/job/leader"}); err != nil {
				t.Fatal(err)
			}
		}
		w.next(t)
	})
}

// A member that does not see a lease must not delete the records under it.
func TestLeaseIsHidden(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		a := stores[0].Session(nil)
		clients[1].set(func(c *client) { c.hides = "leases/" })
		token, err := a.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		err = RunHeld(t.Context(), a, "k", token, func(ctx context.Context) error {
			time.Sleep(leaseTimeout / 2)
			return ctx.Err()
		})
		if names, _ := clients[0].named("records/k"); len(names) != 1 || err != nil {
			t.Errorf("%d records are left, %v", len(names), err)
		}
	})
}

// A context ends before its lease is removed, and belongs to a single session.
func TestLeaseHeldUntilItIsClosed(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		s := stores[0].Session(nil)
		token, err := s.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		never := func(context.Context) error { t.Error("another session holds it"); return nil }
		err = RunHeld(t.Context(), stores[0].Session(nil), "k", token, never)
		if !errors.Is(err, record.ErrNotHeld) {
			t.Errorf("Hold: got %v, want ErrNotHeld", err)
		}
		err = RunHeld(t.Context(), s, "k", token, func(ctx context.Context) error {
			clients[0].set(func(c *client) {
				c.sees = func(asked []leases.Change) {
					if asked[0].Kind == leases.Delete && ctx.Err() == nil {
						t.Errorf("%s is deleted while its context lasts", asked[0].Name)
					}
				}
			})
			if err := stores[0].Close(t.Context()); err != nil {
				t.Error(err)
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, leader.ErrClosed) {
			t.Errorf("the context ended with %v, want ErrClosed", err)
		}
	})
}

// If Follow is stuck, the Store restarts Follow. It does so earlier if it does not see its own
// renewals.
func TestLeaseHearsNothing(t *testing.T) {
	for within, fault := range map[time.Duration]func(*client){
		2 * leaseTimeout:  func(c *client) { c.deaf = true },
		11 * leaseTimeout: func(c *client) { c.hides = "records/" },
	} {
		inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
			clients[1].set(fault)
			set := record.Op{Kind: record.Set, Key: "k"}
			if _, err := stores[0].Session(nil).Commit(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			time.Sleep(within)
			if r, err := stores[1].List(t.Context(), "k"); len(r) != 1 || err != nil {
				t.Errorf("got %+v, %v after %v, want the record", r, err, within)
			}
		})
	}
}

// A commit fails if the member is wrong about the leases of other members.
func TestLeaseBeliefs(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		a, b := stores[0].Session(nil), stores[1].Session(nil)
		set := record.Op{Kind: record.SetOwned, Key: "k"}
		if _, err := a.Commit(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		conflicts := func(what string, first record.Op) {
			t.Helper()
			_, err := b.Commit(t.Context(), first, record.Op{Kind: record.Set, Key: "other"})
			if !errors.Is(err, record.ErrConflict) {
				t.Errorf("%s: got %v, want ErrConflict", what, err)
			}
		}
		clients[1].set(func(c *client) { c.hides = "leases/" })
		if err := stores[0].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := leases.Open(t.Context(), clients[0], leases.Config{Member: "n0"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		token, err := s.Session(nil).Commit(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		conflicts("one that seems to be left behind", record.Op{Kind: record.Absent, Key: "k"})
		clients[1].set(func(c *client) { c.hides = "" })
		if _, err := b.Commit(t.Context(), record.Op{Kind: record.Set, Key: "look"}); err != nil {
			t.Fatal(err)
		}
		clients[1].set(func(c *client) { c.deaf = true })
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		conflicts("a remaining entry", record.Op{Kind: record.Held, Key: "k", Token: token})
		if _, err := b.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "k"}); err != nil {
			t.Errorf("a remaining entry: %v", err)
		}
	})
}

// An entry written by another program is a record like any other, and can be dropped.
func TestLeaseForeignEntries(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		_, err := clients[0].Write(t.Context(),
			leases.Change{Kind: leases.Put, Name: "records/k", Value: []byte("by hand")},
			leases.Change{Kind: leases.Put, Name: "leases/x", Value: []byte("by hand")},
			leases.Change{Kind: leases.Put, Name: "leases/y", Value: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r, _ := stores[0].List(t.Context(), ""); len(r) != 1 || r[0].IsOwned() {
			t.Errorf("got %+v, want one without an owner", r)
		}
		s := stores[0].Session(nil)
		if _, err := s.Commit(t.Context(), record.Op{Kind: record.Drop, Key: "k"}); err != nil {
			t.Error(err)
		}
		time.Sleep(leaseTimeout / 2)
		if got := clients[0].left(); got != 3 {
			t.Errorf("%d entries, want the leases, which may be those of others", got)
		}
		time.Sleep(2 * leaseTimeout)
		if got := clients[0].left(); got != 1 {
			t.Errorf("%d entries, want the own lease", got)
		}
	})
}

// No fault makes contexts overlap or tokens decrease.
func TestLeaseUnderFaults(t *testing.T) {
	for seed := range uint64(8) {
		inService(t, 3, func(t *testing.T, clients []*client, stores []*leases.Store) {
			r := rand.New(rand.NewPCG(seed, 0))
			var led, locked Exclusive
			var workers []*worker
			for i := range stores {
				j := jobOf(t, stores[i])
				workers = append(workers, work(t, &led, j))
				l := lockOf(t, stores[i])
				go func() {
					for l.Do(t.Context(), func(ctx context.Context, term leader.Term) error {
						if err := locked.EnterTerm(ctx, term); err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
						programs.Pause(t, time.Second)
						return nil
					}) == nil {
					}
				}()
			}
			for range 100 {
				c := clients[r.IntN(len(clients))]
				c.set(func(c *client) {
					c.cut, c.late = r.IntN(3) == 0, r.IntN(5) == 0
					c.delay = time.Duration(r.Int64N(2)) * time.Duration(r.Int64N(int64(leaseTimeout)))
				})
				if r.IntN(4) == 0 {
					c.deliver()
				}
				time.Sleep(time.Duration(r.Int64N(int64(leaseTimeout))))
			}
			for _, c := range clients {
				c.set(func(c *client) { c.cut, c.late, c.delay = false, false, 0 })
			}
			began := 0
			for _, w := range workers {
				began += len(w.began)
			}
			if began < 4 {
				t.Errorf("seed %d: %d leaderships in %v, want some", seed, began, 50*leaseTimeout)
			}
		})
	}
}

func TestLeaseLimits(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		long := make([]byte, member.MaxKeyBytes+1)
		for i := range long {
			long[i] = 'k'
		}
		var many []record.Op
		for i := range 64 {
			many = append(many, record.Op{Kind: record.Set, Key: string(long[:i+1])})
		}
		s := stores[0].Session(nil)
		for name, ops := range map[string][]record.Op{
			"no key": {{Kind: record.Set}}, "long key": {{Kind: record.Set, Key: string(long)}},
			"value": {{Kind: record.Set, Key: "k", Value: make([]byte, member.MaxValueBytes+1)}},
			"many":  many,
		} {
			if _, err := s.Commit(t.Context(), ops...); !errors.Is(err, record.ErrTooLarge) {
				t.Errorf("%s: got %v, want ErrTooLarge", name, err)
			}
		}
		most := record.Op{Kind: record.Set, Key: string(long[1:])}
		most.Value = make([]byte, member.MaxValueBytes)
		if _, err := s.Commit(t.Context(), append(many[:62], most)...); err != nil {
			t.Errorf("at the limits: %v", err)
		}
		for _, cfg := range []leases.Config{{}, {Member: "a\n"}, {Member: "a", LeaseTimeout: 1}} {
			if _, err := leases.Open(t.Context(), clients[0], cfg); err == nil {
				t.Errorf("%+v was taken", cfg)
			}
		}
	})
}

// The largest commit changes records that each belong to a different member.
func TestLeaseCommitOfMany(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		var drop []record.Op
		for i := range 63 {
			key := fmt.Sprint("k", i)
			_, err := clients[0].write([]leases.Change{
				{Kind: leases.Put, Name: "leases/" + key},
				{Kind: leases.Put, Name: "records/" + key, Value: fmt.Appendf(nil, `{"lease":%q}`, key)},
			})
			if err != nil {
				t.Fatal(err)
			}
			drop = append(drop, record.Op{Kind: record.Drop, Key: key})
		}
		if _, err := stores[0].Session(nil).Commit(t.Context(), drop...); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// Another member takes over after the timeout that the owner wrote into its lease.
func TestLeaseTimeoutsDiffer(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		const timeout = 3 * leaseTimeout
		c := &client{service: clients[0].service}
		s, err := leases.Open(t.Context(), c, leases.Config{Member: "slow", LeaseTimeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		var x Exclusive
		first := work(t, &x, jobOf(t, s)).next(t)
		other := work(t, &x, jobOf(t, stores[0]))
		c.set(func(c *client) { c.cut = true })
		at := time.Now()
		second := other.next(t)
		if took := second.at.Sub(at); took < timeout*4/5 || took > timeout*5/4 {
			t.Errorf("another led %v after the cut, want about %v", took, timeout)
		}
		first.ends(t, leader.ErrLeaseEnded)
		c.set(func(c *client) { c.cut = false })
	})
}
