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

// deliverLetter is what a letter does to its receiver in state at; late, what it does
// after the receiver has missed its leader.
func (w *world) deliverLetter(at, number int32, late bool) *effect {
	l := w.letters[number]
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

// mayBeLate reports whether a letter finds another receiver when that has missed
// its leader: only who asks for a vote does.
func (w *world) mayBeLate(at, number int32) bool {
	l := w.letters[number]
	return l.msg.Body.Kind() == message.KindProposal && w.nodes[l.to].states[at].leads
}

// isDead reports whether a letter does nothing to its receiver in state at. Then it
// never will: promises, accepted values and held states only grow, an attempt that
// ended is never taken up again, and a run that is over never comes back.
func (w *world) isDead(at, number int32) bool {
	return w.deliverLetter(at, number, false).isIdle(at) &&
		!(w.mayBeLate(at, number) && !w.deliverLetter(at, number, true).isIdle(at))
}

// maxRings is how many times a timer may fire before a node counts as one that
// never proposes.
const maxRings = 100

// ringTimer is what the timer of a node does in state at: it gives up whom it follows
// and what it proposed, and proposes. That others miss the leader too is taken
// for granted: the question is there to disturb nobody, not to be safe.
func (w *world) ringTimer(n int, at int32) *effect {
	s := w.nodes[n].states[at]
	if s.rung != nil {
		return s.rung
	}
	m := cloneMachine(s.machine)
	e := &effect{}
	for i := 0; i < maxRings && e.attempts == 0 && !m.Deadline().IsZero(); i++ {
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
	s.rung = e
	return e
}

// firstRun is the first run of the node at an address.
func (w *world) firstRun(a member.Address) member.Identity {
	for _, n := range w.nodes {
		if n.cfg.Address == a {
			d := n.states[0].machine.Durable()
			return member.Identity{Address: a, StoreID: d.StoreID, Incarnation: d.Incarnation}
		}
	}
	panic("explore: no node at " + a.String())
}

// crashNode is the next run of a node on the store of state at.
func (w *world) crashNode(n int, at int32) *effect {
	s := w.nodes[n].states[at]
	if s.crashed == nil {
		d := s.machine.Durable()
		d.Incarnation++
		s.crashed = &effect{next: w.nodes[n].addState(w.begin(w.nodes[n].cfg, d))}
	}
	return s.crashed
}

// noteEffect adds to e what a call of m led to; before is what it remembered.
func (w *world) noteEffect(
	e *effect, before paxos.Durable, m machine, out statemachine.Output,
) {
	for _, t := range out.Trace {
		if t.Kind == statemachine.Proposing {
			e.attempts++
		}
	}
	if e.fault == nil {
		e.fault = faultOf(before, m, out)
	}
	for _, msg := range out.Send {
		switch b := msg.Body.(type) {
		case message.Proposal:
			e.sent = append(e.sent, w.letterOf(msg, member.Number{}))
		case message.Vote:
			if b.Granted || w.refusals {
				e.sent = append(e.sent, w.letterOf(msg, member.Number{}))
			}
		case message.LeaderElected:
			// A proposer is its own first voter: it knows what it announces.
			e.sent = append(e.sent, w.letterOf(msg, before.Accepted.Base))
		}
	}
}

// letterOf returns the number of an event; base is what an announced state continues.
func (w *world) letterOf(msg message.Message, base member.Number) int32 {
	key := string(w.fields.appendCanonical(w.fields.appendCanonical(nil, reflect.ValueOf(msg)),
		reflect.ValueOf(base)))
	if i, ok := w.known[key]; ok {
		return i
	}
	i := int32(len(w.letters))
	w.known[key] = i
	to := 0
	for j, n := range w.nodes {
		if n.cfg.Address == msg.To {
			to = j
		}
	}
	w.letters = append(w.letters, letter{msg, to, base})
	return i
}

// faultOf is what one step shows to be wrong by itself (I7 of protocol.md
// section 11).
func faultOf(before paxos.Durable, m machine, out statemachine.Output) error {
	after := m.Durable()
	switch {
	case out.Stop != nil:
		return fmt.Errorf("a node stops: %w", out.Stop)
	case after.Held.Number.Less(before.Held.Number):
		return fmt.Errorf("I7: holds %v after %v", after.Held.Number, before.Held.Number)
	case after.Promised.Compare(before.Promised) < 0 && after.Held.Version < before.Promised.Version:
		return fmt.Errorf("I7: promised %v after %v", after.Promised, before.Promised)
	case after.Accepted.ID.Compare(before.Accepted.ID) < 0 &&
		after.Held.Version < before.Accepted.ID.Version:
		return fmt.Errorf("I7: accepted %v after %v", after.Accepted.ID, before.Accepted.ID)
	}
	for _, msg := range out.Send {
		if v, ok := msg.Body.(message.Vote); ok && v.Granted && v.ID.Compare(before.Promised) < 0 {
			return fmt.Errorf("I7: votes for %v below its promise %v", v.ID, before.Promised)
		}
	}
	return m.Check()
}
