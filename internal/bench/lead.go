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
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// The things that a node can be told about jobs and groups.
const (
	doJobs  = "jobs"  // open so many jobs, and wait until each is led
	doHold  = "hold"  // open one job, and say when this node leads it
	doLocks = "locks" // take and drop records, each goroutine one of its own
	doGroup = "group" // open a group by Lowest, and say who leads it
	doCut   = "cut"   // hear and reach certain nodes no more, and all others again
)

// groupTiming has the ratios of Fabric's defaults, a fifth of them.
func groupTiming() election.Timing {
	t := election.DefaultTiming()
	for _, d := range []*time.Duration{&t.Grace, &t.Sample, &t.Alive, &t.Campaign, &t.Hold} {
		*d /= 5
	}
	return t
}

// holding is one leadership of a node, in nanoseconds of CLOCK_MONOTONIC.
type holding struct {
	Token member.Token
	Began int64
	Ended int64 // 0 while it goes on
}

// following is who leads a group, as a node sees it since then.
type following struct {
	At     int64
	Leader string
}

// openJobs opens jobs and returns when this node sees all of them led, and how many commits
// it asked for.
func (c *child) openJobs(count int64) (commits, at int64) {
	s := &counted{Store: c.node.Records()}
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
			c.endProcess(err)
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
	at = readMonotonic()
	return s.commits.Load(), at
}

// counted counts the commits that are asked for.
type counted struct {
	record.Store
	commits atomic.Int64
}

// Session implements record.Store.
func (s *counted) Session(lost record.LostFunc) record.Session {
	return countedSession{s.Store.Session(lost), s}
}

type countedSession struct {
	record.Session
	store *counted
}

// Commit implements record.Session.
func (s countedSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	s.store.commits.Add(1)
	return s.Session.Commit(ctx, ops...)
}

// holdJob opens a job and says each leadership of this node.
func (c *child) holdJob() error {
	job, err := election.OpenJob(context.Background(), c.node.Records(), "job",
		election.JobOptions{})
	if err != nil {
		return err
	}
	go func() {
		lead := func(ctx context.Context, term leader.Term) error {
			h := holding{Token: term.Token(), Began: readMonotonic()}
			c.endProcess(c.sayLine(line{Holding: &h}))
			<-ctx.Done()
			h.Ended = readMonotonic()
			c.endProcess(c.sayLine(line{Holding: &h}))
			return nil
		}
		c.endProcess(job.WhileLeader(context.Background(), lead))
	}()
	return nil
}

// takeLocks takes and drops records for the time of an order.
func (c *child) takeLocks(o order) (a answer, err error) {
	ctx, s := context.Background(), c.node.Records().Session(nil)
	times := make([][]float64, o.Workers)
	a.Count, a.At, err = pumpEvents(o, func(worker int, _ []byte) error {
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
	a.End = readMonotonic()
	if all := slices.Concat(times...); len(all) > 0 {
		slices.Sort(all)
		a.P50, a.P99 = quantile(all, 0.5), quantile(all, 0.99)
	}
	return a, err
}

// openGroup opens a group and says who leads it.
func (c *child) openGroup() error {
	e, err := c.groups.Open(c.node, "group", election.Options{
		Strategy: election.Lowest, Timing: groupTiming(),
	})
	if err != nil {
		return err
	}
	go func() {
		for l := range e.Changes(context.Background()) {
			c.endProcess(c.sayLine(line{Following: &following{readMonotonic(), l.ID}}))
		}
	}()
	return nil
}
