// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "fmt"

// eventCheck checks and counts custom events.
type eventCheck struct {
	events  uint64               // number of events that arrived
	heard   map[[2]string]newest // indexed by receiver and sender
	sent    map[stream][]span    // sent without an error
	arrived map[stream][]span
	daemons map[string]bool // daemons receive events but record none
}

// newest is the last event of a pair of nodes.
type newest struct {
	run int64
	seq uint64
}

// stream identifies the events that one run of a node sends to all runs of another node.
type stream struct {
	from owner
	to   string
}

// span is a range of consecutive events.
type span struct{ first, last uint64 }

func newEventCheck() *eventCheck {
	return &eventCheck{
		heard: map[[2]string]newest{}, sent: map[stream][]span{}, arrived: map[stream][]span{},
		daemons: map[string]bool{},
	}
}

// onEvents checks I9: for each pair, events arrive in order and at most once. Events of a later run
// of a sender arrive after those of its earlier runs.
func (m *eventCheck) onEvents(f *findings, e evidence) {
	if e.First > e.Last {
		f.noteFault("I9", "%s reports events %[3]d to %[4]d from %[2]s", e.Node, e.From, e.First, e.Last)
		return
	}
	pair := [2]string{e.Node, e.From}
	last := m.heard[pair]
	if e.FromRun < last.run || e.FromRun == last.run && e.First <= last.seq {
		f.noteFault("I9", "%s received from %s event %d of run %d after event %d of run %d",
			e.Node, e.From, e.First, e.FromRun, last.seq, last.run)
	}
	m.heard[pair] = newest{e.FromRun, e.Last}
	m.events += e.Last - e.First + 1
	appendSpan(m.arrived, stream{owner{e.From, e.FromRun}, e.Node}, span{e.First, e.Last})
}

// onSent records what a sender sent.
func (m *eventCheck) onSent(who owner, e evidence) error {
	if e.First > e.Last || !appendSpan(m.sent, stream{who, e.To}, span{e.First, e.Last}) {
		return fmt.Errorf("events %d to %d to %q do not follow those sent before", e.First, e.Last, e.To)
	}
	return nil
}

// appendSpan appends a span if it follows all others of its stream, and reports whether it does.
func appendSpan(all map[stream][]span, of stream, s span) bool {
	spans := all[of]
	if n := len(spans); n > 0 {
		last := &spans[n-1]
		if s.first <= last.last {
			return false
		}
		if s.first == last.last+1 {
			last.last = s.last
			return true
		}
	}
	all[of] = append(spans, s)
	return true
}

// countLost counts the events that were sent without an error, and how many of them no node
// recorded. A loss breaks no promise: a connection may end with events in flight, and a receiver
// may be killed before it records them.
func (m *eventCheck) countLost() (lost, sent uint64) {
	for of, spans := range m.sent {
		if m.daemons[of.to] {
			continue
		}
		arrived := m.arrived[of]
		for _, s := range spans {
			sent += s.last - s.first + 1
			lost += s.last - s.first + 1
			for len(arrived) > 0 && arrived[0].last < s.first {
				arrived = arrived[1:]
			}
			for _, a := range arrived {
				if a.first > s.last {
					break
				}
				lost -= min(a.last, s.last) - max(a.first, s.first) + 1
			}
		}
	}
	return lost, sent
}
