// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const (
	jobName = "cleanup"
	shards  = 6
	// plan is the prefix of the records of the plan. Each record assigns one shard to a member.
	plan = "cron/" + jobName + "/"
	// lookInterval is the interval at which the leader compares the plan with the active members.
	lookInterval = 200 * time.Millisecond
)

// worker is one member of the job. The plan assigns each shard to a member, but a member may learn
// late that the plan has changed. So each shard also has a lock with at most one holder. Whatever
// happens to the plan, no two members run a shard at the same time.
type worker struct {
	node *cluster.Node
	self string
	run  runFunc
	say  sayFunc
}

type (
	// runFunc works on a shard and returns when ctx ends. It passes the token with every write.
	runFunc func(ctx context.Context, shard string, token member.Token) error
	sayFunc func(format string, args ...any)
)

// work takes part in the job until ctx is done or the node stops.
func work(ctx context.Context, node *cluster.Node, run runFunc, say sayFunc) error {
	job, err := election.OpenJob(ctx, node.Records(), jobName, election.JobOptions{})
	if err != nil {
		return err
	}
	w := &worker{node, node.Self().Address.String(), run, say}
	var leading sync.WaitGroup
	leading.Go(func() { _ = job.WhileLeader(ctx, w.lead) }) // returns why it ended
	w.follow(ctx)
	leading.Wait()
	return closeInTime(ctx, job.Close)
}

// lead runs on one member at a time. It compares the plan with the members at the start and then
// periodically, because the previous leader may have crashed at any point. No event reports that.
func (w *worker) lead(ctx context.Context, term leader.Term) error {
	w.say("leads the job with token %v", term.Token())
	for ctx.Err() == nil {
		if err := w.assign(ctx, term.Token()); err != nil && ctx.Err() == nil {
			w.say("could not assign: %v", err) // and tries again
		}
		pause(ctx, lookInterval)
	}
	return nil
}

// assign distributes the shards over the active members. It commits all changes together, on the
// condition that this member still leads.
func (w *worker) assign(ctx context.Context, token member.Token) error {
	lead, err := election.JobKey(jobName)
	if err != nil {
		return err
	}
	alive := w.alive()
	if len(alive) == 0 {
		return nil // this member is cut off
	}
	ops, moved := []record.Op{{Kind: record.Held, Key: lead, Token: token}}, map[string][]string{}
	for i := range shards {
		shard, to := fmt.Sprint("shard-", i), alive[i%len(alive)]
		if r, err := record.Get(ctx, w.node.Records(), plan+shard); err == nil && string(r.Value) == to {
			continue
		}
		ops = append(ops, record.Op{Kind: record.Set, Key: plan + shard, Value: []byte(to)})
		moved[to] = append(moved[to], shard)
	}
	if len(moved) == 0 {
		return nil
	}
	if _, err := w.node.Records().Session(nil).Commit(ctx, ops...); err != nil {
		return err
	}
	for _, to := range alive {
		if moved[to] != nil {
			w.say("gives %s to %s", strings.Join(moved[to], ", "), to)
		}
	}
	return nil
}

func (w *worker) alive() (ids []string) {
	for _, m := range w.node.Members() {
		if m.Status == member.Active {
			ids = append(ids, m.Address.String())
		}
	}
	slices.Sort(ids)
	return ids
}

// follow runs the shards that the plan assigns to this member, and stops the others.
func (w *worker) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	running := map[string]context.CancelFunc{}
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for records := range record.Watch(ctx, w.node.Records(), plan) {
		mine := map[string]bool{}
		for _, r := range records {
			if string(r.Value) == w.self {
				mine[strings.TrimPrefix(r.Key, plan)] = true
			}
		}
		for shard, stop := range running {
			if !mine[shard] {
				stop()
				delete(running, shard)
			}
		}
		for shard := range mine {
			if running[shard] == nil {
				ctx, stop := context.WithCancel(ctx)
				running[shard] = stop
				all.Go(func() { w.hold(ctx, shard) })
			}
		}
	}
}

// hold runs a shard while this member holds its lock, until ctx ends. When this member gets the
// lock, the previous member has stopped the shard, or has lost the lock because it was dead or cut
// off.
func (w *worker) hold(ctx context.Context, shard string) {
	l, err := lock.New(w.node.Records(), jobName+"/"+shard)
	if err != nil {
		panic(err) // impossible: the name of every shard is valid
	}
	defer func() { _ = closeInTime(ctx, l.Close) }()
	for ctx.Err() == nil {
		_ = l.Do(ctx, func(ctx context.Context, term leader.Term) error {
			return w.run(ctx, shard, term.Token())
		}) // run prints why it stops
		pause(ctx, lookInterval)
	}
}

// closeInTime closes a lock or a job. Without a majority, Close could block forever. If closeInTime
// gives up, the records end with the node.
func closeInTime(ctx context.Context, closeOne func(context.Context) error) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	return closeOne(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
