// SPDX-License-Identifier: Apache-2.0

package fromraft_test

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// runUnderBoth runs work while this process leads by raft and also leads the job, until ctx is done
// or the node stops. A leader by raft that does not get the job hands over. s is node.Records.
func runUnderBoth(
	ctx context.Context, r *raft.Raft, s record.Store, job string,
	work func(context.Context, leader.Term) error,
) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	const patience = 10 * time.Second
	idle := time.NewTicker(patience)
	defer idle.Stop()
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-idle.C:
			r.LeadershipTransfer() // it fails if this process does not lead by raft
		case isLeader := <-r.LeaderCh():
			stop() // also if it leads again: another process may have led meanwhile
			stop = func() {}
			if isLeader {
				idle.Reset(patience)
				stop = startJob(ctx, fail, s, job, func(ctx context.Context, t leader.Term) error {
					idle.Stop()
					err := work(ctx, t)
					if err != nil || ctx.Err() != nil { // it is not done
						idle.Reset(patience)
					}
					return err
				})
			}
		}
	}
}

// startJob makes this process a candidate for the job. The returned function ends the work, waits
// for it, and leaves the job to the next leader by raft.
func startJob(
	ctx context.Context, fail context.CancelCauseFunc, s record.Store, name string,
	work func(context.Context, leader.Term) error,
) (stop func()) {
	leads, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		job, err := election.OpenJob(leads, s, name, election.JobOptions{})
		if err == nil {
			err = job.WhileLeader(leads, work)
			err = errors.Join(err, job.Close(ctx)) // after ctx, node.Leave gives up the job
		}
		if leads.Err() == nil {
			fail(err) // the node has stopped
		}
	}()
	return func() { end(); <-done }
}
