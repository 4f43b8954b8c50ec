// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/transporttest"
)

// Path is what happens to the packets from one node to another; the zero Path delivers them
// as usual.
type Path struct {
	// Delay is added to the delay of the network, and a random part of Jitter for each
	// packet: packets overtake each other.
	Delay, Jitter time.Duration
	// Loss and Twice are the parts of the packets that are lost, and that arrive twice,
	// from 0 to 1.
	Loss, Twice float64
	// LimitBytes is the largest packet that passes; 0 for any.
	LimitBytes int
}

// Partition makes groups of nodes that reach each other and nobody else; the nodes in
// none of them are one more group. So Partition([]int{1}) isolates node 1. Earlier
// cuts and partitions are over.
func (c *Cluster) Partition(groups ...[]int) {
	c.t.Helper()
	group := func(i int) int {
		return slices.IndexFunc(groups, func(g []int) bool { return slices.Contains(g, i) })
	}
	for _, g := range groups {
		for _, i := range g {
			c.slotOf(i) // fails where there is none
		}
	}
	c.eachLink(func(from, to int) {
		if group(from) != group(to) {
			c.packets.Cut(c.Address(from), c.Address(to))
		} else {
			c.packets.Heal(c.Address(from), c.Address(to))
		}
	})
}

// Cut takes all packets that one node sends to another, and none of the other
// direction. Neither is told.
func (c *Cluster) Cut(from, to int) {
	c.t.Helper()
	c.slotOf(from)
	c.slotOf(to)
	c.packets.Cut(c.Address(from), c.Address(to))
}

// SetPath sets what befalls the packets from one node to another.
func (c *Cluster) SetPath(from, to int, path Path) {
	c.t.Helper()
	c.slotOf(from)
	c.slotOf(to)
	c.packets.SetPath(c.Address(from), c.Address(to), transporttest.Path(path))
}

// Slow makes all packets from and to a node take so much longer.
func (c *Cluster) Slow(i int, delay time.Duration) {
	c.t.Helper()
	for other := range c.slots {
		if other != i {
			c.SetPath(i, other, Path{Delay: delay})
			c.SetPath(other, i, Path{Delay: delay})
		}
	}
}

// Heal undoes Partition, Cut, SetPath and Slow, all of them.
func (c *Cluster) Heal() {
	c.eachLink(func(from, to int) {
		c.packets.Heal(c.Address(from), c.Address(to))
		c.packets.SetPath(c.Address(from), c.Address(to), transporttest.Path{})
	})
}

func (c *Cluster) eachLink(change func(from, to int)) {
	for from := range c.slots {
		for to := range c.slots {
			if from != to {
				change(from, to)
			}
		}
	}
}
