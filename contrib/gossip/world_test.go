// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// world runs many nodes in one bubble.
type world struct {
	fleet
	t     *testing.T
	net   *network
	seeds []int
}

// fleet holds nodes and their Candidates of one group. Both are nil for a node that is not running.
type fleet struct {
	nodes []*Node
	all   []*leader.Candidate
}

func newFleet(size int) fleet {
	return fleet{make([]*Node, size), make([]*leader.Candidate, size)}
}

func byLowest() election.Options { return election.Options{Strategy: election.Lowest} }

// inWorld runs a test with nodes that start together and have opened the same group.
func inWorld(t *testing.T, size int, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size)
		everybody := between(0, size)
		w.startThese(everybody)
		first, after := w.one(everybody, time.Minute)
		t.Logf("%d members: %s leads %v after all have started", size, name(first), after)
		after += w.until(w.see(everybody, size), 10*time.Minute)
		t.Logf("all see each other after %v, too", after)
		test(t, w)
	})
}

func newWorld(t *testing.T, size int) *world {
	w := &world{
		t: t, fleet: newFleet(size), seeds: []int{0, 1, 2},
		net: &network{delay: 10 * time.Millisecond, ends: map[netip.AddrPort]*end{}},
	}
	t.Cleanup(func() {
		w.close()
		w.pause(time.Minute) // memberlist does not wait for its probes when it shuts down
	})
	return w
}

// close closes all nodes concurrently.
func (f *fleet) close() {
	var over sync.WaitGroup
	for _, n := range f.nodes {
		if n != nil {
			over.Go(func() { _ = n.Close() })
		}
	}
	over.Wait()
}

// startThese starts nodes concurrently.
func (w *world) startThese(some []int) {
	var all sync.WaitGroup
	for _, i := range some {
		all.Go(func() { w.start(i) })
	}
	all.Wait()
}

func address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i / 256), byte(i % 256)}), 7946)
}

func name(i int) string { return fmt.Sprintf("n%04d", i) }

// start starts node i and opens the group on it.
func (w *world) start(i int) {
	n, err := Start(w.t.Context(), w.config(i))
	if err != nil {
		w.t.Errorf("node %d: Start: %v", i, err)
		return
	}
	w.nodes[i] = n
	w.open(w.t, i, "group")
}

// config returns the configuration of node i and connects it.
func (w *world) config(i int) Config {
	wire := w.net.connect(i, address(i))
	cfg := Config{
		Name: name(i), Addr: address(i).String(), Logger: slog.New(slog.DiscardHandler),
		Tune: func(c *memberlist.Config) { c.Transport = wire },
	}
	for _, s := range w.seeds {
		cfg.Seeds = append(cfg.Seeds, address(s).String())
	}
	return cfg
}

// open opens a group on node i.
func (f *fleet) open(t *testing.T, i int, group string) {
	t.Helper()
	e, err := f.nodes[i].Open(group, byLowest())
	if err != nil {
		t.Errorf("node %d: Open: %v", i, err)
	}
	f.all[i] = e
}

// crash closes node i without an announcement.
func (w *world) crash(i int) {
	if err := w.nodes[i].Close(); err != nil {
		w.t.Errorf("Close: %v", err)
	}
	w.nodes[i], w.all[i] = nil, nil
}

// until lets time pass until a condition holds, and returns how long that took.
func (w *world) until(holds func() bool, most time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > most {
			w.t.Fatalf("not within %v: %v", most, w)
		}
		w.pause(10 * time.Millisecond)
	}
	return time.Since(began)
}

// pause lets d pass.
func (w *world) pause(d time.Duration) { <-time.After(d) }

// see returns the condition that each of these nodes knows exactly the given number of members.
func (f *fleet) see(some []int, count int) func() bool {
	return func() bool {
		for _, i := range some {
			if len(f.nodes[i].Members()) != count {
				return false
			}
		}
		return true
	}
}

// leaders returns the number of leaders.
func (f *fleet) leaders() (count int) {
	for _, e := range f.all {
		if e != nil && e.IsLeader() {
			count++
		}
	}
	return count
}

// stays checks that for d, node i leads and none of the other nodes leads.
func (w *world) stays(leader int, some []int, d time.Duration) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < d; w.pause(50 * time.Millisecond) {
		for _, i := range some {
			if w.all[i].IsLeader() != (i == leader) {
				w.t.Fatalf("%s is not the only leader for %v, but %v: %v", name(leader), d,
					time.Since(began), w)
			}
		}
	}
}

// leads returns the only leader of these nodes if all of them follow it, or -1.
func (f *fleet) leads(some []int) int {
	leader := -1
	for _, i := range some {
		if f.all[i].IsLeader() {
			if leader >= 0 {
				return -1
			}
			leader = i
		}
	}
	if leader < 0 {
		return -1
	}
	for _, i := range some {
		if l, _ := f.all[i].Leader(); l.ID != name(leader) {
			return -1
		}
	}
	return leader
}

// one waits until these nodes follow the same leader.
func (w *world) one(some []int, most time.Duration) (leader int, after time.Duration) {
	w.t.Helper()
	after = w.until(func() bool { leader = w.leads(some); return leader >= 0 }, most)
	return leader, after
}

// String returns the leaders and the number of followers of each.
func (f *fleet) String() string {
	var leaders []string
	follow, see := map[string]int{}, map[int]int{}
	for i, n := range f.nodes {
		if n == nil {
			continue
		}
		see[len(n.Members())]++
		if f.all[i].IsLeader() {
			leaders = append(leaders, name(i))
		}
		l, _ := f.all[i].Leader()
		follow[l.ID]++
	}
	return fmt.Sprintf("led by %v; following %v; members seen %v", leaders, follow, see)
}

// without returns the nodes except one.
func without(some []int, i int) []int {
	return slices.DeleteFunc(slices.Clone(some), func(j int) bool { return i == j })
}

// between returns the numbers n with from <= n < to.
func between(from, to int) (is []int) {
	for i := from; i < to; i++ {
		is = append(is, i)
	}
	return is
}
