// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/statemachine"
)

// advanceMachine calls Advance if the process takes input.
func (c *Cluster) advanceMachine(p *process) {
	if !p.takesInput() {
		return
	}
	if p.spinAt != c.now {
		p.spinAt, p.spins = c.now, 0
	}
	if p.spins++; p.spins > maxSpin {
		c.check.noteViolation("spin", "%s: deadline %v is still due at %v after %d calls of Advance",
			p.cfg.Name, p.machine.Deadline(), p.clock.at(c.now), maxSpin)
		return
	}
	c.mixHash(uint64(c.now) ^ uint64(p.index)<<56)
	c.noteInput(p, steplog.Step{Event: steplog.Time})
	c.settleStep(p, p.machine.Advance(c.readClock(p)))
}

// deliverItem delivers a message to its recipient, or calls the function.
func (c *Cluster) deliverItem(it item) {
	if it.run != nil {
		it.run()
		return
	}
	p := c.procs[it.to]
	switch {
	case !p.isUp():
		c.net.stats.Dead++
		return
	case !p.takesInput():
		p.keepItem(it)
		return
	}
	if it.conn != c.net.linkOf(it.from, it.to).conn {
		c.net.stats.Broken++
		c.emitRecord(Record{Process: it.from, Kind: Lost, Message: it.msg})
		return
	}
	if !c.keepsConnection(it.from, it.to) {
		c.net.stats.Refused++
		return
	}
	if s := c.procs[it.from]; s.shared && !c.acceptsFrom(p, s, it.msg.From.StoreID) {
		c.refuseClaim(p, s, it.msg.From.StoreID)
		return
	}
	c.net.stats.Delivered++
	c.emitRecord(Record{Process: it.to, From: it.from, Kind: Delivered, Message: it.msg})
	c.mixHash(uint64(c.now) ^ uint64(it.to)<<56 ^ uint64(it.from)<<48 ^ uint64(it.msg.Body.Kind())<<40)
	c.check.noteHeard(it.to, it.msg)
	m := steplog.Message(it.msg)
	c.noteInput(p, steplog.Step{Event: steplog.Deliver, Message: &m})
	c.settleStep(p, p.machine.Step(c.readClock(p), it.msg))
}

// settleStep makes a step take effect, immediately or when its slow save ends.
func (c *Cluster) settleStep(p *process, out statemachine.Output) {
	c.steps++
	p.stepAt, p.stepTime = c.now, p.clock.at(c.now)
	s := step{out: out, sent: len(out.Send), input: c.input, asked: p.asked}
	if c.Interrupt != nil {
		if n, dies := c.Interrupt(p.index, out); dies {
			s.sent, s.crash = min(n, s.sent), true
		}
	}
	if s.sent < 0 {
		c.recordCrash(p)
		c.noteProcess(p, Crashed, "before the step was saved")
		c.endRun(p)
		return
	}
	if out.Persist != nil && c.SlowSave != nil {
		if slow := c.SlowSave(p.index); slow.Takes > 0 {
			c.beginSave(p, s, slow)
			return
		}
	}
	c.applyStep(p, s)
}

// applyStep makes a step take effect in the order that statemachine.Output prescribes, and then
// runs the checkers.
func (c *Cluster) applyStep(p *process, s step) {
	out := s.out
	if out.Persist != nil {
		c.replaceStore(p, *out.Persist)
		p.machine.NoteSaved(p.clock.at(c.now))
	}
	for _, m := range out.Send[:s.sent] {
		c.sendMessage(p, m)
	}
	c.deliverRelayed(out)
	c.recordStep(p, s)
	p.renewed = false
	if out.Probe != nil {
		c.probeHost(p, *out.Probe)
	}
	p.asked = s.asked
	c.recordTraces(p, out.Trace)
	p.asked = false
	if s.crash {
		c.noteProcess(p, Crashed, fmt.Sprintf("with %d of %d messages sent", s.sent, len(out.Send)))
		c.endRun(p)
		return
	}
	c.check.checkStep(c.now, p, out)
	c.check.checkHoldings(p, c.keys, out)
	c.readAnswers(p, out)
	c.writeRegister(p)
	if out.Stop != nil {
		c.noteStopped(p, out.Stop)
		return
	}
	c.setWake(p)
}

