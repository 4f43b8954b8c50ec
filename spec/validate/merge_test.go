// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// TestNodes checks that the steps of whole nodes are a behaviour of the specification: leaders that
// crash and leave, and a lock for which all nodes contend.
func TestNodes(t *testing.T) {
	o := toolsOf(t)
	o.steps = 4000
	dir := t.TempDir()
	var starts atomic.Int32
	athenatest.Run(t, athenatest.Options{
		Main: func(
			ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
		) error {
			file := filepath.Join(dir, fmt.Sprintf("n%d.%d.json", i, starts.Add(1)))
			return contendForLock(t, ctx, file, cfg, opts)
		},
	}, func(_ *testing.T, c *athenatest.Cluster) {
		first := c.Leader()
		c.Crash(first)
		second := c.NextLeader(first)
		c.Restart(first)
		c.WaitSettled()
		c.Leave(second)
		c.Restart(second)
		c.WaitSettled()
		c.Partition([]int{c.Leader()})
		c.Advance(3 * time.Second)
		c.Heal()
		c.WaitSettled()
		c.Advance(time.Second)
	})
	steps, err := mergeFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, s := range steps {
		counts[s.Event]++
	}
	if counts[steplog.Start] != 5 || counts[steplog.Order] < 10 || counts[steplog.Deliver] < 500 {
		t.Errorf("got %v, want five starts, ten orders and 500 messages at least", counts)
	}
	if err := o.judgeHistories(t.TempDir(), o.listFiles([]string{dir})); err != nil {
		t.Error(err)
	}
}

// contendForLock runs a node that writes its steps and acquires a lock again and again.
func contendForLock(
	t *testing.T, ctx context.Context, file string, cfg cluster.Config, opts []cluster.Option,
) error {
	recorded, err := steplog.NewContext(ctx, file)
	if err != nil {
		return err
	}
	n, err := cluster.Start(recorded, cfg, opts...)
	if err != nil {
		return err
	}
	l, err := lock.New(n.Records(), "contended")
	if err != nil {
		t.Error(err)
		return n.Close()
	}
	for ctx.Err() == nil && n.Err() == nil {
		_ = l.Do(ctx, func(context.Context, leader.Term) error { return nil }) // without a leader
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	ended := context.WithoutCancel(ctx)
	_ = l.Close(ended) // fails if the node has ended
	if n.Err() != nil {
		return nil
	}
	return n.Leave(ended)
}

// TestEndOfRun checks that the last step of a killed process counts only if the next start of its
// store shows what the step saved.
func TestEndOfRun(t *testing.T) {
	saved := func(version, incarnation uint64) *steplog.Durable {
		d := &steplog.Durable{StoreID: member.StoreID{1}, Incarnation: incarnation}
		d.Promised = paxos.ID{Version: version}
		return d
	}
	events := func(steps []steplog.Step) (list []string) {
		for _, s := range steps {
			list = append(list, s.Event)
		}
		return list
	}
	run := []steplog.Step{
		{Event: steplog.Start, Saved: saved(0, 1)},
		{Event: steplog.Deliver, Saved: saved(2, 1)},
	}
	for name, c := range map[string]struct {
		next []steplog.Step
		want []string
	}{
		"saved":     {[]steplog.Step{{Saved: saved(2, 2)}}, []string{"start", "message", "crash"}},
		"not saved": {[]steplog.Step{{Saved: saved(0, 2)}}, []string{"start", "crash"}},
		"the last":  {nil, []string{"start", "message", "crash"}},
	} {
		var later [][]steplog.Step
		if c.next != nil {
			later = append(later, c.next)
		}
		if got := events(endRun(slices.Clone(run), later)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
