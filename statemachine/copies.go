// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// A data directory that was restored from an earlier copy has forgotten votes and states. The
// functions below find such a store by what others remember of it (protocol.md 3, a restored copy).

// isRestored reports whether s proves that a store which shows the given held state was restored
// from a copy. (S) A store saves each run before another node learns of it, so it made no run
// between the two that it shows. A leader saves each state that it makes before another node learns
// of it.
func isRestored(
	s member.State, id member.Identity, runs message.Runs, held member.Number,
) bool {
	e, _ := s.Roster.Find(id.Address)
	leader := s.LeaderIdentity()
	forgotRun := e.StoreID == id.StoreID && runs.Last > 0 &&
		runs.Last < e.Incarnation && e.Incarnation < runs.First
	// Another proposer may have made revision 0.
	forgotState := leader.Voter() == id.Voter() && leader.Incarnation < runs.First &&
		s.Revision > 0 && held.Less(s.Number)
	return forgotRun || forgotState
}

// refusesCopy reports whether the message shows that the store of its sender was restored, and then
// refuses it. (S) Nothing else is taken from the message, because a copy does not prove that an
// earlier run of its store has ended.
func (m *Machine) refusesCopy(in message.Message) bool {
	switch b := in.Body.(type) {
	case message.LeaderQuery:
		return m.findsRestored(in, b.Runs, b.Held.Number)
	case message.JoinClusterRequest:
		return m.findsRestored(in, b.Runs, b.Held)
	default:
		return false
	}
}

// findsRestored reports whether this node remembers what the store of the sender has forgotten. It
// then refuses the sender by name. An earlier release shows no runs, so nothing is compared.
func (m *Machine) findsRestored(in message.Message, runs message.Runs, held member.Number) bool {
	p := m.lead.peer(in.From.Address)
	// (S) The store had shown this leader what it held.
	forgotAnswer := m.role == member.Leading && p != nil && p.id.Voter() == in.From.Voter() &&
		p.id.Incarnation < runs.First && held.Less(p.number)
	// (S) The store had led this node.
	f := &m.follow
	forgotLead := f.leader.Voter() == in.From.Voter() && f.leader.Incarnation < runs.First &&
		f.claim.Chosen && held.Version < f.claim.Version && !f.heardAt.IsZero()
	if runs.First == 0 ||
		!forgotAnswer && !forgotLead && !isRestored(m.durable.Held, in.From, runs, held) {
		return false
	}
	m.refuse(in, message.ReasonRestored)
	if m.copyFound != in.From {
		m.copyFound = in.From // it asks again and again if it does not believe this node
		m.trace(Trace{Kind: FoundCopy, Peer: in.From.Address, Version: m.heldNumber().Version})
	}
	m.send(in.From.Address, message.JoinClusterResponse{
		Reason: message.ReasonRestored, Known: m.heldNumber().Version,
	})
	return true
}

// findsOwnCopy reports whether s proves that the store of this node was restored from a copy. The
// node then has another store.
func (m *Machine) findsOwnCopy(from member.Identity, s member.State) bool {
	if m.admitted || !m.believesCopy(from) || s.Number.Less(m.heldNumber()) ||
		!m.isChoosable(s) || !isRestored(s, m.self, m.runs, m.heldNumber()) {
		return false
	}
	m.becomeAnotherStore(from.Address, s.Version)
	return true
}

// believesCopy reports whether this node believes from a process that its store was restored. (S)
// Only a voter of the held state is believed, or of the accepted one if the store holds nothing,
// and a leader that such a voter named. A store that has accepted nothing either is no voter that a
// founded cluster needs.
func (m *Machine) believesCopy(from member.Identity) bool {
	d := m.durable
	if d.Held.IsZero() {
		return d.Accepted.IsZero() || d.Accepted.State.Roster.IsVoter(from.Voter())
	}
	return d.Held.Roster.IsVoter(from.Voter()) ||
		m.isAsked(from.Address) && m.join.target == m.join.vouched
}

// onRestored handles the refusal of a node that remembers what this node's store has forgotten. (S)
// It is believed only before this run has got its place. A run that got it from a leader among
// other copies, and lost it to a leader that remembers more, must not be refused again.
func (m *Machine) onRestored(in message.Message, version uint64) {
	d := m.durable
	if m.admitted {
		m.runs = message.Runs{}
	}
	if m.runs.First == 0 || !m.believesCopy(in.From) ||
		version < max(1, d.Held.Version) || version > member.MaxVersion {
		m.drop(in, message.ReasonRestored)
		return
	}
	m.becomeAnotherStore(in.From.Address, version)
}

// becomeAnotherStore gives up a store that was restored from a copy. (S) Its other votes are
// unknown, so it never votes again. The node joins with a new store, and may not found a cluster
// whose tokens are below those of the given version. But a store that is empty also believes
// processes that no voter knows, and takes this version only from the address of a seed: no cluster
// may have tokens as high.
func (m *Machine) becomeAnotherStore(from member.Address, version uint64) {
	m.trace(Trace{Kind: FoundCopy, Peer: m.self.Address, Version: version})
	m.cfg.JoinOnly = true
	a := paxos.Acceptor{Floor: min(version-1, paxos.MaxFloor)}
	d := m.durable
	if d.Held.IsZero() && d.Accepted.IsZero() && !m.isSeedAt(from) {
		a.Floor = d.Floor
	}
	m.replaceStore(a, m.self.Incarnation+1)
	m.runs = message.Runs{}
}

// findLater notes that another node shows this leader with authority a state of its version, or of
// a later one, that another run leads. That state was chosen before this leader by voters that have
// forgotten it, so the stores of a majority were restored from copies. The leader notifies all
// members, and exceeds that version, because its tokens were used before. If the version is later,
// it waits until it has had authority for a LeaseTimeout since it first saw the state: otherwise it
// may be a former leader whose clock stood still.
func (m *Machine) findLater(in message.Message, s member.State) {
	if m.role != member.Leading || !m.isQuorate(m.now) || !m.countsVoteOf(in.From.Voter()) ||
		s.LeaderIdentity() == m.self || !m.isChoosable(s) || s.Version < m.claim().Version {
		return
	}
	if l := &m.lead; l.laterSince.IsZero() || l.quorateSince.After(l.laterSince) {
		l.laterSince = m.now
	}
	if s.Version == m.claim().Version || m.now.Sub(m.lead.laterSince) >= m.timing.LeaseTimeout {
		m.reportLater(in, s.Version)
	}
}

// reportLater notifies all members that the sender holds a later state, and exceeds its version.
func (m *Machine) reportLater(in message.Message, version uint64) {
	if !m.noteBound(in, max(version, m.claim().Version+1)) {
		return
	}
	m.noteLater(in.From.Address, version)
	for _, to := range m.targets(addresses(m.durable.Held.Roster)) {
		m.send(to, message.JoinClusterResponse{Reason: message.ReasonLaterState, Known: version})
	}
}

// onLaterState handles the notice of a leader that found a later state.
func (m *Machine) onLaterState(in message.Message, version uint64) {
	switch {
	case !m.isTrustedSender(in):
		m.drop(in, message.ReasonUnknownMember)
	case m.heldNumber().Version >= version && m.heldNumber().Version > in.Claim.Version:
		m.noteLater(m.self.Address, version)
	default:
		m.noteLater(member.Address{}, version)
	}
}

// noteLater traces once that peer holds a later state than a leader with authority.
func (m *Machine) noteLater(peer member.Address, version uint64) {
	if version > m.laterFound {
		m.laterFound = version
		m.trace(Trace{Kind: FoundLater, Peer: peer, Version: version})
	}
}
