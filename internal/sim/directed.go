// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file has what a run that is written by hand does beyond control.go: the
// faults that a drawn run has too, one at a time.

// Mend ends every cut between two processes.
func (c *Cluster) Mend(a, b int) {
	c.noteRun(Network, "mends %s and %s", nameOf(a), nameOf(b))
	c.net.linkOf(a, b).cuts = 0
	c.net.linkOf(b, a).cuts = 0
}

// Hold keeps everything that one process sends to another under way until d
// has passed. It arrives then, in order.
func (c *Cluster) Hold(from, to int, d time.Duration) {
	c.noteRun(Network, "holds %s to %s for %v", nameOf(from), nameOf(to), d)
	l := c.net.linkOf(from, to)
	l.clogged = max(l.clogged, c.now+int64(d))
}

// Break breaks the connection between two processes: what is under way is
// lost; the next message goes on a new one.
func (c *Cluster) Break(a, b int) { c.breakConnection(a, b, 0) }

// Weather makes every link behave so, until Heal.
func (c *Cluster) Weather(l Link) {
	c.noteRun(Network, "is now %+v", l)
	for i := range c.net.links {
		c.net.links[i].Link = l
	}
}

// Misfit is what a process has in its configuration instead of what the others
// have. What is zero is as theirs.
type Misfit struct {
	Size     int
	Lease    time.Duration // LeaseTimeout
	Seeds    []int         // which processes it takes for the seeds
	Protocol [2]uint16     // least and greatest version that it speaks
}

// Misconfigure makes the next runs of a process have m; the zero Misfit mends
// it.
func (c *Cluster) Misconfigure(i int, m Misfit) {
	p := c.procs[i]
	p.misfit = misfit{size: m.Size, lease: m.Lease, protocol: m.Protocol}
	for _, s := range m.Seeds {
		p.misfit.seeds = append(p.misfit.seeds, c.Address(s))
	}
	slices.SortFunc(p.misfit.seeds, member.Address.Compare)
}

// SetFast gives a process that is not started yet the fastest clock for which
// a lease allows, 1.111 times as fast as that of the others.
func (c *Cluster) SetFast(i int) { c.procs[i].clock.rate = rateMax }

// SetBack sets the wall clock of a process that is down back, so that its next
// store begins with the earliest incarnation.
func (c *Cluster) SetBack(i int) {
	p := c.procs[i]
	p.setBack = true
	c.procs[p.home].next = 1
}

// Register counts the writes that the register took and those that it refused,
// because they came from leaders whose time was over.
func (c *Cluster) Register() (taken, refused int) {
	return c.register.accepted, c.register.fenced
}

// losesMessage asks whether a message is lost because the run says so.
func (c *Cluster) losesMessage(from, to int, m message.Message) bool {
	return c.Lose != nil && c.Lose(from, to, m.Body.Kind())
}
