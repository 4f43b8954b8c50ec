// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	api_errors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/kubernetes"
	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// newManager returns a manager that never reaches its API server. Its only work writes to the
// ledger while this process leads.
func newManager(
	l *kubernetes.Lock, node int, ledger *athenatest.Register,
) (manager.Manager, error) {
	lease, renew, retry := 15*time.Second, 10*time.Second, time.Second
	m, err := manager.New(&rest.Config{Host: "http://192.0.2.1"}, manager.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: l,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return meta.NewDefaultRESTMapper(nil), nil
		},
	})
	if err != nil {
		return nil, err
	}
	return m, m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for holding.Pause(ctx, nil, 50*time.Millisecond) == nil {
			if err := ledger.Write(l.Term().Token(), fmt.Sprint(node)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestManager kills, cuts off and stops the leader among three managers of controller-runtime.
func TestManager(t *testing.T) {
	var ledger athenatest.Register
	var ended sync.Map // error of the manager, by node
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		l, err := kubernetes.NewLock(node.Records(), "controller")
		if err != nil {
			return err
		}
		m, err := newManager(l, i, &ledger)
		if err != nil {
			return err
		}
		ended.Store(i, l.Run(ctx, m.Start))
		<-ctx.Done()
		return nil
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		// holder returns the node that writes next.
		holder := func(limit time.Duration, than int) (node int) {
			before := len(ledger.Written())
			took := c.Within(limit, "write of another leader", func() bool {
				for _, w := range ledger.Written()[before:] {
					if w.Value != fmt.Sprint(than) {
						_, err := fmt.Sscan(w.Value, &node)
						return err == nil
					}
				}
				return false
			})
			t.Logf("node %d leads after %v", node, took)
			return node
		}
		first := holder(20*time.Second, -1)
		c.Crash(first)
		second := holder(15*time.Second, first)
		c.Restart(first)
		c.WaitSettled()
		c.Partition([]int{second})
		third := holder(15*time.Second, second)
		c.Within(20*time.Second, "end of the manager that was cut off", func() bool {
			_, ok := ended.Load(second)
			return ok
		})
		if err, _ := ended.Load(second); !strings.Contains(fmt.Sprint(err), "was lost") {
			t.Errorf("the manager that was cut off: got %v, want that its lock was lost", err)
		}
		c.Heal()
		c.WaitSettled()
		c.Leave(third) // releases the lock
		holder(5*time.Second, third)
		if late := ledger.Refused(); len(late) > 0 {
			t.Errorf("former leaders continued: %v", late)
		}
	})
}

// work counts how often a LeaderElector has started and ended its work.
type work struct {
	elector        *leaderelection.LeaderElector
	started, ended int
}

func newWork(t *testing.T, l *kubernetes.Lock) *work {
	t.Helper()
	w := &work{}
	var err error
	w.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: 2 * time.Second, ReleaseOnCancel: true, Name: "c",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				w.started++
				<-ctx.Done()
				w.ended++
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// inBubble runs a test with a lock, and with the table in which its member can expire.
func inBubble(t *testing.T, test func(*testing.T, *record.Memory, *kubernetes.Lock)) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		l, err := kubernetes.NewLock(table.Store("a"), "c")
		if err != nil {
			t.Fatal(err)
		}
		test(t, table, l)
	})
}

// TestRun loses a lock: the work ends immediately. Then the lock is acquired again and released.
func TestRun(t *testing.T) {
	inBubble(t, func(t *testing.T, table *record.Memory, l *kubernetes.Lock) {
		w, done := newWork(t, l), make(chan error)
		begin := func(ctx context.Context) {
			go func() {
				done <- l.Run(ctx, func(ctx context.Context) error { w.elector.Run(ctx); return nil })
			}()
			synctest.Wait()
		}
		begin(t.Context())
		if w.started != 1 || !w.elector.IsLeader() || l.Term().Token().IsZero() {
			t.Fatalf("started %d times, leads: %v", w.started, w.elector.IsLeader())
		}
		table.Expire("a")
		synctest.Wait()
		if w.ended != 1 {
			t.Error("the work did not end with the lock")
		}
		if err := <-done; !errors.Is(err, leader.ErrLeaseEnded) {
			t.Errorf("Run: got %v, want ErrLeaseEnded", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		begin(ctx)
		if w.started != 2 {
			t.Errorf("the lock was not acquired again")
		}
		stop()
		err := <-done
		synctest.Wait()
		if err != nil || w.ended != 2 || l.Term().Valid() {
			t.Errorf("Run: got %v after a stop", err)
		}
		if _, _, err := l.Get(t.Context()); !api_errors.IsNotFound(err) {
			t.Errorf("Get after the release: got %v, want NotFound", err)
		}
	})
}

// TestWithoutRun loses a lock that is used without Run. The LeaderElector never acquires the lock
// again while it believes that it leads. As README.md warns, it gives up only after RenewDeadline.
func TestWithoutRun(t *testing.T) {
	inBubble(t, func(t *testing.T, table *record.Memory, l *kubernetes.Lock) {
		w := newWork(t, l)
		go w.elector.Run(t.Context())
		synctest.Wait()
		table.Expire("a")
		time.Sleep(9 * time.Second)
		if w.started != 1 || w.ended != 0 {
			t.Errorf("after 9 s: started %d times, ended %d times", w.started, w.ended)
		}
		time.Sleep(4 * time.Second)
		if w.started != 1 || w.ended != 1 || l.Term().Valid() {
			t.Errorf("after 13 s: started %d times, ended %d times", w.started, w.ended)
		}
	})
}

// TestOtherHolder checks that a lock never looks expired while another process holds it.
func TestOtherHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, table *record.Memory, l *kubernetes.Lock) {
		other, err := kubernetes.NewLock(table.Store("a"), "c") // a second manager of this process
		if err != nil {
			t.Fatal(err)
		}
		if other.Identity() == l.Identity() {
			t.Error("two locks have the same identity")
		}
		r := resourcelock.LeaderElectionRecord{HolderIdentity: other.Identity()}
		if err := other.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		w := newWork(t, l)
		ctx, stop := context.WithCancel(t.Context())
		go w.elector.Run(ctx)
		time.Sleep(time.Hour)
		if w.started != 0 || w.elector.IsLeader() || w.elector.GetLeader() != "a" {
			t.Errorf("started %d times; the leader is %q", w.started, w.elector.GetLeader())
		}
		if err := l.Update(t.Context(), r); !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("Update: got %v, want ErrNotLeader", err)
		}
		if err := other.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Errorf("release: %v", err)
		}
		time.Sleep(5 * time.Second)
		if w.started != 1 {
			t.Error("the released lock was not acquired")
		}
		stop()
		synctest.Wait()
	})
}
