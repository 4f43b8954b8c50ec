// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"reflect"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// deliverEvent returns the effect of an event on its receiver in the given state. If late is set,
// the receiver first loses its leader.
func (w *world) deliverEvent(at, number int32, late bool) *effect {
	l := w.events[number]
	s := w.nodes[l.to].states[at]
	effects := s.taken
	if late {
		effects = s.takenLate
	}
	e := effects[number]
	if e == nil {
		m := cloneMachine(s.machine)
		e = &effect{}
		for late && m.View(time.Time{}).Role != member.Seeking {
			w.noteEffect(e, s.machine.Durable(), m, m.Advance(m.Deadline()))
		}
		w.noteEffect(e, s.machine.Durable(), m, m.Step(time.Time{}, l.msg))
		e.next = w.nodes[l.to].addState(m)
		effects[number] = e
	}
	return e
}

// mayBeLate reports whether an event has a different effect after its receiver has lost its leader.
// Only requests for votes can have a different effect.
func (w *world) mayBeLate(at, number int32) bool {
	l := w.events[number]
	return l.msg.Body.Kind() == message.KindProposal && w.nodes[l.to].states[at].leads
}

// isDead reports whether an event has no effect on its receiver in the given state. Such an event
// can never have an effect later. Promises, accepted values and held states only grow, an abandoned
// attempt is never resumed, and an ended run never returns.
func (w *world) isDead(at, number int32) bool {
	return w.deliverEvent(at, number, false).isIdle(at) &&
		!(w.mayBeLate(at, number) && !w.deliverEvent(at, number, true).isIdle(at))
}

// maxTimers is the number of times a timer may fire before the explorer assumes that the node never
// proposes.
const maxTimers = 100

// fireTimer returns the effect of a node's timer in the given state: the node leaves its leader,
// abandons its proposal, and makes a new proposal. The node first asks whether the other nodes have
// lost the leader too. This query is assumed to succeed, because safety does not depend on it.
func (w *world) fireTimer(n int, at int32) *effect {
	s := w.nodes[n].states[at]
	if s.fired != nil {
		return s.fired
	}
	m := cloneMachine(s.machine)
	e := &effect{}
	for i := 0; i < maxTimers && e.attempts == 0 && !m.Deadline().IsZero(); i++ {
		out := m.Advance(m.Deadline())
		w.noteEffect(e, s.machine.Durable(), m, out)
		for _, msg := range out.Send {
			q, ok := msg.Body.(message.LeaderStatusQuery)
			if !ok {
				continue
			}
			w.noteEffect(e, s.machine.Durable(), m, m.Step(time.Time{}, message.Message{
				From: w.firstRun(msg.To),
				To:   msg.From.Address,
				Body: message.LeaderStatusQueryResponse{ID: q.ID},
			}))
		}
	}
	e.next = w.nodes[n].addState(m)
	s.fired = e
	return e
}

// firstRun returns the identity of the first run of the node at an address.
func (w *world) firstRun(a member.Address) member.Identity {
	for _, n := range w.nodes {
		if n.cfg.Address == a {
			d := n.states[0].machine.Durable()
			return member.Identity{Address: a, StoreID: d.StoreID, Incarnation: d.Incarnation}
		}
	}
	panic("explore: no node at " + a.String())
}

// crashNode returns the effect of a crash and restart of a node in the given state.
func (w *world) crashNode(n int, at int32) *effect {
	s := w.nodes[n].states[at]
	if s.crashed == nil {
		d := s.machine.Durable()
		d.Incarnation++
		s.crashed = &effect{next: w.nodes[n].addState(w.start(w.nodes[n].cfg, d))}
	}
	return s.crashed
}

// noteEffect adds the output of a call of machine m to effect e, given the durable state of m
// before the call.
func (w *world) noteEffect(
	e *effect, before paxos.Durable, m machine, out statemachine.Output,
) {
	for _, t := range out.Trace {
		if t.Kind == statemachine.Proposing {
			e.attempts++
		}
	}
	if e.err == nil {
		e.err = stepError(before, m, out)
	}
	for _, msg := range out.Send {
		switch b := msg.Body.(type) {
		case message.Proposal:
			e.sent = append(e.sent, w.eventOf(msg, member.Number{}))
		case message.Vote:
			if b.Granted || w.refusals {
				e.sent = append(e.sent, w.eventOf(msg, member.Number{}))
			}
		case message.LeaderElected:
			// The proposer has voted for its own proposal, so its accepted base is that of the announced
			// state.
			e.sent = append(e.sent, w.eventOf(msg, before.Accepted.Base))
		}
	}
}

// eventOf returns the number of an event. base is the state on which an announced state is
// built.
func (w *world) eventOf(msg message.Message, base member.Number) int32 {
	key := string(w.fields.appendCanonical(w.fields.appendCanonical(nil, reflect.ValueOf(msg)),
		reflect.ValueOf(base)))
	if i, ok := w.known[key]; ok {
		return i
	}
	i := int32(len(w.events))
	w.known[key] = i
	to := 0
	for j, n := range w.nodes {
		if n.cfg.Address == msg.To {
			to = j
		}
	}
	w.events = append(w.events, event{msg, to, base})
	return i
}

// stepError returns a violation that shows in a single step (I7 of protocol.md section 11).
func stepError(before paxos.Durable, m machine, out statemachine.Output) error {
	after := m.Durable()
	switch {
	case out.Stop != nil:
		return fmt.Errorf("a node stopped: %w", out.Stop)
	case after.Held.Number.Less(before.Held.Number):
		return fmt.Errorf("I7: a node holds %v, but held %v before",
			after.Held.Number, before.Held.Number)
	case after.Promised.Compare(before.Promised) < 0 && after.Held.Version < before.Promised.Version:
		return fmt.Errorf("I7: a node lowered its promise to %v from %v", after.Promised, before.Promised)
	case after.Accepted.ID.Compare(before.Accepted.ID) < 0 &&
		after.Held.Version < before.Accepted.ID.Version:
		return fmt.Errorf("I7: a node lowered its vote to %v from %v",
			after.Accepted.ID, before.Accepted.ID)
	}
	for _, msg := range out.Send {
		if v, ok := msg.Body.(message.Vote); ok && v.Granted && v.ID.Compare(before.Promised) < 0 {
			return fmt.Errorf("I7: a node voted for %v below its promise %v", v.ID, before.Promised)
		}
	}
	return m.Check()
}
