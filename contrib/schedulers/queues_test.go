// SPDX-License-Identifier: Apache-2.0

package schedulers_test

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	"github.com/riverqueue/river"

	"github.com/athena-go/athena/leader"
)

// runAsynq runs the scheduler of asynq in the process that leads, until ctx is done. The workers
// (asynq.Server) run in all processes.
func runAsynq(ctx context.Context, candidate *leader.Candidate, redis asynq.RedisConnOpt) error {
	return candidate.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
		s := asynq.NewScheduler(redis, nil) // can be started only once
		task := asynq.NewTask("bill", nil)
		if _, err := s.Register("@every 1m", task, asynq.Unique(50*time.Second)); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-ctx.Done()
		s.Shutdown()
		return nil
	})
}

type Bill struct {
	Token string `json:"token"`
}

func (Bill) Kind() string { return "bill" }

// insertBills inserts a job of River every minute in the process that leads, until ctx is done.
func insertBills[Tx any](
	ctx context.Context, candidate *leader.Candidate, client *river.Client[Tx],
) error {
	once := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByPeriod: time.Minute}}
	return candidate.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		every := time.NewTicker(time.Minute)
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if _, err := client.Insert(ctx, Bill{Token: term.Token().String()}, once); err != nil {
				return err
			}
		}
	})
}

// README.md shows them. They need servers, so no test runs them.
var _, _ = runAsynq, insertBills[any]
