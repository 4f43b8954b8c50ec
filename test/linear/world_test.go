// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/test/workload"
)

var (
	seed   = flag.Uint64("seed", 1, "first seed of TestHistories")
	worlds = flag.Uint64("worlds", 2, "number of clusters of TestHistories, with 16 histories each")
)

// keysOfKind is how many records and how many locks a world has, each with a history of its own.
const keysOfKind = 8

// TestHistories runs clusters in virtual time with faults drawn from a seed, and judges the history
// of each key. A seed repeats the faults and the choices of the clients, but not the order in which
// goroutines run.
func TestHistories(t *testing.T) {
	var total counts
	for n := *seed; n < *seed+*worlds && !t.Failed(); n++ {
		w := &world{rand: rand.New(rand.NewPCG(n, 0)), seed: n, running: map[int]*bool{}}
		t.Run(fmt.Sprint("seed ", n), func(t *testing.T) {
			athenatest.Run(t, athenatest.Options{Size: 3, Main: w.serveNode}, w.injectFaults)
		})
		total.judgeAll(t, fmt.Sprint("seed ", n), w.lines)
	}
	total.logCounts(t)
	if total.histories != int(*worlds)*2*keysOfKind {
		t.Errorf("%d histories, want %d", total.histories, *worlds*2*keysOfKind)
	}
}

// counts is what was judged.
type counts struct{ histories, operations, conflicts, unknown, longest int }

// judgeAll judges all histories in what clients recorded.
func (c *counts) judgeAll(t *testing.T, name string, lines []workload.Operation) {
	t.Helper()
	for key, ops := range workload.Complete(lines) {
		c.histories++
		c.operations += len(ops)
		c.longest = max(c.longest, len(ops))
		for _, o := range ops {
			switch o.Result {
			case workload.Conflict:
				c.conflicts++
			case workload.Unknown:
				c.unknown++
			}
		}
		if err := judgeHistory(ops); err != nil {
			t.Errorf("%s, %s: %v", name, key, err)
		}
	}
}

func (c *counts) logCounts(t *testing.T) {
	t.Helper()
	t.Logf("%d histories of up to %d operations, %d in all; %d conflicts, %d of unknown result",
		c.histories, c.longest, c.operations, c.conflicts, c.unknown)
	if c.operations < 10*c.histories || c.conflicts == 0 || c.unknown == 0 {
		t.Error("too little happened")
	}
}

// world is a cluster whose nodes run clients.
type world struct {
	seed uint64
	rand *rand.Rand

	mu      sync.Mutex
	lines   []workload.Operation
	clients int64
	running map[int]*bool // by node: whether its process is alive
}

// serveNode runs a node with its clients.
func (w *world) serveNode(
	ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
) error {
	n, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	wait := w.startClients(work, i, n)
	select {
	case <-ctx.Done():
		wait()
		return n.Leave(context.WithoutCancel(ctx))
	case <-n.Done():
	}
	stop()
	wait()
	if errors.Is(n.Err(), cluster.ErrLeft) || errors.Is(n.Err(), cluster.ErrClosed) {
		return nil
	}
	return n.Err()
}

// startClients starts a client of each key. It returns a function that waits until they have ended.
func (w *world) startClients(ctx context.Context, i int, n *cluster.Node) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var group sync.WaitGroup
	alive := true
	w.running[i] = &alive
	newClient := func() *workload.Client {
		w.clients++
		return &workload.Client{
			ID: w.clients, Store: n.Records(), Rand: rand.New(rand.NewPCG(w.seed, uint64(w.clients))),
			Now: func() int64 { return time.Now().UnixNano() }, Tick: 20 * time.Millisecond,
			Record: func(o workload.Operation) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if alive {
					w.lines = append(w.lines, o)
				}
			},
		}
	}
	for key := range keysOfKind {
		records, locks := newClient(), newClient()
		group.Go(func() { records.UseRecord(ctx, fmt.Sprint("test/", key)) })
		group.Go(func() {
			if err := locks.UseLock(ctx, fmt.Sprint("lock", key)); err != nil {
				panic(err) // the name is constant
			}
		})
	}
	return group.Wait
}

// killMember ends the process of a node: its clients record nothing more.
func (w *world) killMember(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if alive := w.running[i]; alive != nil {
		*alive = false
	}
}

// injectFaults draws faults while the clients run.
func (w *world) injectFaults(t *testing.T, c *athenatest.Cluster) {
	pause := func(d time.Duration) { c.Advance(time.Duration(w.rand.Int64N(int64(d)))) }
	for range 6 {
		pause(3 * time.Second)
		i := w.rand.IntN(c.Size())
		if leader, ok := c.Leading(); ok && w.rand.IntN(2) == 0 {
			i = leader
		}
		switch w.rand.IntN(5) {
		case 0:
			w.killMember(i)
			c.Crash(i)
			pause(4 * time.Second)
			c.Restart(i)
		case 1:
			c.Leave(i)
			pause(2 * time.Second)
			c.Restart(i)
		case 2:
			c.Partition([]int{i})
			pause(8 * time.Second)
		case 3:
			c.Slow(i, time.Duration(w.rand.Int64N(int64(200*time.Millisecond))))
			pause(4 * time.Second)
		case 4:
			for to := range c.Size() {
				if to != i {
					c.SetPath(i, to, athenatest.Path{Loss: 0.3, Jitter: 20 * time.Millisecond})
				}
			}
			pause(4 * time.Second)
		}
		c.Heal()
	}
	c.WaitSettled()
	c.Advance(2 * time.Second)
	for i := range c.Size() {
		w.killMember(i)
	}
}
