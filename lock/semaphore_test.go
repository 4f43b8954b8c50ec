// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// queueTest checks the order in which callers of a semaphore get permits.
type queueTest struct {
	t       *testing.T
	table   *record.Memory
	permits int
	callers []*queueCaller

	mu      sync.Mutex
	waiting []*queueCaller // in the order in which they joined the queue
	holders []context.Context
	last    member.Token
}

// queueCaller is a call of Do.
type queueCaller struct {
	id     int
	host   string
	gone   bool // the call was canceled, or its host has crashed
	cancel func()
	done   chan error
}

// call starts a caller in the background. The caller joins the queue and later holds a permit for a
// while.
func (q *queueTest) call(host string, holds time.Duration) {
	q.t.Helper()
	s, err := NewSemaphore(q.table.Store(host), "a", q.permits)
	if err != nil {
		q.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &queueCaller{id: len(q.callers), host: host, cancel: cancel, done: make(chan error, 1)}
	q.callers = append(q.callers, c)
	q.mu.Lock()
	q.waiting = append(q.waiting, c)
	q.mu.Unlock()
	go func() {
		c.done <- s.Do(ctx, func(ctx context.Context, term leader.Term) error {
			ctx, end := context.WithCancel(ctx)
			defer end()
			q.beginCall(ctx, c, term.Token())
			select {
			case <-time.After(holds):
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		})
	}()
	synctest.Wait() // the caller is in the queue now
}

// beginCall checks that a caller may hold a permit. If several permits become free simultaneously,
// the first callers get them in any order.
func (q *queueTest) beginCall(ctx context.Context, c *queueCaller, token member.Token) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, c); i < 0 || i >= q.permits {
		q.t.Errorf("caller %d is at place %d and gets one of %d permits", c.id, i, q.permits)
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(other *queueCaller) bool { return other == c })
	q.holders = append(q.holders, ctx)
	q.holders = slices.DeleteFunc(q.holders, func(c context.Context) bool { return c.Err() != nil })
	if len(q.holders) > q.permits {
		q.t.Errorf("%d callers hold %d permits", len(q.holders), q.permits)
	}
	if q.permits == 1 && !q.last.Less(token) {
		q.t.Errorf("caller %d: token %v after %v", c.id, token, q.last)
	}
	q.last = token
}

// leaveCalls cancels callers.
func (q *queueTest) leaveCalls(is func(*queueCaller) bool) {
	q.mu.Lock()
	q.waiting = slices.DeleteFunc(q.waiting, is)
	q.mu.Unlock()
	for _, c := range q.callers {
		if is(c) {
			c.gone = true
			c.cancel()
		}
	}
	synctest.Wait()
}

