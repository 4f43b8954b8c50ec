// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// SlowSave says how long one save of a process takes; the zero SlowSave takes no time.
// Until it has ended the process takes no input, and nothing of its step is visible.
type SlowSave struct {
	Takes time.Duration
	// Written says that a crash before the end leaves the new store, not the old one.
	Written bool
	// TimersFirst says that the process then does what is due before it takes what
	// waited, instead of after.
	TimersFirst bool
}

// step is what a call of a machine returned, and how much of it happens.
type step struct {
	out   statemachine.Output
	sent  int  // messages that leave
	crash bool // the process dies after them
}

// save is a step of a process whose save takes time.
type save struct {
	SlowSave
	step  step
	ended bool // while the process was paused
}

// takesInput reports whether a process takes input.
func (p *process) takesInput() bool { return p.isUp() && !p.paused && p.saving == nil }

// keepItem keeps an item until the process takes input again.
func (p *process) keepItem(it item) {
	if len(p.inbox) == maxInbox {
		p.inbox = p.inbox[1:]
	}
	p.inbox = append(p.inbox, it)
}

func (c *Cluster) beginSave(p *process, s step, slow SlowSave) {
	c.noteProcess(p, Saving, fmt.Sprintf("for %v", slow.Takes))
	v := &save{SlowSave: slow, step: s}
	p.saving, p.wake = v, never
	c.After(slow.Takes, func() {
		if p.saving == v {
			c.endSave(p)
		}
	})
}

// endSave lets the step happen, once the process is not paused.
func (c *Cluster) endSave(p *process) {
	v := p.saving
	if p.paused {
		v.ended = true
		return
	}
	p.saving = nil
	c.carryOut(p, v.step)
	c.catchUp(p, v.TimersFirst)
}

// catchUp lets a process that could take no input do what is due and take what waited.
func (c *Cluster) catchUp(p *process, timersFirst bool) {
	inbox := p.inbox
	p.inbox = nil
	p.sent.allowMore(c.now, len(inbox)*len(c.procs))
	if timersFirst {
		c.advanceMachine(p)
	}
	for _, it := range inbox {
		c.deliverItem(it)
	}
	c.advanceMachine(p)
}

// replaceStore replaces what is on the disk of a process.
func (c *Cluster) replaceStore(p *process, d paxos.Durable) {
	old := p.store
	p.store = d
	p.renewed = d.StoreID != old.StoreID || d.Incarnation != old.Incarnation
	p.ran = p.identity()
	c.procs[p.home].next = max(c.procs[p.home].next, d.Incarnation+1)
	c.check.checkStored(p, old)
}
