// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// preferenceState is what a node remembers about leaders, so that it does not hand over again and
// again to a preferred member that cannot lead for long (protocol.md 6, preference).
type preferenceState struct {
	leader   member.Address // the last chosen leader, or the successor of this leader
	since    time.Time      // when its leadership began
	setbacks []setback
}

// setback makes a member wait before it is preferred again.
type setback struct {
	member member.Address
	pause  time.Duration
	until  time.Time
}

// noteLeadership records that a leadership begins. If the leadership of a more preferred member was
// shorter than its next pause, that pause begins. Otherwise the next pause is the shortest again.
func (m *Machine) noteLeadership(leader member.Address) {
	s := &m.prefer
	last, since := s.leader, s.since
	if m.cfg.HandOverToPreferred == 0 || last == leader {
		return
	}
	s.leader, s.since = leader, m.now
	before, _ := m.durable.Held.Roster.Find(last)
	after, _ := m.durable.Held.Roster.Find(leader)
	if before.Preference <= after.Preference {
		return
	}
	pause := m.timing.preferencePause(max(m.cfg.HandOverToPreferred, m.findSetback(last).pause))
	s.setbacks = slices.DeleteFunc(s.setbacks, func(o setback) bool { return o.member == last })
	if m.now.Sub(since) >= pause {
		return
	}
	s.setbacks = append(s.setbacks, setback{last, pause, m.now.Add(pause)})
	if leader == m.self.Address {
		m.trace(Trace{Kind: Postponed, Peer: last, Left: pause})
	}
}

// findSetback returns the setback of a member; zero if it has none.
func (m *Machine) findSetback(a member.Address) setback {
	for _, s := range m.prefer.setbacks {
		if s.member == a {
			return s
		}
	}
	return setback{}
}
