// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// world is a cluster in one bubble. Node i has port 7001+i.
type world struct {
	t      *testing.T
	net    *memnet.Network
	nodes  []*cluster.Node
	stores []*store.Memory
	clocks []*clock
	// between adds faults between a node and the network. between may be nil.
	between func(transport.Network) transport.Network
}

// clock is the clock of a node. While a clock is shut, reading it blocks the node.
type clock struct {
	mu   sync.Mutex
	shut chan struct{} // nil while the node runs
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	shut := c.shut
	c.mu.Unlock()
	if shut != nil {
		<-shut
	}
	return time.Now()
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = make(chan struct{})
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.shut)
	c.shut = nil
}

// Timings of cluster.DefaultConfig. A silent member trusts its records for trust. The cluster keeps
// them for hold, which is LeaderTimeout + LeaseTimeout.
const (
	heartbeat = 100 * time.Millisecond
	hold      = 1700 * time.Millisecond
	trust     = hold * 9 / 10
)

func newWorld(t *testing.T, size int) *world {
	w := &world{t: t, net: memnet.New(), nodes: make([]*cluster.Node, size)}
	for range size {
		w.stores, w.clocks = append(w.stores, &store.Memory{}), append(w.clocks, &clock{})
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			if n != nil {
				_ = n.Close()
			}
		}
	})
	return w
}

// inWorld runs a test in a bubble with a cluster of the given size.
func inWorld(t *testing.T, size int, test func(*testing.T, *world)) {
	t.Helper()
	inWorldWith(t, size, nil, test)
}

func inWorldWith(
	t *testing.T, size int, between func(transport.Network) transport.Network,
	test func(*testing.T, *world),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size)
		w.between = between
		var all sync.WaitGroup
		for i := range w.nodes {
			all.Go(func() { w.start(i) })
		}
		all.Wait()
		for _, n := range w.nodes {
			if err := n.WaitActive(t.Context(), size); err != nil {
				t.Fatalf("WaitActive: %v", err)
			}
		}
		test(t, w)
	})
}

func address(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7001 + i)}
}

// start starts node i with the store of its last run.
func (w *world) start(i int) {
	cfg := cluster.Config{Addr: address(i).String(), Name: fmt.Sprint("n", i), Size: len(w.nodes)}
	for s := range w.nodes {
		cfg.Seeds = append(cfg.Seeds, address(s).String())
	}
	listen := func(transport.Config) (transport.Network, error) {
		e, err := w.net.Listen(address(i))
		if err != nil || w.between == nil {
			return e, err
		}
		return w.between(e), nil
	}
	n, err := cluster.Start(store.NewContext(w.t.Context(), w.stores[i]), cfg,
		cluster.WithTransport(listen), cluster.WithClock(w.clocks[i].now),
		cluster.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		w.t.Errorf("node %d: Start: %v", i, err)
	}
	w.nodes[i] = n
}

// job opens a job on node i.
func (w *world) job(i int) *election.Job {
	w.t.Helper()
	return open(w.t, w.nodes[i].Records(), "job", election.JobOptions{})
}

// leader returns the index of the leader of the cluster.
func (w *world) leader() int {
	w.t.Helper()
	for i, n := range w.nodes {
		if term, ok := n.Leader(); ok && term.Valid() {
			return i
		}
	}
	w.t.Fatal("no node leads the cluster")
	return 0
}

// followers returns the indices of all other nodes.
func (w *world) followers() (f []int) {
	for i, leader := 0, w.leader(); i < len(w.nodes); i++ {
		if i != leader {
			f = append(f, i)
		}
	}
	return f
}

// cut separates a node from all others, without an error, until heal is called.
func (w *world) cut(i int)  { w.eachLink(i, w.net.Cut) }
func (w *world) heal(i int) { w.eachLink(i, w.net.Heal) }

func (w *world) eachLink(i int, change func(from, to member.Address)) {
	for o := range w.nodes {
		if o != i {
			change(address(i), address(o))
			change(address(o), address(i))
		}
	}
}

// worker runs WhileLeader of a job.
type worker struct {
	job   *election.Job
	began chan start
	done  chan error
	stop  context.CancelFunc
}

// start is the start of one term.
type start struct {
	token member.Token
	ctx   context.Context
	at    time.Time
}

// work runs in each term of the job until its context ends.
func work(t *testing.T, x *Exclusive, j *election.Job) *worker {
	return workWith(t, x, j, func(ctx context.Context) { <-ctx.Done() })
}

func workWith(t *testing.T, x *Exclusive, j *election.Job, fn func(context.Context)) *worker {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &worker{j, make(chan start, 10_000), make(chan error, 1), stop}
	go func() {
		w.done <- j.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
			if err := x.EnterTerm(ctx, term); err != nil {
				t.Error(err)
			}
			w.began <- start{term.Token(), ctx, time.Now()}
			fn(ctx)
			return nil
		})
	}()
	t.Cleanup(stop)
	return w
}

// next waits for the next term.
func (w *worker) next(t *testing.T) start {
	t.Helper()
	select {
	case s := <-w.began:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no leadership begins within a minute")
		return start{}
	}
}

// giveUp ends WhileLeader and resigns.
func (w *worker) giveUp(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.done
	if err := w.job.Resign(t.Context()); err != nil {
		t.Errorf("Resign: %v", err)
	}
}

// idle fails the test if a term begins within d.
func (w *worker) idle(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case s := <-w.began:
		t.Errorf("leads with token %v", s.token)
	case <-time.After(d):
	}
}

// ends waits for the end of a term and checks its cause.
func (s start) ends(t *testing.T, cause error) time.Time {
	t.Helper()
	select {
	case <-s.ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the leadership does not end within a minute")
	}
	if got := context.Cause(s.ctx); !errors.Is(got, cause) {
		t.Errorf("the context ended with %v, want %v", got, cause)
	}
	return time.Now()
}
