// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests in which the seeds with the greatest addresses are missing (protocol.md 4, 5 and 11, L2).

// byRank returns the seeds by descending address.
func (b *bus) byRank() []int {
	var out []int
	for i, n := range b.nodes {
		if slices.Contains(b.seeds, n.addr) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(x, y int) int { return b.nodes[y].addr.Compare(b.nodes[x].addr) })
	return out
}

// ledByOne reports whether all running nodes follow one quorate leader. It ignores the given nodes.
func (b *bus) ledByOne(but []int) bool {
	b.t.Helper()
	l := b.quorate()
	for i, n := range b.nodes {
		if l < 0 || n.up && !slices.Contains(but, i) && n.View(b.now).Leader != b.nodes[l].addr {
			return false
		}
	}
	return true
}

// dice gives every node its own random source.
func (b *bus) dice(trial uint64) {
	for i, n := range b.nodes {
		n.conf = func(c *statemachine.Config) { c.Rand = rand.New(rand.NewPCG(trial, uint64(i))) }
	}
}

// mute drops all messages sent by the given nodes.
func (b *bus) mute(which []int) {
	b.cut = func(m message.Message) bool {
		return slices.ContainsFunc(which, func(i int) bool { return addr(i) == m.From.Address })
	}
}

// withoutGreatest returns the bound of L2 for a new cluster whose d greatest seeds are missing.
func (b *bus) withoutGreatest(d int) time.Duration {
	retry, beat := b.timings.RetryInterval, b.timings.HeartbeatInterval
	if len(b.seeds) <= 5 {
		return retry + beat
	}
	turn := min(retry/2, b.timings.TTLTimeout/time.Duration(len(b.seeds)))
	return retry*3/2 + time.Duration(d-1)*turn + beat
}

// A new cluster elects a leader even if its greatest seeds are dead, or can receive but not send.
func TestFormationWithoutTheGreatestSeeds(t *testing.T) {
	for _, tc := range []struct{ size, seeds, dead int }{
		{3, 3, 1}, {5, 5, 1}, {5, 5, 2}, {25, 3, 1}, {50, 3, 1}, {9, 9, 1}, {9, 9, 3}, {25, 25, 1},
		{25, 25, 2}, {25, 25, 12}, {60, 9, 4}, {50, 50, 1}, {50, 50, 10}, {50, 50, 24}, {100, 100, 37},
	} {
		for _, mute := range []bool{false, true} {
			b := newBus(t, tc.size, tc.seeds)
			dead := b.byRank()[:tc.dead]
			if mute {
				b.mute(dead)
			}
			for i := range b.nodes {
				if mute || !slices.Contains(dead, i) {
					b.start(i)
				}
			}
			took := b.until(b.withoutGreatest(tc.dead), "leader of all others",
				func() bool { return b.ledByOne(dead) })
			t.Logf("%d nodes, %d seeds, %d dead, mute %t: %v", tc.size, tc.seeds, tc.dead, mute, took)
		}
	}
}

// The same holds for seeds that start one after another with different jitter.
func TestStaggeredFormationWithoutTheGreatestSeeds(t *testing.T) {
	for trial := range uint64(100) {
		draw := rand.New(rand.NewPCG(trial, 1))
		seeds := 2 + draw.IntN(19)
		size := seeds + draw.IntN(8)
		dead := 1 + draw.IntN(max((seeds-1)/2, 1))
		b := newBus(t, size, seeds)
		if seeds-dead < member.Quorum(seeds) || size-dead < member.Quorum(size) {
			continue // too few nodes are left for a founding
		}
		b.dice(trial)
		gone := b.byRank()[:dead]
		if trial%2 == 0 {
			b.mute(gone)
		}
		for _, i := range draw.Perm(size) {
			if trial%2 == 0 || !slices.Contains(gone, i) {
				b.start(i)
			}
			b.run(time.Duration(draw.IntN(10)) * time.Millisecond)
		}
		limit := b.withoutGreatest(dead)
		if size > seeds {
			limit += b.timings.RetryInterval
		}
		took := b.until(limit, "leader of all others", func() bool { return b.ledByOne(gone) })
		t.Logf("%d nodes, %d seeds, %d dead: %v of %v", size, seeds, dead, took, limit)
	}
}

// A machine handles one connection after another and takes 8 ms for each. The greatest seed alone
// gets 50 connections. A node that gets no answer must not add to the load.
func TestManySeedsFormOnABusyMachine(t *testing.T) {
	b := newBus(t, 50, 50)
	b.dice(1)
	known := map[[2]member.Address]bool{}
	free := b.now
	b.cut = func(m message.Message) bool { // delays the message until the machine handles it
		ends := [2]member.Address{m.From.Address, m.To}
		if ends[0].Compare(ends[1]) > 0 {
			ends[0], ends[1] = ends[1], ends[0]
		}
		cost := 80 * time.Microsecond
		if !known[ends] {
			known[ends], cost = true, 8*time.Millisecond
		}
		if free.Before(b.now) {
			free = b.now
		}
		free = free.Add(cost)
		b.wire = append(b.wire, flight{free.Add(b.latency), m})
		return true
	}
	for i := range b.nodes {
		b.start(i)
		b.run(3 * time.Millisecond)
	}
	took := b.until(3*time.Second, "leader of all", func() bool { return b.ledByOne(nil) })
	if n := len(known); n > 300 {
		t.Errorf("got %d connections in %v, want at most 300 of 1225", n, took)
	}
}

