// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// isolationState is what a node knows that has found no leader to follow for long
// (protocol.md sections 4 and 6).
type isolationState struct {
	// noChosenSince is when the node last had a chosen leader, or started;
	// zero while it has one.
	noChosenSince time.Time
	// lost lists voters of the held roster whose address answers under another
	// store id and holds nothing newer.
	lost []member.Voter
}

func (m *Machine) tickIsolation() {
	if m.rosterLost() && m.cfg.Volatile {
		m.becomeNewRun()
	}
	if m.mayDeclare() {
		m.declareItself()
	}
}

// tickDeaf gives up a provisional leader that does not answer, once this node has waited so
// long for a leader that it would declare itself. A leader that sends but receives nothing
// would otherwise keep all other seeds from declaring themselves.
func (m *Machine) tickDeaf() {
	s := &m.join
	if m.role == member.Seeking && !s.target.IsZero() && !s.target.Chosen && !s.waits &&
		m.now.Sub(s.askedAt) >= m.timing.RetryInterval && m.due(m.patienceEnd()) {
		s.deaf, s.target = s.target, member.Claim{}
	}
}

// noteHearing counts a leader again that answers: its sender receives what this node sends.
func (m *Machine) noteHearing(in message.Message) {
	switch in.Body.(type) {
	case message.LeaderResponse, message.JoinClusterResponse, message.SeedKeepAliveAck:
		if in.From.Address == m.join.deaf.Leader {
			m.join.deaf = member.Claim{}
		}
	}
}

func (m *Machine) isolationDeadline(d *deadline) {
	if m.role != member.Seeking || !m.isSeed {
		return
	}
	if !m.join.allAt.IsZero() {
		if at := m.join.allAt.Add(m.timing.RetryInterval); at.After(m.now) {
			d.add(at)
		}
	}
	if at := m.patienceEnd(); at.After(m.now) {
		d.add(at)
	}
}

// patienceEnd is when a leaderless seed declares itself whatever others are.
func (m *Machine) patienceEnd() time.Time {
	if m.isolation.noChosenSince.IsZero() {
		return time.Time{}
	}
	return m.isolation.noChosenSince.Add(m.timing.declareTimeout(!m.held().IsZero()))
}

// mayDeclare reports whether this seed should lead provisionally now.
func (m *Machine) mayDeclare() bool {
	if m.role != member.Seeking || !m.isSeed || m.cfg.JoinOnly || m.operator.leaving ||
		m.join.since.IsZero() || !m.join.target.IsZero() {
		return false
	}
	if !m.join.ledAt.IsZero() && m.now.Sub(m.join.ledAt) < m.timing.namedLeaderTimeout() {
		return false // another node named a leader
	}
	if !m.held().IsZero() {
		// Without a place in its own roster it could not admit the others.
		_, placed := m.durable.Held.Roster.Find(m.self.Address)
		return placed && m.due(m.patienceEnd())
	}
	if m.due(m.patienceEnd()) {
		return true
	}
	answered, greatest, holds := m.heardSeeds()
	if holds || !greatest {
		return false // a cluster exists and will elect, or a greater seed declares itself
	}
	// If not all answered, a seed that was asked a RetryInterval ago does not count.
	return answered >= len(m.cfg.Seeds)-1 ||
		!m.join.allAt.IsZero() && m.due(m.join.allAt.Add(m.timing.RetryInterval))
}

// isRecent reports whether what a seed showed still counts.
func (m *Machine) isRecent(a answer) bool {
	return m.now.Sub(a.at) <= m.timing.answerLifetime()
}

// heardSeeds counts the other seeds that recently showed that they have no leader. It
// reports whether this node's address is greater than all of theirs, and whether one of
// them holds a state.
func (m *Machine) heardSeeds() (answered int, greatest, holds bool) {
	greatest = true
	for _, a := range m.join.answers {
		if !m.isRecent(a) {
			continue
		}
		answered++
		greatest = greatest && m.self.Address.Compare(a.seed) > 0
		holds = holds || a.holds
	}
	return answered, greatest, holds
}

// declareItself makes this seed a provisional leader. If it holds a roster, it starts with
// that.
func (m *Machine) declareItself() {
	own := member.Member{Identity: m.self, Name: m.cfg.Name, Seed: true, Status: member.Active}
	roster := member.Roster{own}
	if !m.held().IsZero() {
		roster = slices.Clone(m.durable.Held.Roster)
		for i := range roster {
			roster[i].Status, roster[i].Gone = member.Unreachable, false
		}
		roster = roster.With(own)
	}
	m.becomeProvisional(member.State{
		Number:  member.Number{Version: m.held().Version + 1},
		Cluster: m.cluster(),
		Leader:  m.self.Address,
		Roster:  roster,
	})
}

// tellAnswerers sends the claim to the seeds that showed that they have no leader, except
// those that get it as askers: they wait for it, and a connection to them exists.
func (m *Machine) tellAnswerers() {
	for _, a := range m.join.answers {
		if m.isRecent(a) && !slices.ContainsFunc(m.join.askers, func(x asker) bool {
			return x.addr == a.seed && m.mayHear(x)
		}) {
			m.send(a.seed, message.SeedKeepAlive{})
		}
	}
}

// noteLost collects evidence that the held roster can never elect again: voters that came
// back under another store id. A voter that holds a newer state may belong to a roster that
// can, so it does not count.
func (m *Machine) noteLost(in message.Message) {
	if m.isolation.noChosenSince.IsZero() || m.held().IsZero() {
		return
	}
	e, ok := m.durable.Held.Roster.Find(in.From.Address)
	if !ok || !e.IsVoter() {
		return
	}
	at := slices.Index(m.isolation.lost, e.Voter())
	held, shows := shownHeld(in.Body)
	switch {
	case m.otherCluster(in):
		// It has forgotten this cluster, even if its store id is the same.
		if at < 0 {
			m.isolation.lost = append(m.isolation.lost, e.Voter())
		}
	case e.StoreID == in.From.StoreID || shows && m.held().Less(held):
		if at >= 0 {
			m.isolation.lost = slices.Delete(m.isolation.lost, at, at+1)
		}
	case shows && at < 0:
		m.isolation.lost = append(m.isolation.lost, e.Voter())
	}
}

// shownHeld is the number of the held state that a message shows, if it does.
func shownHeld(b message.Body) (member.Number, bool) {
	switch b := b.(type) {
	case message.LeaderQuery:
		return b.Held.Number, true
	case message.LeaderResponse:
		return b.Held, true
	case message.LeaderStatusQueryResponse:
		return b.Held, true
	case message.JoinClusterRequest:
		return b.Held, true
	}
	return member.Number{}, false
}

// rosterLost reports whether fewer than M voters of the held roster can still
// answer, so that it can never elect again (protocol.md section 6).
func (m *Machine) rosterLost() bool {
	if m.held().IsZero() || m.isolation.noChosenSince.IsZero() {
		return false
	}
	r := m.durable.Held.Roster
	lost := 0
	for _, v := range m.isolation.lost {
		if r.IsVoter(v) {
			lost++
		}
	}
	if e, ok := r.Find(m.self.Address); ok && e.IsVoter() && e.StoreID != m.self.StoreID {
		lost++ // its own earlier store
	}
	return lost > 0 && r.Voters()-lost < m.quorum
}

// RosterLost reports whether so many voters lost their stores that the held roster can
// never elect again. With a durable store only an operator can end that; a node with a
// memory store starts as a new run by itself.
func (m *Machine) RosterLost() bool { return m.rosterLost() }
