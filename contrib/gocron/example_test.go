// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	scheduler "github.com/go-co-op/gocron/v2"

	"github.com/athena-go/athena/contrib/gocron"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// scheduleBills charges customers every minute while this process leads, until ctx is done. The
// candidate is a cluster.Node, or a job of package election.
func scheduleBills(
	ctx context.Context, candidate gocron.Candidate,
	bill func(context.Context, leader.Term) error,
) error {
	elector := gocron.NewElector(candidate)
	go elector.Run(ctx)
	s, err := scheduler.NewScheduler(scheduler.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	_, err = s.NewJob(scheduler.DurationJob(time.Minute),
		scheduler.NewTask(func(ctx context.Context) error { return elector.Do(ctx, bill) }))
	if err == nil {
		s.Start()
		<-ctx.Done()
	}
	return errors.Join(err, s.Shutdown())
}

// TestScheduleBills runs the code of README.md.
func TestScheduleBills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		job, err := election.OpenJob(ctx, record.NewMemory().Store("a"), "j", election.JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var billed leader.Term
		err = scheduleBills(ctx, job, func(ctx context.Context, term leader.Term) error {
			billed = term
			stop()
			return nil
		})
		if err != nil || billed.Token().IsZero() {
			t.Errorf("billed in term %v, %v", billed, err)
		}
		if err := job.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
