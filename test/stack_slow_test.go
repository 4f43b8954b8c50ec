// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	elect "github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// TestStackSlowCommits checks that each job gets a leader and each shard a worker although every
// commit takes longer than a first attempt.
func TestStackSlowCommits(t *testing.T) {
	for _, trip := range []time.Duration{1500, 2400} {
		trip *= time.Millisecond
		o := athenatest.Options{Size: 3, Delay: trip / 2, Config: func(_ int, c *cluster.Config) {
			w := cluster.WANConfig()
			c.HeartbeatInterval, c.HeartbeatTimeout = w.HeartbeatInterval, w.HeartbeatTimeout
			c.LeaderTimeout, c.LeaseTimeout = w.LeaderTimeout, w.LeaseTimeout
			c.TTLTimeout, c.RetryInterval = w.TTLTimeout, w.RetryInterval
		}}
		athenatest.Run(t, o, func(t *testing.T, c *athenatest.Cluster) {
			var worked sync.Map
			work := func(name string) func(context.Context, leader.Term) error {
				return func(ctx context.Context, _ leader.Term) error {
					worked.Store(name, true)
					<-ctx.Done()
					return nil
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range 9 {
				n, job, set := c.Node(i%3), fmt.Sprint("job", i/3), fmt.Sprint("set", i/3)
				all.Go(func() { leadJob(ctx, t, n, job, work(job)) })
				all.Go(func() { runShard(ctx, t, n, set, work(set)) })
			}
			c.Advance(2 * time.Minute)
			stop()
			all.Wait()
			n := 0
			worked.Range(func(any, any) bool { n++; return true })
			if n != 6 {
				t.Errorf("round trip %v: %d of 3 jobs and 3 shards were worked on", trip, n)
			}
		})
	}
}

func leadJob(
	ctx context.Context, t *testing.T, n *cluster.Node, job string,
	work func(context.Context, leader.Term) error,
) {
	j, err := elect.OpenJob(ctx, n.Records(), job, elect.JobOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	_ = j.WhileLeader(ctx, work)
	if err := j.Close(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}

func runShard(
	ctx context.Context, t *testing.T, n *cluster.Node, set string,
	work func(context.Context, leader.Term) error,
) {
	shards, err := elect.NewShards(n.Records(), set, 1)
	if err != nil {
		t.Error(err)
		return
	}
	_ = shards.Run(ctx, func(ctx context.Context, _ int, term leader.Term) error {
		return work(ctx, term)
	})
}
