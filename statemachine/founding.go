// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

func (m *Machine) tickIsolation() {
	if m.RosterLost() && m.cfg.Volatile {
		m.becomeNewRun()
	}
	if m.mayDeclare() {
		m.declareProvisional()
	}
}

func (m *Machine) isolationDeadline(d *deadline) {
	if m.role != member.Seeking || !m.isSeed {
		return
	}
	if !m.join.askedAllAt.IsZero() {
		d.addFuture(m.now, m.join.askedAllAt.Add(m.timing.RetryInterval))
	}
	d.addFuture(m.now, m.declareAt())
}

// declareAt returns the time at which a seed without a chosen leader declares itself in any case.
func (m *Machine) declareAt() time.Time {
	if m.isolation.noChosenSince.IsZero() {
		return time.Time{}
	}
	return m.isolation.noChosenSince.Add(m.timing.declareTimeout(!m.heldNumber().IsZero()))
}

// mayDeclare reports whether this seed may become provisional leader now.
func (m *Machine) mayDeclare() bool {
	if m.role != member.Seeking || !m.isSeed || m.cfg.JoinOnly || m.operator.leaving ||
		m.join.since.IsZero() || !m.join.target.IsZero() || m.isProposing() {
		return false
	}
	if t := m.join.leaderNamedAt; !t.IsZero() && m.now.Sub(t) < m.timing.namedLeaderTimeout() {
		return false // another node named a leader
	}
	if !m.heldNumber().IsZero() {
		// Without a place in its own roster this node could not admit other nodes.
		_, placed := m.durable.Held.Roster.Find(m.self.Address)
		return placed && m.due(m.declareAt())
	}
	if m.due(m.declareAt()) {
		return true
	}
	answered, greatest, holds := m.heardSeeds()
	if holds || !greatest {
		return false // a cluster exists and will elect, or a greater seed declares itself
	}
	// Do not wait for a seed that was asked a RetryInterval ago and did not answer.
	return answered >= len(m.cfg.Seeds)-1 ||
		!m.join.askedAllAt.IsZero() && m.due(m.join.askedAllAt.Add(m.timing.RetryInterval))
}

// isRecentAnswer reports whether a seed's answer is recent enough to count.
func (m *Machine) isRecentAnswer(a answer) bool {
	return m.now.Sub(a.at) <= m.timing.answerLifetime()
}

// heardSeeds counts the other seeds that recently showed that they have no leader. It reports
// whether this node's address is the greatest, and whether a seed, with or without a leader, holds
// a state.
func (m *Machine) heardSeeds() (answered int, greatest, holds bool) {
	greatest = true
	for _, a := range m.join.answers {
		if !m.isRecentAnswer(a) {
			continue
		}
		holds = holds || a.holds
		if !a.named {
			answered++
			greatest = greatest && m.self.Address.Compare(a.seed) > 0
		}
	}
	return answered, greatest, holds
}

// declareProvisional makes this seed a provisional leader. If the node holds a roster, it leads
// that roster.
func (m *Machine) declareProvisional() {
	own := member.Member{
		Identity: m.self, Name: m.cfg.Name, Seed: true, Status: member.Active, Traits: m.traits,
	}
	roster := member.Roster{own}
	if !m.heldNumber().IsZero() {
		roster = slices.Clone(m.durable.Held.Roster)
		for i := range roster {
			roster[i].Status, roster[i].Gone = member.Unreachable, false
		}
		roster = roster.With(own)
	}
	m.becomeProvisional(member.State{
		Number:  member.Number{Version: m.heldNumber().Version + 1},
		Cluster: m.clusterID(),
		Leader:  m.self.Address,
		Roster:  roster,
	})
}

// announceToSeeds sends the claim to the seeds without a leader, except those that receive the
// claim in answer to their queries.
func (m *Machine) announceToSeeds() {
	for _, a := range m.join.answers {
		if m.isRecentAnswer(a) && !a.named && !slices.ContainsFunc(m.join.askers, func(x asker) bool {
			return x.addr == a.seed && m.isRoundOpen(x)
		}) {
			m.send(a.seed, message.SeedKeepAlive{})
		}
	}
}

