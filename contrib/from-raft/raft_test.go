// SPDX-License-Identifier: Apache-2.0

package fromraft_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// version is a version of the program that moves from raft to Athena.
type version int

const (
	onRaft   version = iota // starts a node, and does not use it
	onBoth                  // works under both
	onAthena                // works under Athena alone
)

// fleet is three processes of the program.
type fleet struct {
	t *testing.T

	mu       sync.Mutex
	versions [3]version
	rafts    [3]*raft.Raft // nil while the process does not run raft
	links    [3]*raft.InmemTransport
	stores   [3]*raft.InmemStore
	worker   int // the process that works, or -1
}

func newFleet(t *testing.T, v version) *fleet {
	f := &fleet{t: t, versions: [3]version{v, v, v}, worker: -1}
	for i := range f.stores {
		f.stores[i] = raft.NewInmemStore()
	}
	return f
}

func addressOf(i int) raft.ServerAddress { return raft.ServerAddress(fmt.Sprint("raft-", i)) }

// noData is a state machine of a program that uses raft for leadership alone.
type noData struct{}

func (noData) Apply(*raft.Log) any                 { return nil }
func (noData) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.ErrUnsupported }
func (noData) Restore(io.ReadCloser) error         { return errors.ErrUnsupported }

// startRaft starts the raft of process i, which founds its cluster on the first start.
func (f *fleet) startRaft(i int) (*raft.Raft, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = raft.ServerID(addressOf(i)), hclog.NewNullLogger()
	_, link := raft.NewInmemTransport(addressOf(i))
	var founding raft.Configuration
	for other, peer := range f.links {
		founding.Servers = append(founding.Servers,
			raft.Server{ID: raft.ServerID(addressOf(other)), Address: addressOf(other)})
		if other != i && peer != nil {
			peer.Connect(addressOf(i), link)
			link.Connect(addressOf(other), peer)
		}
	}
	f.links[i] = link
	r, err := raft.NewRaft(config, noData{}, f.stores[i], f.stores[i], raft.NewDiscardSnapshotStore(),
		link)
	if err != nil {
		return nil, err
	}
	f.rafts[i] = r
	err = r.BootstrapCluster(founding).Error()
	if errors.Is(err, raft.ErrCantBootstrap) {
		err = nil // it is not the first start
	}
	return r, err
}

func (f *fleet) stopRaft(i int) {
	f.mu.Lock()
	r := f.rafts[i]
	f.rafts[i], f.links[i] = nil, nil
	for _, peer := range f.links {
		if peer != nil {
			peer.Disconnect(addressOf(i))
		}
	}
	f.mu.Unlock()
	if err := r.Shutdown().Error(); err != nil {
		f.t.Errorf("raft %d: Shutdown: %v", i, err)
	}
}

// raftLeader returns the process that leads by raft, or -1.
func (f *fleet) raftLeader() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.rafts {
		if r != nil && r.State() == raft.Leader {
			return i
		}
	}
	return -1
}

func (f *fleet) findWorker() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.worker
}

// workAs returns the work of process i. It takes a moment to end.
func (f *fleet) workAs(i int) func(context.Context, leader.Term) error {
	return func(ctx context.Context, _ leader.Term) error {
		f.mu.Lock()
		if f.worker >= 0 {
			f.t.Errorf("process %d works beside process %d", i, f.worker)
		}
		f.worker = i
		f.mu.Unlock()
		<-ctx.Done()
		<-time.After(20 * time.Millisecond)
		f.mu.Lock()
		f.worker = -1
		f.mu.Unlock()
		return context.Cause(ctx)
	}
}

// main is the Main of process i.
func (f *fleet) main(
	ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
) error {
	f.mu.Lock()
	v := f.versions[i]
	f.mu.Unlock()
	if v == onRaft {
		return f.mainOfRaft(ctx, i, cfg, opts...)
	}
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	if v == onAthena {
		job, err := election.OpenJob(ctx, node.Records(), "billing", election.JobOptions{})
		if err != nil {
			return err
		}
		return job.WhileLeader(ctx, f.workAs(i)) // Leave gives up the job
	}
	r, err := f.startRaft(i)
	if err != nil {
		return err
	}
	defer f.stopRaft(i)
	return runUnderBoth(ctx, r, node.Records(), "billing", f.workAs(i))
}

