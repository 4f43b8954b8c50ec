// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	api_errors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// runUnderBoth runs work while this process leads by client-go and also leads the job. Like
// RunOrDie, it returns when this process no longer leads by client-go, or when ctx is done. It then
// releases the Lease after work has ended. A holder of the Lease that does not get the job gives it
// up, and runs for it again later. s is node.Records.
func runUnderBoth(
	ctx context.Context, config leaderelection.LeaderElectionConfig, s record.Store, name string,
	work func(context.Context, leader.Term) error,
) {
	config.Callbacks.OnStoppedLeading = func() {} // in many programs it exits, before node.Leave
	for holdUnderBoth(ctx, config, s, name, work) {
		select {
		case <-ctx.Done():
		case <-time.After(2 * config.LeaseDuration): // another process gets the Lease
		}
	}
}

// holdUnderBoth holds the Lease once. It reports whether it gave the Lease up without the job.
func holdUnderBoth(
	ctx context.Context, config leaderelection.LeaderElectionConfig, s record.Store, name string,
	work func(context.Context, leader.Term) error,
) (gaveUp bool) {
	const patience = 10 * time.Second
	errIdle := errors.New("does not get the job")
	lease, release := context.WithCancelCause(context.WithoutCancel(ctx))
	working := make(chan struct{}, 1) // full while work may run, and at the end
	end := func() {
		working <- struct{}{} // waits for work
		release(nil)
	}
	ending := context.AfterFunc(ctx, end)
	config.Callbacks.OnStartedLeading = func(leads context.Context) {
		select {
		case working <- struct{}{}:
			defer func() { <-working }()
		default:
			return
		}
		defer release(nil) // if the node has stopped, another process must lead
		leads, stop := context.WithCancel(leads)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		idle := time.AfterFunc(patience, func() { release(errIdle) })
		defer idle.Stop()
		job, err := election.OpenJob(leads, s, name, election.JobOptions{})
		if err != nil {
			return
		}
		_ = job.WhileLeader(leads, func(ctx context.Context, t leader.Term) error {
			if !idle.Stop() {
				return errIdle // the Lease is being released
			}
			err := work(ctx, t)
			if err != nil || ctx.Err() != nil { // it is not done
				idle.Reset(patience)
			}
			return err
		})
		_ = job.Close(ctx) // after ctx, node.Leave gives up the job
	}
	leaderelection.RunOrDie(lease, config)
	if ending() {
		end()
	}
	<-lease.Done()
	return errors.Is(context.Cause(lease), errIdle)
}

// leases is a Lease object, without an API server.
type leases struct {
	mu  sync.Mutex
	now *resourcelock.LeaderElectionRecord // nil before the first write
}

// lease is the Lease object as one process sees it.
type lease struct {
	*leases
	identity string
}

func (l lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		return nil, nil, api_errors.NewNotFound(schema.GroupResource{Resource: "leases"}, "billing")
	}
	found := *l.now
	raw, err := json.Marshal(found)
	return &found, raw, err
}

func (l lease) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		return errors.New("exists")
	}
	l.now = &r
	return nil
}

func (l lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = &r
	return nil
}

func (l lease) RecordEvent(string) {}
func (l lease) Identity() string   { return l.identity }
func (l lease) Describe() string   { return "billing" }
func (l *leases) holder() (id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		id = l.now.HolderIdentity
	}
	return id
}

// movers are three processes of a program that moves from client-go to Athena.
type movers struct {
	t        *testing.T
	object   leases
	present  [3]bool       // the processes that run the version before runUnderBoth
	lastPart time.Duration // how long the work of runUnderBoth takes to end

	mu     sync.Mutex
	worker string
}

func (m *movers) findWorker() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.worker
}

// main is the Main of process i.
func (m *movers) main(
	ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
) error {
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	id := fmt.Sprint(i)
	work := func(ctx context.Context, _ leader.Term) error {
		m.mu.Lock()
		if m.worker != "" {
			m.t.Errorf("%s works beside %s", id, m.worker)
		}
		m.worker = id
		m.mu.Unlock()
		<-ctx.Done()
		if !m.present[i] {
			<-time.After(m.lastPart)
		}
		m.mu.Lock()
		m.worker = ""
		m.mu.Unlock()
		return context.Cause(ctx)
	}
	config := leaderelection.LeaderElectionConfig{
		Lock: lease{&m.object, id}, LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { _ = work(ctx, leader.Term{}) },
			OnStoppedLeading: func() {},
		},
	}
	if m.present[i] {
		leaderelection.RunOrDie(ctx, config)
		return nil
	}
	runUnderBoth(ctx, config, node.Records(), "billing", work)
	return nil
}

// waitWork waits until the holder of the Lease works, and returns it.
func (m *movers) waitWork(c *athenatest.Cluster) (holder int) {
	c.Within(20*time.Second, "a holder of the Lease that works", func() bool {
		_, err := fmt.Sscan(m.object.holder(), &holder)
		return err == nil && m.findWorker() == fmt.Sprint(holder)
	})
	return holder
}

// TestUnderBothWithTwoLeaders lets client-go and Athena elect different processes, in three rounds.
// The leader by client-go must work.
func TestUnderBothWithTwoLeaders(t *testing.T) {
	m := &movers{t: t, lastPart: 20 * time.Millisecond}
	athenatest.Run(t, athenatest.Options{Main: m.main}, func(t *testing.T, c *athenatest.Cluster) {
		for range 3 {
			holder := m.waitWork(c)
			next := (holder + 1) % 3
			if at := c.Leader(); at != next {
				if err := c.Node(at).Transfer(t.Context(), c.Address(next)); err != nil {
					t.Fatal(err)
				}
			}
			c.Advance(time.Minute)
			if got := m.findWorker(); got != fmt.Sprint(holder) || c.Leader() != next {
				t.Errorf("process %q works, want the holder of the Lease, %d; %d leads the cluster",
					got, holder, c.Leader())
			}
			c.Leave(holder)
			c.Restart(holder)
		}
	})
}

// TestUnderBothWithoutTheCluster cuts the holder of the Lease off from the cluster alone. Another
// process must work.
func TestUnderBothWithoutTheCluster(t *testing.T) {
	m := &movers{t: t, lastPart: 20 * time.Millisecond}
	athenatest.Run(t, athenatest.Options{Main: m.main}, func(t *testing.T, c *athenatest.Cluster) {
		cut := m.waitWork(c)
		c.Partition([]int{cut})
		c.Within(20*time.Second, "work of another process", func() bool {
			at := m.findWorker()
			return at != "" && at != fmt.Sprint(cut)
		})
		c.Heal()
		c.WaitSettled()
	})
}

// TestUnderBothBesideThePresentVersion stops a process whose work takes longer to end than others
// take to find a free Lease. These run the present version, which does not know the job: none may
// work before the other has ended.
func TestUnderBothBesideThePresentVersion(t *testing.T) {
	m := &movers{t: t, lastPart: 6 * time.Second}
	athenatest.Run(t, athenatest.Options{Main: m.main}, func(t *testing.T, c *athenatest.Cluster) {
		old := m.waitWork(c)
		for i := range c.Size() {
			if i != old {
				c.Leave(i)
				m.present[i] = true
				c.Restart(i)
			}
		}
		c.Leave(old)
		if next := m.waitWork(c); !m.present[next] {
			t.Errorf("process %d works, want one of the version before", next)
		}
	})
}
