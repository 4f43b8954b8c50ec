// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/simnet"
)

// Path describes the faults of packets from one node to another. The zero Path has no
// faults.
type Path struct {
	// Delay is added to the delay of the network, plus a random part of Jitter for each
	// packet. Jitter lets packets overtake each other.
	Delay, Jitter time.Duration
	// Loss and Twice are the probabilities, from 0 to 1, that a packet is lost or arrives
	// twice.
	Loss, Twice float64
	// LimitBytes is the size of the largest packet that is delivered; 0 means no limit.
	LimitBytes int
}

// Partition divides the nodes into groups that cannot reach each other. The remaining nodes form
// one more group. So Partition([]int{1}) isolates node 1. It replaces earlier cuts and partitions.
func (c *Cluster) Partition(groups ...[]int) {
	c.t.Helper()
	group := func(i int) int {
		return slices.IndexFunc(groups, func(g []int) bool { return slices.Contains(g, i) })
	}
	for _, g := range groups {
		for _, i := range g {
			c.slotOf(i) // fails the test if there is no such node
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

// Cut drops all packets from one node to another, but not in the other direction. Neither
// node gets an error.
func (c *Cluster) Cut(from, to int) {
	c.t.Helper()
	c.slotOf(from)
	c.slotOf(to)
	c.packets.Cut(c.Address(from), c.Address(to))
}

// SetPath sets the faults of packets from one node to another.
func (c *Cluster) SetPath(from, to int, path Path) {
	c.t.Helper()
	c.slotOf(from)
	c.slotOf(to)
	c.packets.SetPath(c.Address(from), c.Address(to), simnet.Path(path))
}

// Slow delays all packets from and to a node.
func (c *Cluster) Slow(i int, delay time.Duration) {
	c.t.Helper()
	for other := range c.slots {
		if other != i {
			c.SetPath(i, other, Path{Delay: delay})
			c.SetPath(other, i, Path{Delay: delay})
		}
	}
}

// Heal ends all effects of Partition, Cut, SetPath and Slow.
func (c *Cluster) Heal() {
	c.eachLink(func(from, to int) {
		c.packets.Heal(c.Address(from), c.Address(to))
		c.packets.SetPath(c.Address(from), c.Address(to), simnet.Path{})
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