// mainOfRaft is the Main of a process that only joins the cluster: its work does not wait for it.
func (f *fleet) mainOfRaft(
	ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
) error {
	var joining sync.WaitGroup
	defer joining.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	joining.Go(func() {
		if node, err := cluster.Start(ctx, cfg, opts...); err == nil {
			<-ctx.Done()
			_ = node.Leave(context.WithoutCancel(ctx))
		}
	})
	r, err := f.startRaft(i)
	if err != nil {
		return err
	}
	defer f.stopRaft(i)
	return runUnderRaft(ctx, r.LeaderCh(), f.workAs(i))
}

// runUnderRaft is the program before the move.
func runUnderRaft(
	ctx context.Context, leads <-chan bool, work func(context.Context, leader.Term) error,
) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case isLeader := <-leads:
			if !isLeader {
				continue
			}
		}
		term, lost := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- work(term, leader.Term{}) }()
		select {
		case <-ctx.Done():
		case <-leads:
		}
		lost()
		<-ended
	}
	return context.Cause(ctx)
}

// TestUnderBothWithTwoLeaders lets the two libraries elect different processes. The leader by raft
// must work, and its successor too.
func TestUnderBothWithTwoLeaders(t *testing.T) {
	f := newFleet(t, onBoth)
	athenatest.Run(t, athenatest.Options{Main: f.main}, func(t *testing.T, c *athenatest.Cluster) {
		for round := range 3 {
			var first int
			c.Within(10*time.Second, "a leader by raft", func() bool {
				first = f.raftLeader()
				return first >= 0
			})
			other := (first + 1) % 3
			if at := c.Leader(); at != other {
				to := c.Address(other)
				if err := c.Node(at).Transfer(t.Context(), to); err != nil {
					t.Fatalf("Transfer to %v: %v", to, err)
				}
			}
			c.Within(5*time.Second, fmt.Sprintf("work of process %d in round %d", first, round),
				func() bool { return f.findWorker() == first })
			if c.Leader() == first || f.raftLeader() != first {
				t.Errorf("process %d leads by raft, %d by Athena, want others than %d and %d",
					f.raftLeader(), c.Leader(), first, other)
			}
			next := (first + 2) % 3
			err := f.rafts[first].LeadershipTransferToServer(
				raft.ServerID(addressOf(next)), addressOf(next)).Error()
			if err != nil {
				t.Fatalf("raft: transfer from %d to %d: %v", first, next, err)
			}
		}
	})
}

// TestUnderBothWithoutTheCluster cuts the leader by raft off from the cluster alone. Another
// process must work.
func TestUnderBothWithoutTheCluster(t *testing.T) {
	f := newFleet(t, onBoth)
	athenatest.Run(t, athenatest.Options{Main: f.main}, func(t *testing.T, c *athenatest.Cluster) {
		c.Within(10*time.Second, "work", func() bool { return f.findWorker() >= 0 })
		cut := f.findWorker()
		c.Partition([]int{cut})
		c.Within(20*time.Second, "work of another process", func() bool {
			at := f.findWorker()
			return at >= 0 && at != cut
		})
		c.Heal()
		c.WaitSettled()
	})
}

// TestMoveFromRaft deploys the three versions and goes back, each as a rolling update. A process
// must work again soon after each restart, and never two at a time.
func TestMoveFromRaft(t *testing.T) {
	f := newFleet(t, onRaft)
	athenatest.Run(t, athenatest.Options{Main: f.main}, func(t *testing.T, c *athenatest.Cluster) {
		for step, v := range []version{onRaft, onBoth, onAthena, onBoth, onRaft} {
			for i := range c.Size() {
				if step > 0 {
					c.Leave(i)
					f.mu.Lock()
					f.versions[i] = v
					f.mu.Unlock()
					c.Restart(i)
				}
				c.Within(10*time.Second, fmt.Sprintf("work after process %d has version %d", i, v),
					func() bool { return f.findWorker() >= 0 })
				c.Advance(2 * time.Second)
			}
			if v == onAthena && f.raftLeader() >= 0 {
				t.Error("raft runs after the move")
			}
		}
	})
}

// TestStopWithoutMajority stops the last of three processes, as if all stopped together. It must
// not wait for a majority to give up its job.
func TestStopWithoutMajority(t *testing.T) {
	for _, v := range []version{onBoth, onAthena} {
		f := newFleet(t, v)
		athenatest.Run(t, athenatest.Options{Main: f.main}, func(t *testing.T, c *athenatest.Cluster) {
			c.Within(10*time.Second, "work", func() bool { return f.findWorker() >= 0 })
			last := f.findWorker()
			c.Crash((last + 1) % 3)
			c.Crash((last + 2) % 3)
			c.Advance(5 * time.Second)
			c.Leave(last)
		})
	}
}
