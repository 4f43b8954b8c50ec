// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// startWorker starts an observer on port 9000+i that works.
func (w *world) startWorker(i int) (*Observer, *Worker) {
	w.t.Helper()
	o := w.startObserver(i)
	work, err := o.Work(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return o, work
}

func (w *world) openLock(s record.Store) *lock.Lock {
	w.t.Helper()
	l, err := lock.New(s, "job")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// holdLock holds the lock until its term ends or the returned function is called.
func (w *world) holdLock(s record.Store) (term leader.Term, ctx context.Context, release func()) {
	w.t.Helper()
	type begun struct {
		term leader.Term
		ctx  context.Context
	}
	held, done, over := make(chan begun), make(chan struct{}), make(chan error, 1)
	l := w.openLock(s)
	go func() {
		over <- l.Do(context.Background(), func(ctx context.Context, term leader.Term) error {
			held <- begun{term, ctx}
			select {
			case <-done:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	b := <-held
	return b.term, b.ctx, func() {
		close(done)
		if err := <-over; err != nil {
			w.t.Errorf("Do: %v", err)
		}
	}
}

// TestWorkersTakeTurns makes two workers and a member hold one lock in turn.
func TestWorkersTakeTurns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, first := w.startWorker(0)
		defer a.Close()
		b, second := w.startWorker(1)
		defer b.Close()
		var last member.Token
		for i, s := range []record.Store{
			first.Records(), second.Records(), w.nodes[2].Records(), first.Records(),
		} {
			term, _, release := w.holdLock(s)
			if !last.Less(term.Token()) || !term.Valid() {
				t.Errorf("holder %d: token %v after %v, valid=%v", i, term.Token(), last, term.Valid())
			}
			last = term.Token()
			release()
		}
	})
}

// TestWorkerKeepsItsLock holds a lock while the member that relays dies, while the leader dies, and
// while both are started again.
func TestWorkerKeepsItsLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range w.nodes {
			o := w.startObserver(i, addressOf(0), addressOf(1), addressOf(2))
			work, err := o.Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			term, ctx, release := w.holdLock(work.Records())
			for kill := range w.nodes {
				w.net.Kill(addressOf(kill))
				<-w.nodes[kill].Done()
				time.Sleep(10 * time.Second)
				if n, err := w.startNode(kill); err != nil {
					t.Fatal(err)
				} else {
					w.nodes[kill] = n
				}
				if err := w.nodes[kill].WaitActive(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
				if !term.Valid() {
					t.Fatalf("worker %d lost its lock when n%d died: %v", i, kill, context.Cause(ctx))
				}
			}
			release()
			o.Close()
		}
	})
}

// TestWorkerLeavesASilentMember cuts a worker off from the member that relays its messages.
func TestWorkerLeavesASilentMember(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		at := member.Address{Host: "127.0.0.1", Port: 9001}
		o := w.startObserver(1, addressOf(0), addressOf(1), addressOf(2))
		defer o.Close()
		work, err := o.Work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		term, ctx, release := w.holdLock(work.Records())
		for range 5 {
			home := o.currentHome()
			w.net.Cut(at, home)
			w.net.Cut(home, at)
			time.Sleep(30 * time.Second)
			w.net.Heal(at, home)
			w.net.Heal(home, at)
			if !term.Valid() {
				t.Fatalf("the worker lost its lock when %v was silent: %v", home, context.Cause(ctx))
			}
		}
		release()
	})
}

// TestLostWorkerFreesItsLock ends a worker without a release, and cuts one off.
func TestLostWorkerFreesItsLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i, end := range []func(*Observer){
			func(o *Observer) { o.Close() },
			func(*Observer) { w.net.Kill(member.Address{Host: "127.0.0.1", Port: 9001}) },
		} {
			o, work := w.startWorker(i)
			term, ctx, _ := w.holdLock(work.Records())
			end(o)
			began := time.Now()
			next, _, release := w.holdLock(w.nodes[2].Records())
			if term.Valid() || !term.Token().Less(next.Token()) {
				t.Errorf("%d: token %v is valid=%v beside %v", i, term.Token(), term.Valid(), next.Token())
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%d: the lock was free after %v", i, took)
			}
			synctest.Wait()
			if ctx.Err() == nil {
				t.Errorf("%d: the context of the function has not ended", i)
			}
			release()
			o.Close()
		}
	})
}

// TestWorkerWithoutMembers waits for a member and fails.
func TestWorkerWithoutMembers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.startObserver(0)
		defer o.Close()
		for i := range w.nodes {
			w.net.Kill(addressOf(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := o.Work(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Work without members: %v", err)
		}
	})
}

// TestWorkersOfAMember starts more workers than the members serve.
func TestWorkersOfAMember(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 48 {
			o, _ := w.startWorker(i)
			defer o.Close()
		}
		o := w.startObserver(48)
		defer o.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := o.Work(ctx); err == nil || !strings.Contains(err.Error(), "as many workers") {
			t.Errorf("the 49th worker: %v", err)
		}
	})
}

func TestObserverWorksOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o, work := w.startWorker(0)
		defer o.Close()
		if _, err := o.Work(t.Context()); !errors.Is(err, ErrWorking) {
			t.Errorf("Work for the second time: %v", err)
		}
		if err := work.Close(); err != nil {
			t.Error(err)
		}
		if _, err := work.Records().List(t.Context(), ""); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("List after Close: %v", err)
		}
	})
}
