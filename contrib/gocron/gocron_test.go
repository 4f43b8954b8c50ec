// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	scheduler "github.com/go-co-op/gocron/v2"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/gocron"
	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/record"
)

// schedule runs a task at the start of every second until ctx is done.
func schedule(
	ctx context.Context, task func(context.Context) error, o ...scheduler.SchedulerOption,
) error {
	s, err := scheduler.NewScheduler(o...)
	if err != nil {
		return err
	}
	if _, err := s.NewJob(scheduler.CronJob("* * * * * *", true), scheduler.NewTask(task),
		scheduler.WithName("charge"), scheduler.WithContext(ctx)); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown()
}

// TestElector kills the leader while its job runs: the context of that job ends before the job of
// the next leader starts.
func TestElector(t *testing.T) {
	var ledger athenatest.Register
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		e := gocron.NewElector(node)
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { _ = e.Run(ctx) })
		return schedule(ctx, func(ctx context.Context) error {
			return e.Do(ctx, func(ctx context.Context, term leader.Term) error {
				for n := range 8 {
					if err := holding.Pause(ctx, nil, 100*time.Millisecond); err != nil {
						return err
					}
					if err := ledger.Write(term.Token(), fmt.Sprint(i, " ", n)); err != nil {
						return err
					}
				}
				return nil
			})
		}, scheduler.WithDistributedElector(e))
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		c.Advance(10 * time.Second)
		if n := len(ledger.Written()); n < 9*8 {
			t.Errorf("%d writes in ten seconds, want 8 a second", n)
		}
		first := c.Leader()
		second := time.Now().Truncate(time.Second).Add(time.Second)
		c.Advance(time.Until(second.Add(450 * time.Millisecond))) // in the middle of a run
		c.Crash(first)
		next := c.NextLeader(first)
		before := len(ledger.Written())
		c.Advance(3 * time.Second)
		written := ledger.Written()
		if len(written) < before+2*8 {
			t.Errorf("leader %d wrote %d times in three seconds", next, len(written)-before)
		}
		if late := ledger.Refused(); len(late) > 0 {
			t.Errorf("the killed leader wrote after its successor: %v", late)
		}
	})
}

// TestLocker kills a node while it runs the job. The job must run at most once in each second, and
// continue once the cluster has replaced the node.
func TestLocker(t *testing.T) {
	var mu sync.Mutex
	runs := make(map[time.Time]int) // the node that ran the job, by second
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		if err := node.WaitActive(ctx, 1); err != nil {
			return err
		}
		l := gocron.NewLocker(node.Records(), 300*time.Millisecond)
		// This scheduler is late, as if its clock were behind. Without minHold it would run the job
		// again.
		late := time.Duration(i) * 100 * time.Millisecond
		return schedule(ctx, func(ctx context.Context) error {
			return l.Do(ctx, "charge", func(ctx context.Context, term leader.Term) error {
				mu.Lock()
				defer mu.Unlock()
				second := time.Now().Truncate(time.Second)
				if n, ok := runs[second]; ok {
					t.Errorf("node %d and node %d ran the job at %v", n, i, second)
				}
				runs[second] = i
				return nil
			})
		}, scheduler.WithDistributedLocker(lateLocker{l, late}))
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(runs)
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		c.Advance(10 * time.Second)
		if n := count(); n < 9 {
			t.Errorf("the job ran %d times in ten seconds", n)
		}
		second := time.Now().Truncate(time.Second).Add(time.Second)
		c.Advance(time.Until(second.Add(50 * time.Millisecond)))
		mu.Lock()
		holder, ok := runs[second]
		mu.Unlock()
		if !ok {
			t.Fatalf("the job did not run at %v", second)
		}
		c.Crash(holder)
		before := count()
		c.Advance(20 * time.Second)
		if n := count() - before; n < 10 || n > 20 {
			t.Errorf("the job ran %d times in the 20 seconds after the kill", n)
		}
	})
}

// lateLocker locks later than the other schedulers.
type lateLocker struct {
	*gocron.Locker
	late time.Duration
}

func (l lateLocker) Lock(ctx context.Context, name string) (scheduler.Lock, error) {
	if err := holding.Pause(ctx, nil, l.late); err != nil {
		return nil, err
	}
	return l.Locker.Lock(ctx, name)
}

// TestLockIsLost checks what a job and its Unlock report after the lock was dropped by hand.
func TestLockIsLost(t *testing.T) {
	table := record.NewMemory()
	l := gocron.NewLocker(table.Store("a"), 0)
	held, err := l.Lock(t.Context(), "j")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "j"); !errors.Is(err, holding.ErrLocked) {
		t.Errorf("second Lock: got %v, want ErrLocked", err)
	}
	key, err := lock.Key("gocron/j")
	if err != nil {
		t.Fatal(err)
	}
	err = l.Do(t.Context(), "j", func(ctx context.Context, _ leader.Term) error {
		go func() {
			drop := record.Op{Kind: record.Drop, Key: key}
			_, _ = table.Store("b").Session(nil).Commit(t.Context(), drop)
		}()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, record.ErrNotHeld) {
		t.Errorf("Do: got %v, want ErrNotHeld", err)
	}
	if err := held.Unlock(t.Context()); !errors.Is(err, record.ErrNotHeld) {
		t.Errorf("Unlock: got %v, want why the lock was lost", err)
	}
	if err := l.Do(t.Context(), "j", nil); !errors.Is(err, leader.ErrNotLeader) {
		t.Errorf("Do without the lock: got %v, want ErrNotLeader", err)
	}
}
