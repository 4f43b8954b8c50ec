// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

func TestL03TheRecordIsTheLeadersOwn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leads(t, w.job(1), true)
		r, err := record.Get(t.Context(), w.nodes[1].Records(), "latch/job/leader")
		if err != nil || string(r.Value) != address(1).String() || r.Owner != w.nodes[1].Self().Identity {
			t.Errorf("got %+v, %v, want the id and the identity of node 1", r, err)
		}
	})
}

func TestL04HolderCrashes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		f := w.followers()
		first := work(t, &x, w.job(f[0])).next(t)
		other := work(t, &x, w.job(f[1]))
		at := time.Now()
		if err := w.nodes[f[0]].Close(); err != nil {
			t.Fatal(err)
		}
		first.ends(t, leader.ErrClosed)
		next := other.next(t)
		if took := next.at.Sub(at); took < trust || took > hold+4*heartbeat ||
			!first.token.Less(next.token) {
			t.Errorf("token %v after %v, another led %v after the crash", next.token, first.token, took)
		}
	})
}

// First the cluster must elect another leader.
func TestL04HolderThatLedTheClusterCrashes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		led := w.leader()
		first := work(t, &x, w.job(led)).next(t)
		other := work(t, &x, w.job(w.followers()[0]))
		time.Sleep(hold)
		at := time.Now()
		if err := w.nodes[led].Close(); err != nil {
			t.Fatal(err)
		}
		first.ends(t, leader.ErrClosed)
		next := other.next(t)
		if took := next.at.Sub(at); took > hold+heartbeat || !first.token.Less(next.token) {
			t.Errorf("token %v after %v, another led %v after the crash", next.token, first.token, took)
		}
	})
}

func TestL05HolderIsCutOff(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		f := w.followers()
		first := work(t, &x, w.job(f[0])).next(t)
		other := work(t, &x, w.job(f[1]))
		at := time.Now()
		w.cut(f[0])
		if took := first.ends(t, leader.ErrLeaseEnded).Sub(at); took > trust {
			t.Errorf("the context ended %v after the cut, want %v at most", took, trust)
		}
		next := other.next(t)
		if took := next.at.Sub(at); took > hold+4*heartbeat {
			t.Errorf("another led %v after the cut", took)
		}
	})
}

// In a paused process no context ends, so only the token protects the data.
func TestL06HolderIsPaused(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		f := w.followers()
		var written member.Token
		write := func(token member.Token) bool {
			if token.Less(written) {
				return false
			}
			written = token
			return true
		}
		var old, next Exclusive
		first := work(t, &old, w.job(f[0])).next(t)
		if !write(first.token) {
			t.Error("the first write was refused")
		}
		other := work(t, &next, w.job(f[1]))
		w.clocks[f[0]].pause()
		second := other.next(t)
		if !write(second.token) || write(first.token) {
			t.Errorf("tokens %v, then %v: want the first refused now", first.token, second.token)
		}
		w.clocks[f[0]].resume()
		first.ends(t, leader.ErrLeaseEnded)
	})
}

func TestL10HolderThatHangsIsDisabled(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		hung := make(chan struct{})
		a := w.job(0)
		hanging := workWith(t, &x, a, func(context.Context) { <-hung })
		first := hanging.next(t)
		b := w.job(1)
		other := work(t, &x, b)
		if err := b.Enable(t.Context(), address(0).String(), false); err != nil {
			t.Fatal(err)
		}
		r, err := record.Get(t.Context(), w.nodes[w.leader()].Records(), "latch/job/leader")
		if err == nil && r.Token == first.token &&
			!r.Revoked {
			t.Error("the member is disabled, and its record not revoked")
		}
		first.ends(t, leader.ErrDisabled)
		if next := other.next(t); next.at.Sub(first.at) > hold {
			t.Errorf("another led only after %v", next.at.Sub(first.at))
		}
		leads(t, a, false)
		close(hung)
		hanging.idle(t, 10*time.Second)
	})
}

