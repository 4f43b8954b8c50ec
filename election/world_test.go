// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// world is a cluster in a synctest bubble; node i has port 7001+i.
type world struct {
	t      *testing.T
	net    *memnet.Network
	nodes  []*cluster.Node
	groups []*Groups
	muxes  []*receiver.Mux
	stores []*store.Memory
}

// inWorld runs a test in a bubble with a cluster of the given size.
func inWorld(t *testing.T, size int, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, size)) })
}

// newWorld starts a number of nodes within a bubble.
func newWorld(t *testing.T, size int) *world {
	t.Helper()
	w := &world{t: t, net: memnet.New(), nodes: make([]*cluster.Node, size)}
	w.groups, w.muxes = make([]*Groups, size), make([]*receiver.Mux, size)
	for range size {
		w.stores = append(w.stores, &store.Memory{})
	}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			_ = n.Close()
		}
	})
	var all sync.WaitGroup
	for i := range size {
		all.Go(func() { w.start(i) })
	}
	all.Wait()
	for _, n := range w.nodes {
		if err := n.WaitActive(t.Context(), size); err != nil {
			t.Fatalf("WaitActive: %v", err)
		}
	}
	return w
}

func address(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7001 + i)}
}

// start starts node i with the store of its last run.
func (w *world) start(i int) {
	mux := receiver.NewMux()
	w.groups[i], w.muxes[i] = NewGroups(mux), mux
	cfg := cluster.Config{
		Addr: address(i).String(), Name: fmt.Sprint("n", i), Size: len(w.nodes), Receiver: mux,
	}
	for s := range w.nodes {
		cfg.Seeds = append(cfg.Seeds, address(s).String())
	}
	listen := func(transport.Config) (transport.Network, error) { return w.net.Listen(address(i)) }
	n, err := cluster.Start(store.NewContext(w.t.Context(), w.stores[i]), cfg,
		cluster.WithTransport(listen), cluster.WithClock(time.Now), // the clock of the bubble
		cluster.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		w.t.Errorf("node %d: Start: %v", i, err)
	}
	w.nodes[i] = n
}

// open opens a group on node i and closes it at the end of the test.
func (w *world) open(i int, group string, o Options) *leader.Candidate {
	w.t.Helper()
	e, err := w.groups[i].Open(w.nodes[i], group, o)
	if err != nil {
		w.t.Fatalf("node %d: Open: %v", i, err)
	}
	w.t.Cleanup(func() { w.close(e) })
	return e
}

func (w *world) close(e *leader.Candidate) {
	w.t.Helper()
	if err := e.Close(context.WithoutCancel(w.t.Context())); err != nil {
		w.t.Errorf("Close: %v", err)
	}
}

// openAll opens a group on all nodes.
func (w *world) openAll(group string, o Options) (all []*leader.Candidate) {
	for i := range w.nodes {
		all = append(all, w.open(i, group, o))
	}
	return all
}

// cutBetween silently cuts all links between two sets of nodes, or restores them.
func (w *world) cutBetween(a, b []int, cut bool) {
	change := w.net.Heal
	if cut {
		change = w.net.Cut
	}
	for _, i := range a {
		for _, j := range b {
			if i != j {
				change(address(i), address(j))
				change(address(j), address(i))
			}
		}
	}
}

// The timing of the tests, in the same proportions as in Fabric.
const (
	alive    = 2 * time.Second
	campaign = alive / 2
	sample   = alive / 10
)

func byLowest() Options {
	return Options{Strategy: Lowest, Timing: Timing{
		Grace: 3 * alive / 2, Sample: sample, Alive: alive, Campaign: campaign, Hold: 6 * alive,
	}}
}

func byQuorum() Options { return Options{Strategy: Quorum} }

// worker runs WhileLeader on a candidate.
type worker struct {
	began chan start
	done  chan error
	stop  context.CancelFunc
}

// start describes the start of one call.
type start struct {
	term leader.Term
	ctx  context.Context
	at   time.Time
}

// work runs a function in every term until its context ends.
func work(t *testing.T, e *leader.Candidate) *worker {
	return workWith(t, e, func(ctx context.Context) error { <-ctx.Done(); return nil })
}

func workWith(t *testing.T, e *leader.Candidate, fn func(context.Context) error) *worker {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &worker{make(chan start, 10_000), make(chan error, 1), stop}
	var running sync.Mutex
	go func() {
		w.done <- e.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
			if !running.TryLock() {
				t.Error("two concurrent calls")
			}
			defer running.Unlock()
			w.began <- start{term, ctx, time.Now()}
			return fn(ctx)
		})
	}()
	t.Cleanup(stop)
	return w
}

// next waits for the next call of the function.
func (w *worker) next(t *testing.T) start {
	t.Helper()
	select {
	case s := <-w.began:
		return s
	case <-time.After(10 * time.Minute):
		t.Fatal("no leadership begins within ten minutes")
		return start{}
	}
}

// idle fails the test if a call begins within d.
func (w *worker) idle(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case s := <-w.began:
		t.Errorf("leads with token %v", s.term.Token())
	case <-time.After(d):
	}
}

// ends waits for the end of a call and checks its cause.
func (s start) ends(t *testing.T, cause error) time.Time {
	t.Helper()
	select {
	case <-s.ctx.Done():
	case <-time.After(10 * time.Minute):
		t.Fatal("the leadership does not end within ten minutes")
	}
	if got := context.Cause(s.ctx); !errors.Is(got, cause) {
		t.Errorf("the context ended with %v, want %v", got, cause)
	}
	return time.Now()
}

// leaderOf waits until exactly one candidate leads and the others know it.
func leaderOf(t *testing.T, all []*leader.Candidate, among ...int) int {
	t.Helper()
	if len(among) == 0 {
		for i := range all {
			among = append(among, i)
		}
	}
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); pause(t, sample/10) {
		if i := agreed(all, among); i >= 0 {
			return i
		}
	}
	t.Fatalf("no leader of %v within ten minutes", among)
	return 0
}

// agreed returns the index of the leader that the given nodes agree on, or -1.
func agreed(all []*leader.Candidate, among []int) int {
	var leading []int
	for _, i := range among {
		if all[i].IsLeader() {
			leading = append(leading, i)
		}
	}
	if len(leading) != 1 {
		return -1
	}
	for _, i := range among {
		if l, _ := all[i].Leader(); l.ID != address(leading[0]).String() {
			return -1
		}
	}
	return leading[0]
}

func without(size, i int) []int {
	var rest []int
	for j := range size {
		rest = append(rest, j)
	}
	return slices.Delete(rest, i, i+1)
}

// pause lets time pass in the bubble.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