// A new node joins a running cluster. The d greatest seeds are dead, or they are cut off and have
// no leader (section 11, L2).
func TestNewNodeJoinsWithoutTheGreatestSeeds(t *testing.T) {
	for _, tc := range []struct {
		seeds, dead, rounds int
	}{{3, 1, 1}, {3, 2, 1}, {5, 2, 1}, {9, 4, 2}, {9, 8, 2}, {30, 12, 3}, {50, 20, 3}} {
		for _, cutOff := range []bool{false, true} {
			size := max(tc.seeds+1, 2*tc.dead+4)
			b := newBus(t, size, tc.seeds)
			for i := range size - 1 {
				b.start(i)
			}
			b.until(time.Second, "leader", func() bool { return b.ledByOne(nil) })
			b.run(time.Second)
			gone, late := b.byRank()[:tc.dead], size-1
			if cutOff {
				b.cut = func(m message.Message) bool {
					in := func(a member.Address) bool {
						return slices.ContainsFunc(gone, func(i int) bool { return addr(i) == a })
					}
					late := m.From.Address == addr(late) || m.To == addr(late)
					return in(m.From.Address) != in(m.To) && !late
				}
			} else {
				b.crash(gone...)
			}
			b.run(3 * b.timings.LeaderTimeout)
			b.start(late)
			limit := b.timings.RetryInterval*5/4*time.Duration(tc.rounds) + 6*b.latency
			took := b.until(limit, "leader of the new node", func() bool {
				l := b.quorate()
				return l >= 0 && b.view(late).Leader == b.nodes[l].addr
			})
			t.Logf("%d seeds, %d gone, cut off %t: %v", tc.seeds, tc.dead, cutOff, took)
		}
	}
}

// A provisional leader sends its claim to more nodes each time (section 5), so two provisional
// leaders learn of each other even if the greatest seed is dead.
func TestIslandsWithoutTheGreatestSeedFindEachOther(t *testing.T) {
	b := newBus(t, 100, 100)
	alive := b.byRank()[40:]
	b.cut = func(m message.Message) bool {
		side := func(a member.Address) bool {
			return slices.IndexFunc(alive, func(i int) bool { return addr(i) == a })%2 == 0
		}
		return side(m.From.Address) != side(m.To)
	}
	b.start(alive...)
	b.run(8 * time.Second)
	if l := b.quorate(); l >= 0 {
		t.Fatalf("got leader n%d in one of two halves, want none", l+1)
	}
	b.cut = nil
	b.until(2*b.timings.HeartbeatInterval, "leader of all", func() bool { return b.ledByOne(nil) })
}

// A provisional leader that does not answer is given up: the greatest seed can send but not
// receive, so it declares itself and admits no node.
func TestFormationWithoutASeedThatIsDeaf(t *testing.T) {
	for _, tc := range []struct {
		size, seeds int
		leaderless  bool // the unresponsive seed never declares itself
	}{
		{3, 3, false}, {5, 3, false}, {5, 5, false}, {9, 9, false}, {25, 25, false}, {3, 3, true},
		{9, 9, true},
	} {
		b := newBus(t, tc.size, tc.seeds)
		b.dice(uint64(tc.size))
		deaf := b.byRank()[0]
		b.nodes[deaf].conf = func(c *statemachine.Config) { c.JoinOnly = tc.leaderless }
		b.cut = func(m message.Message) bool { return m.To == addr(deaf) }
		for i := range b.nodes {
			b.start(i)
		}
		took := b.until(b.timings.TTLTimeout+4*b.timings.RetryInterval, "leader of all others",
			func() bool { return b.ledByOne([]int{deaf}) })
		t.Logf("%d nodes, %d seeds, leaderless %t: %v", tc.size, tc.seeds, tc.leaderless, took)
		b.cut = nil
		b.until(b.timings.TTLTimeout, "leader of all", func() bool { return b.ledByOne(nil) })
	}
}

// An unresponsive leader that answers again is a provisional leader like any other.
func TestAProvisionalLeaderThatAnswersAgainIsJoined(t *testing.T) {
	b := newBus(t, 5, 3)
	b.cut = func(m message.Message) bool { return m.To == addr(2) }
	b.start(1, 2)
	b.until(b.timings.TTLTimeout+4*b.timings.RetryInterval, "second provisional leader",
		func() bool { return b.view(1).Role == member.Provisional })
	b.run(b.timings.TTLTimeout)
	if role := b.view(1).Role; role != member.Provisional {
		t.Errorf("got n2 %v beside a leader that receives nothing, want it to stay", role)
	}
	b.cut = nil
	b.until(3*b.timings.HeartbeatInterval, "one provisional leader",
		func() bool { return b.view(1).Leader == addr(2) })
}