// tickSoftSync sends a changed state of a provisional leader to its members. It does so at most
// once per stateInterval, because many nodes may join together. It does not wait when the roster
// has become full.
func (m *Machine) tickSoftSync() {
	members := len(m.soft.Roster)
	filled := members == m.cfg.Size && m.lead.softSynced < members
	at := m.lead.softSyncAt
	if m.role != member.Provisional || at.IsZero() || !filled && !m.due(at) {
		return
	}
	m.lead.softSyncAt, m.lead.softSyncedAt, m.lead.softSynced = time.Time{}, m.now, members
	for _, p := range m.lead.peers {
		m.alignMember(p)
	}
}

// showHeld shows the held state to a follower of this provisional leader that holds nothing but has
// a vote in it. Others show their state when they propose, but a witness, or a node without a vote,
// never proposes, so that voter must.
func (m *Machine) showHeld(follower member.Identity) {
	r := m.durable.Held.Roster
	proposes := m.traits.Preference != member.NeverLeads && r.IsVoter(m.self.Voter())
	if !proposes && r.IsVoter(follower.Voter()) {
		m.sendQuery(follower.Address)
	}
}

// If this node is a provisional leader without a state, tickFounding starts a founding as soon as M
// active members and a majority of the seeds follow it.
func (m *Machine) tickFounding() {
	if m.role != member.Provisional || !m.heldNumber().IsZero() || m.cfg.JoinOnly ||
		m.isProposing() || m.now.Before(m.inquiry.nextAt) || m.now.Before(m.startWaitEnd) {
		return
	}
	if _, _, holds := m.heardSeeds(); holds {
		return // the tokens of a second cluster would start over
	}
	var active member.Roster
	seeds := 0
	for _, e := range m.soft.Roster {
		if e.Status != member.Active {
			continue
		}
		active = append(active, e)
		if slices.Contains(m.cfg.Seeds, e.Address) {
			seeds++
		}
	}
	if len(active) < m.quorum || seeds < member.Quorum(len(m.cfg.Seeds)) ||
		m.now.Before(m.gatheredAt()) {
		return
	}
	if candidates := m.foundingCandidates(active); len(candidates) > 0 {
		m.propose.Proposer = m.propose.BeginFounding(
			m.self, m.durable.Acceptor, m.quorum, active, m.cfg.Seeds, candidates, m.lead.boundSeen)
		m.sendProposal(false)
	}
}

// foundingCandidates returns the members to propose in a founding: members that are more preferred
// than this node, in order of preference, then this node if it may lead. The first attempt proposes
// only members with the greatest preference.
func (m *Machine) foundingCandidates(active member.Roster) []member.Address {
	able := slices.DeleteFunc(slices.Clone(active), func(e member.Member) bool {
		if e.Address == m.self.Address {
			return m.traits.Preference == member.NeverLeads
		}
		return e.Preference <= m.traits.Preference
	})
	slices.SortStableFunc(able, comparePreference)
	if m.propose.Failures == 0 {
		able = slices.DeleteFunc(able, func(e member.Member) bool {
			return e.Preference < able[0].Preference
		})
	}
	return addresses(able)
}

// gatheredAt returns the time at which a founder stops waiting for more members. Processes that
// start together join at almost the same time. Each member that joins later costs two revisions
// that every node stores.
func (m *Machine) gatheredAt() time.Time {
	if len(m.soft.Roster) == m.cfg.Size {
		return time.Time{}
	}
	quiet := m.lead.joinedAt.Add(m.timing.gatherTimeout())
	if end := m.lead.since.Add(m.timing.RetryInterval); quiet.After(end) {
		return end
	}
	return quiet
}

// refuseFounding returns the reason to refuse a founding that the acceptor would grant (protocol.md
// 4).
func (m *Machine) refuseFounding(from member.Identity, seeds uint64) message.Reason {
	switch {
	case m.cfg.JoinOnly:
		return message.ReasonJoinOnly
	case seeds != m.seeds:
		return message.ReasonOtherSeeds
	case !slices.Contains(m.cfg.Seeds, from.Address):
		return message.ReasonNotVoter // only a seed starts a founding
	}
	return message.ReasonNone
}

// SeedDigest returns a digest of a sorted list of seeds. Nodes use the digest to compare their
// lists.
func SeedDigest(seeds []member.Address) uint64 {
	h := fnv.New64a()
	for _, s := range seeds {
		h.Write([]byte(s.String()))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
