// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// observed lists the chosen leaders and the newest committed version, even if no node remembers
// them.
type observed struct {
	chosen    string // the choices as a string, for comparisons
	choices   []choice
	committed uint64 // newest version held by a quorum
}

// choice is a leader that received a quorum of formal votes.
type choice struct {
	version uint64
	leader  member.Address
	digest  uint64
	base    member.Number
}

type observedKey struct {
	chosen    string
	committed uint64
}

type observations struct {
	all   []observed
	known map[observedKey]int32
}

func newObservations() observations {
	return observations{all: []observed{{}}, known: map[observedKey]int32{{}: 0}}
}

func (p *observations) numberOf(next observed) int32 {
	key := observedKey{next.chosen, next.committed}
	if i, ok := p.known[key]; ok {
		return i
	}
	i := int32(len(p.all))
	p.known[key] = i
	p.all = append(p.all, next)
	return i
}

// observeEvent returns the observations after a node sends an event in position p. An announcement
// means that its sender counted a quorum of formal votes.
func (x *explorer) observeEvent(p position, event int32, elections *int) int32 {
	b, ok := x.events[event].msg.Body.(message.LeaderElected)
	if !ok {
		return p.observed
	}
	c := choice{b.State.Version, b.State.Leader, b.State.Digest(), x.events[event].base}
	next := x.observations.all[p.observed]
	if slices.Contains(next.choices, c) {
		return p.observed
	}
	*elections++
	next.choices = append(slices.Clone(next.choices), c)
	next.chosen = fmt.Sprint(next.choices)
	return x.observations.numberOf(next)
}

// checkPosition checks the invariants of a position and records the committed version.
func (x *explorer) checkPosition(p *position) error {
	now := x.observations.all[p.observed]
	for i, c := range now.choices {
		held := 0
		for n := range x.nodes {
			if x.nodes[n].states[p.at[n]].held.Version == c.version {
				held++
			}
		}
		if held >= member.Quorum(len(x.nodes)) && c.version > now.committed {
			now.committed = c.version
			p.observed = x.observations.numberOf(now)
		}
		for _, o := range now.choices[:i] {
			if o.version == c.version && (o.leader != c.leader || o.digest != c.digest) {
				return fmt.Errorf("I1: %s and %s are both chosen for version %d",
					o.leader, c.leader, c.version)
			}
		}
	}
	for _, c := range now.choices {
		if c.version > now.committed && c.base.Version < now.committed {
			return fmt.Errorf("I4: %s is chosen for version %d built on %v, but version %d is committed",
				c.leader, c.version, c.base, now.committed)
		}
	}
	return nil
}

// describeMessage returns a short description of an event.
func describeMessage(m message.Message) string {
	text := fmt.Sprintf("%s from %s", m.Body.Kind(), m.From)
	switch b := m.Body.(type) {
	case message.Proposal:
		text += fmt.Sprintf(": %s, %v", b.Stage, b.ID)
		if b.Stage == message.Formal {
			text += fmt.Sprintf(", leader %s based on %v", b.State.Leader, b.Base)
		}
	case message.Vote:
		text += fmt.Sprintf(": %s, %v, granted %v", b.Stage, b.ID, b.Granted)
		if !b.Granted {
			text += fmt.Sprintf(" (%v)", b.Reason)
		}
	case message.LeaderElected:
		text += fmt.Sprintf(": %s for version %d", b.State.Leader, b.State.Version)
	}
	return text
}
