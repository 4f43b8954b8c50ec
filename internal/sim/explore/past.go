// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// past is what no node may remember, but an observer does: who was chosen, and
// what was committed.
type past struct {
	chosen    string // the choices, formatted, to compare pasts by
	choices   []choice
	committed uint64 // newest version that M nodes held
}

// choice is a leader that got M formal votes.
type choice struct {
	version uint64
	leader  member.Address
	digest  uint64
	base    member.Number
}

type pastKey struct {
	chosen    string
	committed uint64
}

// pasts holds each past once.
type pasts struct {
	all   []past
	known map[pastKey]int32
}

func newPasts() pasts {
	return pasts{all: []past{{}}, known: map[pastKey]int32{{}: 0}}
}

func (p *pasts) numberOf(next past) int32 {
	key := pastKey{next.chosen, next.committed}
	if i, ok := p.known[key]; ok {
		return i
	}
	i := int32(len(p.all))
	p.known[key] = i
	p.all = append(p.all, next)
	return i
}

// pastOf is the past in which a letter was sent from p: an announcement means
// that its sender counted M formal votes.
func (x *explorer) pastOf(p place, letter int32, elections *int) int32 {
	b, ok := x.letters[letter].msg.Body.(message.LeaderElected)
	if !ok {
		return p.past
	}
	c := choice{b.State.Version, b.State.Leader, b.State.Digest(), x.letters[letter].base}
	next := x.pasts.all[p.past]
	if slices.Contains(next.choices, c) {
		return p.past
	}
	*elections++
	next.choices = append(slices.Clone(next.choices), c)
	next.chosen = fmt.Sprint(next.choices)
	return x.pasts.numberOf(next)
}

// judgePlace checks a place against what was, and notes what is committed there.
func (x *explorer) judgePlace(p *place) error {
	now := x.pasts.all[p.past]
	for i, c := range now.choices {
		held := 0
		for n := range x.nodes {
			if x.nodes[n].states[p.at[n]].held.Version == c.version {
				held++
			}
		}
		if held >= member.Quorum(len(x.nodes)) && c.version > now.committed {
			now.committed = c.version
			p.past = x.pasts.numberOf(now)
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
			return fmt.Errorf("I4: %s is chosen for version %d on %v, but version %d is committed",
				c.leader, c.version, c.base, now.committed)
		}
	}
	return nil
}

// describeMessage is an event in a few words.
func describeMessage(m message.Message) string {
	text := fmt.Sprintf("%s from %s", m.Body.Kind(), m.From)
	switch b := m.Body.(type) {
	case message.Proposal:
		text += fmt.Sprintf(": %s, %v", b.Stage, b.ID)
		if b.Stage == message.Formal {
			text += fmt.Sprintf(", leader %s on %v", b.State.Leader, b.Base)
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
