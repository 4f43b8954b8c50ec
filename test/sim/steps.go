// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// This file records the steps of processes. The specification (spec/) checks these records.

func (c *Cluster) emitStep(p *process, s steplog.Step) {
	index := -1
	if p != nil {
		index = p.index
	}
	c.emitRecord(Record{Process: index, Kind: Stepped, Step: &s})
}

func (c *Cluster) recordSetup(seeds []member.Address) {
	if c.setup.Record == nil {
		return
	}
	c.emitStep(nil, steplog.Step{Event: steplog.Setup, Config: &steplog.Config{
		Size: c.setup.Size, Seeds: seeds, Timings: c.setup.Timings, TrustRefusal: c.setup.TrustRefusal,
	}})
}

// recordStart records that a run begins, with the content that its machine uses. The promises of
// the last run have expired.
func (c *Cluster) recordStart(p *process, cfg statemachine.Config) {
	waited := p.waited
	if p.waited = 0; c.setup.Record == nil {
		return
	}
	saved := steplog.Durable(p.machine.Durable())
	s := steplog.Step{
		Event: steplog.Start, Node: p.identity(), Clock: p.clock.at(c.now).UnixNano(), Saved: &saved,
		Config: &steplog.Config{
			Seeds: cfg.Seeds, Timings: cfg.Timings, OtherTimings: cfg.OtherTimings,
			JoinOnly: cfg.JoinOnly, Volatile: cfg.Volatile,
			Waited: waited,
		},
	}
	c.emitStep(p, s)
}

// recordCrash records that a process dies between two steps or during a save.
func (c *Cluster) recordCrash(p *process) {
	if c.setup.Record == nil || !p.isUp() {
		return
	}
	s := steplog.Step{Event: steplog.Crash, Node: p.identity(), Clock: p.clock.at(c.now).UnixNano()}
	if v := p.saving; v != nil && v.Written {
		s = v.step.input
		s.Down = true
		s.Add(v.step.out, 0)
	}
	c.emitStep(p, s)
}

// noteInput keeps the input of the next step.
func (c *Cluster) noteInput(p *process, s steplog.Step) {
	if c.setup.Record == nil {
		return
	}
	c.input = s
	c.input.Node, c.input.Clock = p.identity(), p.clock.at(c.now).UnixNano()
}

// recordStep records a step whose save has ended.
func (c *Cluster) recordStep(p *process, s step) {
	if c.setup.Record == nil {
		return
	}
	r := s.input
	r.Down = s.crash
	r.Add(s.out, s.sent)
	if !r.Down {
		r.AddAuthority(p.machine, time.Unix(0, r.Clock)) // a slow save ends later
	}
	c.emitStep(p, r)
}