func TestL16TwoMembersOfOneHost(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.job(0), w.job(1)
		if err := a.Enable(t.Context(), address(0).String(), false); err != nil {
			t.Fatal(err)
		}
		becomesLeader(t, b)
		leads(t, a, false)
	})
}

func TestL21BackWithinTheLease(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		f := w.followers()
		first := work(t, &x, w.job(f[0])).next(t)
		counts := Count(w.nodes[f[1]].Records())
		awaitRecord(t, counts)
		other := work(t, &x, open(t, counts, "job", election.JobOptions{}))
		for range 10 {
			w.cut(f[0])
			time.Sleep(trust - 4*heartbeat)
			w.heal(f[0])
			time.Sleep(hold)
		}
		if first.ctx.Err() != nil || counts.Commits() != 0 {
			t.Errorf("the context: %v, commits of another member %d, want neither",
				context.Cause(first.ctx), counts.Commits())
		}
		other.idle(t, 0)
	})
}

func TestL22BackAfterTheLease(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		f := w.followers()
		a := w.job(f[0])
		old := work(t, &x, a)
		first := old.next(t)
		other := work(t, &x, w.job(f[1]))
		w.cut(f[0])
		second := other.next(t)
		w.heal(f[0])
		eventually(t, "sight of the other leader", func() bool {
			by, _ := a.Leader()
			return by.ID == address(f[1]).String()
		})
		old.idle(t, 10*time.Second)
		if second.ctx.Err() != nil || first.ctx.Err() == nil {
			t.Error("the member that returned disturbed the other")
		}
		// After a restart the node takes part normally.
		if err := w.nodes[f[0]].Close(); err != nil {
			t.Fatal(err)
		}
		w.start(f[0])
		awaitRecord(t, w.nodes[f[0]].Records())
		again := work(t, &x, w.job(f[0]))
		other.giveUp(t)
		again.next(t)
	})
}

// The leader does not yet know that the member has returned, so it refuses the requests of the
// member.
func TestL22AsksAsSoonAsItIsBack(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		f := w.followers()[0]
		l := lockOf(t, w.nodes[f].Records())
		for after := 4 * heartbeat; after < hold; after += heartbeat / 5 {
			w.cut(f)
			time.Sleep(after)
			w.heal(f)
			err := l.Do(t.Context(), func(context.Context, leader.Term) error { return nil })
			if err != nil {
				t.Errorf("after a cut of %v: %v", after, err)
			}
			time.Sleep(hold)
		}
	})
}

func TestL23EveryEndHasAReason(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		f := w.followers()
		a := w.job(f[0])
		holder := work(t, &x, a)
		led := holder.next(t)
		if _, err := w.nodes[f[1]].Records().Session(nil).Commit(t.Context(),
			record.Op{Kind: record.Drop, Key: "latch/job/leader"}); err != nil {
			t.Fatal(err)
		}
		led.ends(t, record.ErrNotHeld)
		led = holder.next(t)
		other := func(ctx context.Context, id string, on bool) error {
			return election.EnableJob(ctx, w.nodes[f[1]].Records(), "job", id, on)
		}
		for _, enable := range []func(context.Context, string, bool) error{a.Enable, other} {
			if err := enable(t.Context(), address(f[0]).String(), false); err != nil {
				t.Fatal(err)
			}
			led.ends(t, leader.ErrDisabled)
			if err := enable(t.Context(), address(f[0]).String(), true); err != nil {
				t.Fatal(err)
			}
			led = holder.next(t)
		}
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		led.ends(t, leader.ErrResigned)
		led = holder.next(t)
		w.cut(f[0])
		led.ends(t, leader.ErrLeaseEnded)
		w.heal(f[0])
		led = holder.next(t)
		if err := w.nodes[f[0]].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		led.ends(t, cluster.ErrLeft)
		if err := <-holder.done; !errors.Is(err, leader.ErrClosed) || !errors.Is(err, cluster.ErrLeft) {
			t.Errorf("WhileLeader of a node that left: got %v", err)
		}
		b := w.job(f[1])
		led = work(t, &x, b).next(t)
		closeJob(t, b)
		led.ends(t, leader.ErrClosed)
	})
}

