// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file contains further operations for hand-written runs: single faults that also occur in
// drawn runs.

// Mend ends every cut between two processes.
func (c *Cluster) Mend(a, b int) {
	c.noteRun(Network, "reconnects %s and %s", nameOf(a), nameOf(b))
	c.net.linkOf(a, b).cuts = 0
	c.net.linkOf(b, a).cuts = 0
}

// Hold holds back all messages from one process to another for d. They then arrive in
// order.
func (c *Cluster) Hold(from, to int, d time.Duration) {
	c.noteRun(Network, "holds back messages from %s to %s for %v", nameOf(from), nameOf(to), d)
	l := c.net.linkOf(from, to)
	l.clogged = max(l.clogged, c.now+int64(d))
}

// Break breaks the connection between two processes: messages in flight are lost, and the
// next message uses a new connection.
func (c *Cluster) Break(a, b int) { c.breakConnection(a, b, 0) }

// Weather sets the behaviour of every link until Heal.
func (c *Cluster) Weather(l Link) {
	c.noteRun(Network, "sets every link to %+v", l)
	for i := range c.net.links {
		c.net.links[i].Link = l
	}
}

// Misfit lists the settings in which a process differs from the others. A zero field means
// no difference.
type Misfit struct {
	Size     int
	Lease    time.Duration // LeaseTimeout
	Seeds    []int         // processes that it uses as its seeds
	Protocol [2]uint16     // lowest and highest protocol version
}

// Misconfigure sets the configuration of the next runs of a process. The zero Misfit restores the
// original configuration.
func (c *Cluster) Misconfigure(i int, m Misfit) {
	p := c.procs[i]
	p.misfit = misfit{size: m.Size, lease: m.Lease, protocol: m.Protocol}
	for _, s := range m.Seeds {
		p.misfit.seeds = append(p.misfit.seeds, c.Address(s))
	}
	slices.SortFunc(p.misfit.seeds, member.Address.Compare)
}

// SetFast gives a process that has not started the fastest clock that a lease tolerates,
// 1.111 times as fast as the others.
func (c *Cluster) SetFast(i int) { c.procs[i].clock.rate = rateMax }

// SetBack sets back the wall clock of a process that is down, so that its next new store
// begins with the lowest incarnation.
func (c *Cluster) SetBack(i int) {
	p := c.procs[i]
	p.clockSetBack = true
	c.procs[p.home].nextIncarnation = 1
}

// Register returns the number of writes that the fenced register accepted, and the number
// of writes of former leaders that it refused.
func (c *Cluster) Register() (accepted, refused int) {
	return c.register.accepted, c.register.fenced
}

// losesMessage reports whether the Lose callback drops a message.
func (c *Cluster) losesMessage(from, to int, m message.Message) bool {
	return c.Lose != nil && c.Lose(from, to, m.Body.Kind())
}
