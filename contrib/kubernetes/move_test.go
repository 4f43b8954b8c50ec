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
// RunOrDie, it returns when this process no longer leads by client-go, or when ctx is done. s is
// node.Records.
func runUnderBoth(
	ctx context.Context, config leaderelection.LeaderElectionConfig, s record.Store, name string,
	work func(context.Context, leader.Term) error,
) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	working := make(chan struct{}, 1) // full while work may run
	config.Callbacks.OnStartedLeading = func(leads context.Context) {
		working <- struct{}{}
		defer func() { <-working }()
		defer stop() // if the node has stopped, another process must lead
		job, err := election.OpenJob(leads, s, name, election.JobOptions{})
		if err != nil {
			return
		}
		_ = job.WhileLeader(leads, work)
		_ = job.Close(ctx) // after ctx, node.Leave gives up the job
	}
	leaderelection.RunOrDie(ctx, config)
	working <- struct{}{} // waits for work
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

// TestUnderBothWithTwoLeaders lets client-go and Athena elect different processes, in three rounds.
// The leader by client-go must work.
func TestUnderBothWithTwoLeaders(t *testing.T) {
	var mu sync.Mutex
	worker := ""
	getWorker := func() string {
		mu.Lock()
		defer mu.Unlock()
		return worker
	}
	var object leases
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		id := fmt.Sprint(i)
		config := leaderelection.LeaderElectionConfig{
			Lock: lease{&object, id}, LeaseDuration: 15 * time.Second,
			RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStoppedLeading: func() {}},
		}
		runUnderBoth(ctx, config, node.Records(), "billing",
			func(ctx context.Context, _ leader.Term) error {
				mu.Lock()
				if worker != "" {
					t.Errorf("%s works beside %s", id, worker)
				}
				worker = id
				mu.Unlock()
				<-ctx.Done()
				<-time.After(20 * time.Millisecond)
				mu.Lock()
				worker = ""
				mu.Unlock()
				return context.Cause(ctx)
			})
		return nil
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		for range 3 {
			var holder int
			c.Within(20*time.Second, "a holder of the Lease that works", func() bool {
				_, err := fmt.Sscan(object.holder(), &holder)
				return err == nil && getWorker() == fmt.Sprint(holder)
			})
			next := (holder + 1) % 3
			if at := c.Leader(); at != next {
				if err := c.Node(at).Transfer(t.Context(), c.Address(next)); err != nil {
					t.Fatal(err)
				}
			}
			c.Advance(time.Minute)
			if got := getWorker(); got != fmt.Sprint(holder) || c.Leader() != next {
				t.Errorf("process %q works, want the holder of the Lease, %d; %d leads the cluster",
					got, holder, c.Leader())
			}
			c.Leave(holder)
			c.Restart(holder)
		}
	})
}