func TestL26AnotherLeadsTheCluster(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		led, f := w.leader(), w.followers()
		first := work(t, &x, w.job(f[0])).next(t)
		if err := w.nodes[led].Transfer(t.Context(), address(f[1])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * hold)
		if first.ctx.Err() != nil {
			t.Errorf("the context ended with %v when the cluster's leader handed over",
				context.Cause(first.ctx))
		}
		if err := w.nodes[f[1]].Close(); err != nil { // a crash
			t.Fatal(err)
		}
		time.Sleep(10 * hold)
		if first.ctx.Err() != nil {
			t.Errorf("the context ended with %v when the cluster's leader crashed",
				context.Cause(first.ctx))
		}
	})
}

func TestL27BelowAMajority(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var x Exclusive
		a := w.job(0)
		first := work(t, &x, a).next(t)
		b := open(t, w.nodes[1].Records(), "other", election.JobOptions{Disabled: true})
		w.cut(0)
		w.cut(1)
		at := time.Now()
		if took := first.ends(t, leader.ErrLeaseEnded).Sub(at); took > trust {
			t.Errorf("the context ended after %v", took)
		}
		synctest.Wait()
		within := func() context.Context {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			t.Cleanup(stop)
			return ctx
		}
		if by, err := a.WaitLeader(within()); !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("WaitLeader: got %+v, %v, want ErrNoQuorum", by, err)
		}
		err := b.Enable(within(), address(1).String(), true)
		if !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Enable: got %v, want ErrNoQuorum", err)
		}
		err = lockOf(t, w.nodes[0].Records()).Do(within(),
			func(context.Context, leader.Term) error { return nil })
		if !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Do: got %v, want ErrNoQuorum", err)
		}
		w.heal(0)
		w.heal(1)
		becomesLeader(t, a)
	})
}

// The records of a closed node end without being dropped, so Do does not wait until they are.
func TestL27LockOfAClosedNode(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		at := time.Now()
		within, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := lockOf(t, w.nodes[0].Records()).Do(within,
			func(ctx context.Context, _ leader.Term) error {
				go w.nodes[0].Close()
				<-ctx.Done()
				return context.Cause(ctx)
			})
		if took := time.Since(at); !errors.Is(err, leader.ErrClosed) || took > time.Second {
			t.Errorf("got %v after %v, want ErrClosed within a second", err, took)
		}
	})
}

func TestL28ProvisionalLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.start(2) // the node is alone and leads provisionally
		j := w.job(2)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if by, err := j.WaitLeader(ctx); !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("WaitLeader: got %+v, %v, want ErrNoQuorum", by, err)
		}
	})
}

func TestL31ManyJobsStart(t *testing.T) {
	const jobs, members = 1000, 5
	inWorld(t, members, func(t *testing.T, w *world) {
		var all [members][]*election.Job
		var stores []*Counter
		for i := range members {
			stores = append(stores, Count(w.nodes[i].Records()))
			for n := range jobs {
				all[i] = append(all[i], open(t, stores[i], fmt.Sprint("job", n), election.JobOptions{}))
			}
		}
		time.Sleep(10 * time.Second)
		for i, s := range stores {
			led := 0
			for _, j := range all[i] {
				if j.IsLeader() {
					led++
				}
			}
			if led < jobs/members/2 || led > jobs/members*2 || s.Commits() != led {
				t.Errorf("member %d leads %d jobs of %d by %d commits, want about %d by as many",
					i, led, jobs, s.Commits(), jobs/members)
			}
		}
	})
}
