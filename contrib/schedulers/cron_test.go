// SPDX-License-Identifier: Apache-2.0

package schedulers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
)

// runCron runs a function on a schedule in the process that leads, until ctx is done.
func runCron(
	ctx context.Context, candidate *leader.Candidate, schedule string,
	bill func(context.Context, leader.Term),
) error {
	return candidate.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		c := cron.New()
		if _, err := c.AddFunc(schedule, func() { bill(ctx, term) }); err != nil {
			return err
		}
		c.Start()
		<-ctx.Done()
		<-c.Stop().Done() // waits for the running functions
		return nil
	})
}

// TestRunCron kills the leader while its function runs.
func TestRunCron(t *testing.T) {
	var ledger athenatest.Register
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		return runCron(ctx, node.Candidate(leader.Options{}), "@every 1s",
			func(ctx context.Context, term leader.Term) {
				for n := range 5 {
					_ = ledger.Write(term.Token(), fmt.Sprint(i, " ", n))
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
						return
					}
				}
			})
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		c.Within(10*time.Second, "a function is half done", func() bool {
			return len(ledger.Written()) == 12
		})
		killed := c.Leader()
		c.Crash(killed)
		c.NextLeader(killed)
		c.Advance(3*time.Second + 500*time.Millisecond)
		if n := len(ledger.Written()); n < 12+2*5 || len(ledger.Refused()) > 0 {
			t.Errorf("%d writes, and refused %v", n, ledger.Refused())
		}
	})
}
