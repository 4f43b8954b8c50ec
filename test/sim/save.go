// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// SlowSave describes a save that takes time. During the save, the process takes no input, and its
// step has no visible effect. The zero SlowSave takes no time.
type SlowSave struct {
	Takes time.Duration
	// Written means that a crash during the save leaves the new store instead of the old store.
	Written bool
	// TimersFirst means that after the save the process handles due timers before queued
	// input.
	TimersFirst bool
}

// step is the output of a call to a machine, and the part of it that takes effect.
type step struct {
	out   statemachine.Output
	sent  int  // number of messages that are sent
	crash bool // whether the process crashes after sending these messages
	input steplog.Step
	asked bool // whether an operator requested something
}

// save is a step that is being saved.
type save struct {
	SlowSave
	step  step
	ended bool // the save ended while the process was paused
}

// takesInput reports whether a process takes input.
func (p *process) takesInput() bool { return p.isUp() && !p.paused && p.saving == nil }

// keepItem queues an item until the process takes input again.
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

// endSave ends a save. The step takes effect now or, if the process is paused, when it
// resumes.
func (c *Cluster) endSave(p *process) {
	v := p.saving
	if p.paused {
		v.ended = true
		return
	}
	p.saving = nil
	c.applyStep(p, v.step)
	c.handleQueued(p, v.TimersFirst)
}

// handleQueued handles the due timers and queued input of a process that could not take input.
func (c *Cluster) handleQueued(p *process, timersFirst bool) {
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

// replaceStore replaces the contents of the store of a process.
func (c *Cluster) replaceStore(p *process, d paxos.Durable) {
	old := p.store
	p.store = d
	p.renewed = d.StoreID != old.StoreID || d.Incarnation != old.Incarnation
	p.lastRun = p.identity()
	c.procs[p.home].nextIncarnation = max(c.procs[p.home].nextIncarnation, d.Incarnation+1)
	c.check.checkStored(p, old)
}
