// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// move does the work of a job while this node leads the job in two stores. So the job can move from
// one store to the other.
func move(
	ctx context.Context, from, to record.Store, name string,
	work func(context.Context, leader.Term) error,
) error {
	old, err := election.OpenJob(ctx, from, name, election.JobOptions{})
	if err != nil {
		return err
	}
	// end is 10 s after ctx, because without a majority no job can be given up.
	end, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(10*time.Second, stop) })
	err = old.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
		job, err := election.OpenJob(ctx, to, name, election.JobOptions{})
		if err != nil {
			return err // another member tries
		}
		_ = job.WhileLeader(ctx, work)
		return job.Close(end)
	})
	return errors.Join(err, old.Close(end))
}

func ExampleOpenJob_move() {
	ctx, enough := context.WithCancel(context.Background())
	from, to := record.NewMemory().Store("host-1"), record.NewMemory().Store("host-1")
	err := move(ctx, from, to, "billing", func(ctx context.Context, _ leader.Term) error {
		for _, s := range []record.Store{from, to} {
			r, err := record.Get(ctx, s, "latch/billing/leader")
			fmt.Println("led by", string(r.Value), err)
		}
		enough()
		return nil
	})
	fmt.Println(err)
	// Output:
	// led by host-1 <nil>
	// led by host-1 <nil>
	// context canceled
}
