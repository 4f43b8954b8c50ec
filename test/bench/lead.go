// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/children"
	"github.com/athena-go/athena/test/results"
)

// The orders for jobs and groups.
const (
	doJobs   = "jobs"   // open a number of jobs and wait until each has a leader
	doHold   = "hold"   // take part in one job, lock or semaphore and print when this node holds it
	doLocks  = "locks"  // each goroutine acquires and drops its own records
	doShards = "shards" // run a number of shards and print when this node owns each of them
	doGroup  = "group"  // open a group with Lowest and print its leader
	doCut    = "cut"    // cut off the listed nodes, and reconnect all others
)

// groupTiming returns the defaults of Fabric divided by five.
func groupTiming() election.Timing {
	t := election.DefaultTiming()
	for _, d := range []*time.Duration{&t.Grace, &t.Sample, &t.Alive, &t.Campaign, &t.Hold} {
		*d /= 5
	}
	return t
}

// holding is a period of leadership of a node, in nanoseconds of CLOCK_MONOTONIC.
type holding struct {
	Token member.Token
	Began int64
	Ended int64 // 0 while the node leads
}

// following is the leader of a group as a node sees it, and the time of the change.
type following struct {
	At     int64
	Leader string
}

// openJobs opens jobs and waits until this node sees a leader of each job. It returns the number of
// requested commits and the current time.
func (c *child) openJobs(count int64) (commits, at int64) {
	s := &countedStore{Store: c.node.Records()}
	for i := range count {
		go func() {
			job, err := election.OpenJob(context.Background(), s, fmt.Sprint("job-", i),
				election.JobOptions{})
			if err == nil {
				err = job.WhileLeader(context.Background(), func(ctx context.Context, _ leader.Term) error {
					<-ctx.Done()
					return nil
				})
			}
			c.exitOnError(err)
		}()
	}
	for records := range record.Watch(context.Background(), c.node.Records(), election.JobPrefix) {
		led := 0
		for _, r := range records {
			if strings.HasSuffix(r.Key, "/leader") && !r.Revoked {
				led++
			}
		}
		if int64(led) == count {
			break
		}
	}
	at = children.ReadMonotonic()
	return s.commits.Load(), at
}

// countedStore counts the commits requested through it.
type countedStore struct {
	record.Store
	commits atomic.Int64
}

// Session implements record.Store.
func (s *countedStore) Session(lost record.LostFunc) record.Session {
	return countedSession{s.Store.Session(lost), s}
}

type countedSession struct {
	record.Session
	store *countedStore
}

// Commit implements record.Session.
func (s countedSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	s.store.commits.Add(1)
	return s.Session.Commit(ctx, ops...)
}

// hold competes for a job, a lock, or a semaphore of one permit, and prints when this node has it.
func (c *child) hold(what string) error {
	ctx, store := context.Background(), c.node.Records()
	var compete func(context.Context, func(context.Context, leader.Term) error) error
	switch what {
	case Lock:
		l, err := lock.New(store, what)
		if err != nil {
			return err
		}
		compete = l.Do
	case Semaphore:
		s, err := lock.NewSemaphore(store, what, 1)
		if err != nil {
			return err
		}
		compete = s.Do
	default:
		job, err := election.OpenJob(ctx, store, what, election.JobOptions{})
		if err != nil {
			return err
		}
		compete = job.WhileLeader
	}
	go func() {
		for { // a lock or semaphore can be lost
			c.exitOnError(compete(ctx, c.printHolding))
		}
	}()
	return nil
}

// printHolding prints when this node holds something, and when it does not anymore.
func (c *child) printHolding(ctx context.Context, term leader.Term) error {
	h := holding{Token: term.Token(), Began: children.ReadMonotonic()}
	c.exitOnError(c.printLine(line{Holding: &h}))
	<-ctx.Done()
	h.Ended = children.ReadMonotonic()
	c.exitOnError(c.printLine(line{Holding: &h}))
	return nil
}

// takeLocks acquires and drops records for the duration of an order.
func (c *child) takeLocks(o order) (a answer, err error) {
	ctx, s := context.Background(), c.node.Records().Session(nil)
	times := make([][]float64, o.Workers)
	a.Count, a.At, err = sendForDuration(o, func(worker int, _ []byte) error {
		began := time.Now()
		key := fmt.Sprint("lock/", c.node.Self().Address, "/", worker)
		token, err := s.Commit(ctx, record.Op{Kind: record.Absent, Key: key},
			record.Op{Kind: record.SetOwned, Key: key})
		if err == nil {
			_, err = s.Commit(ctx, record.Op{Kind: record.Held, Key: key, Token: token},
				record.Op{Kind: record.Drop, Key: key})
		}
		times[worker] = append(times[worker], float64(time.Since(began).Nanoseconds())/1e3)
		return err
	})
	a.End = children.ReadMonotonic()
	if all := slices.Concat(times...); len(all) > 0 {
		slices.Sort(all)
		a.P50, a.P99 = results.Quantile(all, 0.5), results.Quantile(all, 0.99)
	}
	return a, err
}

// openGroup opens a group and prints its leader.
func (c *child) openGroup() error {
	e, err := c.groups.Open(c.node, "group", election.Options{
		Strategy: election.Lowest, Timing: groupTiming(),
	})
	if err != nil {
		return err
	}
	go func() {
		for l := range e.Changes(context.Background()) {
			c.exitOnError(c.printLine(line{Following: &following{children.ReadMonotonic(), l.ID}}))
		}
	}()
	return nil
}