// TestQueueOrder runs random callers on several hosts. The callers wait and leave, and hosts crash.
// The callers that have waited longest get the permits.
func TestQueueOrder(t *testing.T) {
	for seed := range uint64(80) {
		synctest.Test(t, func(t *testing.T) { drawQueue(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func drawQueue(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	pause := func(milliseconds int) time.Duration {
		return time.Duration(r.IntN(milliseconds)) * time.Millisecond
	}
	q := &queueTest{t: t, table: record.NewMemory(), permits: 1 + r.IntN(3)}
	for id := range 40 {
		q.call(fmt.Sprint("host-", r.IntN(4)), pause(3000))
		time.Sleep(pause(500))
		host := q.callers[r.IntN(id+1)].host
		switch r.IntN(8) {
		case 0, 1:
			left := r.IntN(id + 1)
			q.leaveCalls(func(c *queueCaller) bool { return c.id == left })
		case 2: // the host crashes, and starts again later
			q.table.Cut(host)
			q.leaveCalls(func(c *queueCaller) bool { return c.host == host })
			time.Sleep(pause(500))
			q.table.Heal(host)
		}
	}
	for _, c := range q.callers {
		if err := <-c.done; err != nil && !c.gone {
			t.Errorf("caller %d: %v", c.id, err)
		}
		c.cancel()
	}
	if len(q.waiting) > 0 {
		t.Errorf("%d callers still wait", len(q.waiting))
	}
	time.Sleep(time.Minute)
	if left, _ := q.table.Store("host-0").List(t.Context(), ""); len(left) > 0 {
		t.Errorf("records are left: %v", left)
	}
}

// TestFairMutexIsALock checks that a fair mutex and a Lock with the same name exclude each other.
func TestFairMutexIsALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		l, err := New(table.Store("a"), "job/x")
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSemaphore(table.Store("b"), "job/x", 1)
		if err != nil {
			t.Fatal(err)
		}
		var held, runs int
		hold := func(context.Context, leader.Term) error {
			if held++; held > 1 {
				t.Error("both are held")
			}
			time.Sleep(time.Second)
			held--
			runs++
			return nil
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { _ = l.Do(t.Context(), hold) })
			all.Go(func() { _ = s.Do(t.Context(), hold) })
		}
		all.Wait()
		if runs != 10 {
			t.Errorf("%d runs, want 10", runs)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestQueuesOfNames checks that semaphores whose names have a common prefix have separate queues.
func TestQueuesOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		begin := func(name string) (began chan bool) {
			s, err := NewSemaphore(table.Store("a"), name, 1)
			if err != nil {
				t.Fatal(err)
			}
			began = make(chan bool, 1)
			all.Go(func() {
				_ = s.Do(ctx, func(ctx context.Context, _ leader.Term) error {
					began <- true
					<-ctx.Done()
					return nil
				})
			})
			synctest.Wait()
			return began
		}
		<-begin("j/a/b")
		begin("j/a/b") // waits
		select {
		case <-begin("j/a"):
		default:
			t.Error("j/a waits for the queue of j/a/b")
		}
		stop()
		all.Wait()
		time.Sleep(time.Minute) // the records are dropped in the background
	})
}

// TestSemaphoreRefused checks the errors of wrong arguments and of a caller that does not wait.
func TestSemaphoreRefused(t *testing.T) {
	store := record.NewMemory().Store("a")
	for _, c := range []struct {
		name    string
		permits int
	}{
		{"a", 0}, {"a", maxPermits + 1}, {"", 1}, {"/a", 1}, {"a\n", 1}, {strings.Repeat("a", 230), 1},
		{strings.Repeat("a", 240), 200},
	} {
		if _, err := NewSemaphore(store, c.name, c.permits); err == nil {
			t.Errorf("name %q with %d permits: no error", c.name, c.permits)
		}
	}
	s, err := NewSemaphore(store, "a", 2)
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	err = s.Do(ctx, func(context.Context, leader.Term) error { return nil })
	if !errors.Is(err, want) {
		t.Errorf("Do: %v, want %v", err, want)
	}
}

// TestCloseSemaphore checks that Close ends the functions that hold permits and the callers that
// wait, and returns after their records were dropped.
func TestCloseSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		s, err := NewSemaphore(table.Store("a"), "x", 2)
		if err != nil {
			t.Fatal(err)
		}
		var ran, ended atomic.Int64
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				err := s.Do(t.Context(), func(ctx context.Context, _ leader.Term) error {
					ran.Add(1)
					<-ctx.Done()
					time.Sleep(time.Second)
					ended.Add(1)
					return context.Cause(ctx)
				})
				if !errors.Is(err, leader.ErrClosed) {
					t.Errorf("Do: got %v, want ErrClosed", err)
				}
			})
		}
		time.Sleep(time.Second)
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := s.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close while functions run: got %v, want the end of its context", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if ran.Load() != 2 || ended.Load() != 2 {
			t.Errorf("%d functions ran, %d had returned before Close, want 2", ran.Load(), ended.Load())
		}
		if left, _ := table.Store("a").List(t.Context(), ""); len(left) > 0 {
			t.Errorf("records are left: %v", left)
		}
		all.Wait()
		if err := s.Do(t.Context(), nil); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("Do after Close: got %v, want ErrClosed", err)
		}
	})
}
