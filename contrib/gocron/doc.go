// SPDX-License-Identifier: Apache-2.0

// Package gocron runs the jobs of the scheduler github.com/go-co-op/gocron in one process at a
// time. An Elector runs all jobs on the leader. A Locker runs each job in the process that acquires
// its lock first.
//
//	elector := gocron.NewElector(node) // or a job of package election
//	go elector.Run(ctx)
//	s, err := scheduler.NewScheduler(scheduler.WithDistributedElector(elector))
//	_, err = s.NewJob(every, scheduler.NewTask(func(ctx context.Context) error {
//		return elector.Do(ctx, func(ctx context.Context, term leader.Term) error { ... })
//	}))
//
// The scheduler checks leadership only when a job starts. Do ends the context of the job before
// another process can lead, and provides the fencing token.
package gocron
