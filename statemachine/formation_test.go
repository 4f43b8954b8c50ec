// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
)

func TestFormation(t *testing.T) {
	for _, tc := range []struct {
		name        string
		size, seeds int
		limit       time.Duration
	}{
		{"one node needs no message", 1, 1, 0},
		{"two seeds", 2, 2, 20 * time.Millisecond},
		{"three seeds", 3, 3, 20 * time.Millisecond},
		{"one seed of three", 3, 1, 20 * time.Millisecond},
		{"two seeds of five", 5, 2, 25 * time.Millisecond},
		{"five seeds", 5, 5, 25 * time.Millisecond},
		{"nine, three seeds", 9, 3, 40 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBus(t, tc.size, tc.seeds)
			for i := range tc.size {
				b.start(i)
			}
			took := b.until(tc.limit+time.Nanosecond, "settled cluster",
				func() bool { return b.settled(tc.size) })
			t.Logf("formed in %v", took)
		})
	}
}

// L2 of protocol.md section 11: a fresh cluster without its greatest seeds, which are
// dead, or hear and are not heard.
func TestFormationWithoutTheGreatestSeeds(t *testing.T) {
	for _, tc := range []struct {
		size, seeds, dead int
		limit             time.Duration // besides what it takes with all
	}{
		{3, 3, 1, 550 * time.Millisecond},
		{5, 5, 1, 550 * time.Millisecond},
		{5, 5, 2, 550 * time.Millisecond},
		{25, 3, 1, 550 * time.Millisecond},
		{50, 3, 1, 550 * time.Millisecond},
		{9, 9, 1, 800 * time.Millisecond},
		{25, 25, 1, 800 * time.Millisecond},
		{50, 50, 1, 800 * time.Millisecond},
		{9, 9, 3, 1925 * time.Millisecond},
		{25, 25, 2, 1675 * time.Millisecond},
		{50, 50, 10, 3675 * time.Millisecond},
	} {
		for _, mute := range []bool{false, true} {
			b := newBus(t, tc.size, tc.seeds)
			byRank := slices.SortedFunc(slices.Values(b.seeds), func(a, b member.Address) int {
				return b.Compare(a)
			})
			dead := byRank[:tc.dead]
			if mute {
				b.cut = func(m message.Message) bool { return slices.Contains(dead, m.From.Address) }
			}
			for i, n := range b.nodes {
				if mute || !slices.Contains(dead, n.addr) {
					b.start(i)
				}
			}
			took := b.until(tc.limit+40*time.Millisecond, "leader of all others", func() bool {
				l := b.quorate()
				return l >= 0 && !slices.ContainsFunc(b.nodes, func(n *node) bool {
					return !slices.Contains(dead, n.addr) && n.View(b.now).Leader != b.nodes[l].addr
				})
			})
			t.Logf("%d nodes, %d seeds, %d dead, mute %t: %v", tc.size, tc.seeds, tc.dead, mute, took)
		}
	}
}

func TestLeaderCrash(t *testing.T) {
	for size := 3; size <= 5; size++ {
		b := newBus(t, size, size)
		for i := range size {
			b.start(i)
		}
		b.until(time.Second, "settled cluster", func() bool { return b.settled(size) })
		b.run(3 * time.Second)
		old := b.quorate()
		b.crash(old)
		took := b.until(3*time.Second, "next leader", func() bool {
			l := b.quorate()
			return l >= 0 && l != old
		})
		t.Logf("N=%d: next leader after %v", size, took)
		b.start(old)
		took = b.until(3*time.Second, "return", func() bool { return b.settled(size) })
		t.Logf("N=%d: back after %v", size, took)
	}
}