// setWake schedules the next call of Advance.
func (c *Cluster) setWake(p *process) {
	p.wake = never
	if d := p.machine.Deadline(); !d.IsZero() {
		p.wake = max(c.now, p.clock.globalTime(d)+int64(c.setup.Lag))
		if p.clock.globalTime(d) <= c.now {
			p.wake = c.now
		}
	}
}

// noteStopped handles a process that stopped by itself.
func (c *Cluster) noteStopped(p *process, err error) {
	c.noteProcess(p, Ended, err.Error())
	c.stopped = append(c.stopped, Stopped{p.index, c.Now(), err})
	switch {
	case errors.Is(err, statemachine.ErrSplitVersion):
		c.check.noteBroken("I1", "%s stopped: %v", p.cfg.Name, err)
	case errors.Is(err, statemachine.ErrLeft) && !p.leaving:
		c.check.noteViolation("stop", "%s left the cluster without a request to leave", p.cfg.Name)
	case errors.Is(err, statemachine.ErrAddressInUse) && !c.hasTwin(p):
		c.check.noteViolation("stop", "%s stopped because of a later run, but there is none: %v",
			p.cfg.Name, err)
	}
	c.endRun(p)
	if c.Ended != nil {
		c.Ended(p.index, err)
	}
}

// hasTwin reports whether another process has run at this address, or whether an earlier run of p
// had a higher incarnation. Late messages may then seem to come from a later run of p. A claimant
// does not count.
func (c *Cluster) hasTwin(p *process) bool {
	if p.clockSetBack {
		return true
	}
	for _, o := range c.procs {
		if o != p && o.home == p.home && o.runs > 0 && !o.claims {
			return true
		}
	}
	return false
}

// sendMessage sends a message over the simulated network.
func (c *Cluster) sendMessage(p *process, m message.Message) {
	c.check.checkSent(p, m)
	// Answers to record requests are exempt: the recipient may have queued the requests. So are the
	// messages of workers, which those send.
	if m.Body.Kind() != message.KindRecordResponse && m.Body.Kind() != message.KindRelayed &&
		p.sent.isFlood(c.now, p.shortestInterval(), len(c.procs)) {
		c.check.noteViolation("flood",
			"%s sent %d messages within one HeartbeatInterval, the last one %v",
			p.cfg.Name, p.sent.count, m.Body.Kind())
	}
	to := c.routeTo(p, m.To)
	c.emitRecord(Record{Process: p.index, Kind: Sent, Message: m})
	if to < 0 {
		c.net.stats.Dead++
		return
	}
	if !c.keepsConnection(p.index, to) {
		c.net.stats.Refused++
		return
	}
	if c.setup.Codec {
		m = c.encodeDecode(p, m)
	}
	at, copies := c.net.drawArrivals(p.index, to, c.now)
	if c.losesMessage(p.index, to, m) {
		copies = 0
	}
	if copies == 0 {
		c.emitRecord(Record{Process: p.index, Kind: Lost, Message: m})
	}
	conn := c.net.linkOf(p.index, to).conn
	for _, t := range at[:copies] {
		c.queue.push(t, item{from: p.index, to: to, conn: conn, msg: m})
	}
}

// encodeDecode passes a message through the wire format.
func (c *Cluster) encodeDecode(p *process, m message.Message) message.Message {
	b, err := wire.Encode(m)
	if err != nil {
		c.check.noteViolation("codec", "%s: cannot encode %+v: %v", p.cfg.Name, m, err)
		return m
	}
	got, err := wire.Decode(b)
	if err != nil {
		c.check.noteViolation("codec", "%s: cannot decode %+v: %v", p.cfg.Name, m, err)
		return m
	}
	return got
}
