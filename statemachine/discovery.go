// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// joinState is the search for a leader to follow (protocol.md section 4). A round lasts
// RetryInterval.
type joinState struct {
	id     uint64    // of the present round
	began  time.Time // when the round began
	nextAt time.Time // when the next round begins
	since  time.Time // when the first round began; zero while there is a leader
	moreAt time.Time // when further seeds are asked in this round; zero for never
	more   int       // counts those that were asked besides the greatest
	width  int       // how many further ones are asked at a time
	// fresh is set if a node that holds nothing either answered in this round.
	fresh bool
	// turnAt is when this seed may ask all others; zero after that.
	turnAt time.Time
	// allAt is since when all seeds are asked; zero while they are not.
	allAt   time.Time
	answers []answer // the newest of each seed
	// target is the claim whose leader was asked for a place; zero for none.
	target member.Claim
	// suspected is the leader just lost. Claims of others do not bring it back.
	suspected member.Claim
	// refused is the leader that refused a place in this round. It is not asked again before
	// the next round, even if other nodes name it.
	refused member.Claim
	// deaf is a provisional leader that did not answer although this node hears it. Its claims
	// are ignored.
	deaf    member.Claim
	askedAt time.Time // when target was first asked for a place
	joinAt  time.Time // when it was asked last
	waits   bool      // it answered that this node has to wait
	// ledAt is when another node last named a leader.
	ledAt  time.Time
	askers []asker
}

// answer is what another seed last showed in a query or a response.
type answer struct {
	seed  member.Address
	at    time.Time
	holds bool // it holds a state
}

// asker is a node that asked for a leader while this node had none. It gets another response
// as soon as there is one.
type asker struct {
	addr member.Address
	id   uint64
	at   time.Time
}

func (m *Machine) tickJoin() {
	if m.role != member.Seeking || !m.due(m.join.nextAt) {
		return
	}
	m.join.id = m.cfg.Rand.Uint64()
	m.join.began = m.now
	m.join.nextAt = m.now.Add(m.timing.RetryInterval + m.jitter(m.timing.roundJitter()))
	m.join.target, m.join.refused = member.Claim{}, member.Claim{}
	m.trace(Trace{Kind: Discovering})
	first := m.join.since.IsZero()
	if first {
		m.join.since = m.now
		m.join.width = 1
		if m.takesTurns() {
			m.join.turnAt = m.now.Add(m.askAllAfter())
		}
	} else if !m.join.fresh && (!m.takesTurns() || m.cfg.JoinOnly) {
		m.join.width = min(2*m.join.width, len(m.cfg.Seeds))
	}
	m.join.fresh = false
	m.join.moreAt = time.Time{}
	if m.asksAll() {
		m.askAll()
		return
	}
	m.join.allAt = time.Time{}
	// Of many nodes that start together all must know the one that will declare itself.
	m.sendQuery(m.seedsByRank()[0])
	m.join.moreAt = m.now.Add(m.timing.widenTimeout())
	if !first {
		m.askMore()
	}
}

// tickMore asks further seeds in a round without an answer.
func (m *Machine) tickMore() {
	if m.role != member.Seeking {
		return
	}
	turn, more := m.due(m.join.turnAt), m.due(m.join.moreAt)
	if turn {
		m.join.turnAt = time.Time{}
	}
	if more {
		m.join.moreAt = time.Time{}
	}
	switch {
	case (turn || more) && m.asksAll():
		m.askAll()
	case more:
		m.askMore()
	}
}

// asksAll reports whether this node asks all nodes that it knows at once. A seed does that
// for a RetryInterval before it declares itself without an answer of all. If there are many
// seeds, it lets greater ones go first: on a busy machine no answer comes in time, and all
// would declare themselves together.
func (m *Machine) asksAll() bool {
	if !m.held().IsZero() || len(m.targets(m.cfg.Seeds)) == 0 {
		return true
	}
	if !m.takesTurns() {
		return m.isSeed
	}
	_, greatest, _ := m.heardSeeds()
	return greatest && m.due(m.join.since.Add(m.askAllAfter()))
}

// takesTurns reports whether this node is one of many seeds of a new cluster.
func (m *Machine) takesTurns() bool {
	return m.isSeed && len(m.cfg.Seeds) > fewSeeds && m.held().IsZero()
}

// askAllAfter is how long this seed, one of many, lets greater ones go first.
func (m *Machine) askAllAfter() time.Duration {
	greater := 0
	for _, s := range m.cfg.Seeds {
		if s.Compare(m.self.Address) > 0 {
			greater++
		}
	}
	return m.timing.turnTimeout(greater, len(m.cfg.Seeds))
}

func (m *Machine) askAll() {
	if m.join.allAt.IsZero() {
		m.join.allAt = m.now
	}
	for _, to := range m.targets(m.cfg.Seeds, addresses(m.durable.Held.Roster)) {
		if !m.heardThisRound(to) {
			m.sendQuery(to)
		}
	}
}

// heardThisRound reports whether the seed at a was heard since the round began.
func (m *Machine) heardThisRound(a member.Address) bool {
	return slices.ContainsFunc(m.join.answers, func(x answer) bool {
		return x.seed == a && x.at.After(m.join.began)
	})
}

// askMore asks seeds besides the greatest, different ones each time: one at first, and twice
// as many after each round without an answer. A seed that may declare itself keeps asking one
// at a time: all that start together ask, and on a busy machine, where no answer comes in
// time, each further question costs a connection.
func (m *Machine) askMore() {
	others := m.seedsByRank()[1:]
	if m.join.width >= len(others) {
		m.join.moreAt = time.Time{} // all are asked
	}
	for range min(m.join.width, len(others)) {
		m.sendQuery(others[m.join.more%len(others)])
		m.join.more++
	}
}

func (m *Machine) sendQuery(to member.Address) {
	m.send(to, message.LeaderQuery{ID: m.join.id, Held: m.durable.Held})
}

// seedsByRank lists the other seeds, the greatest address first.
func (m *Machine) seedsByRank() []member.Address {
	seeds := m.targets(m.cfg.Seeds)
	slices.SortFunc(seeds, func(a, b member.Address) int { return b.Compare(a) })
	return seeds
}

// endSearch clears the timers and targets of the search when this node follows or leads.
func (m *Machine) endSearch() {
	m.join.target, m.join.suspected = member.Claim{}, member.Claim{}
	m.join.since, m.join.moreAt, m.join.allAt = time.Time{}, time.Time{}, time.Time{}
	m.join.turnAt = time.Time{}
}

func (m *Machine) joinDeadline(d *deadline) {
	if m.role == member.Seeking {
		d.add(m.join.nextAt)
		d.add(m.join.moreAt)
		d.add(m.join.turnAt)
	}
}

// onLeaderQuery answers. If this node has no leader, it answers again when it finds one
// within the asker's round.
func (m *Machine) onLeaderQuery(in message.Message, b message.LeaderQuery) {
	m.noteSeed(in, b.Held.Number)
	m.learnFrom(b.Held)
	m.send(in.From.Address, message.LeaderResponse{ID: b.ID, Held: m.held()})
	if !m.leader.IsZero() {
		return
	}
	for i, a := range m.join.askers {
		if a.addr == in.From.Address {
			m.join.askers[i] = asker{in.From.Address, b.ID, m.now}
			return
		}
	}
	if len(m.join.askers) < 2*m.cfg.Size {
		m.join.askers = append(m.join.askers, asker{in.From.Address, b.ID, m.now})
	}
}

// tellAskers answers the nodes whose rounds still last and that got no leader.
func (m *Machine) tellAskers() {
	for _, a := range m.join.askers {
		if m.mayHear(a) {
			m.send(a.addr, message.LeaderResponse{ID: a.id, Held: m.held()})
		}
	}
	m.join.askers = nil
}

// mayHear reports whether the round of a may still last.
func (m *Machine) mayHear(a asker) bool {
	return m.now.Sub(a.at) < m.timing.longestRound()
}

// onLeaderResponse notes a node without a leader. A claim is heard with the header.
func (m *Machine) onLeaderResponse(in message.Message, b message.LeaderResponse) {
	if m.role != member.Seeking || b.ID != m.join.id {
		m.drop(in, message.ReasonOtherQuery)
		return
	}
	if in.Claim.IsZero() && b.Held.IsZero() {
		// The cluster is new, and the sender answers again as soon as there is a leader. A
		// node that holds a state may be cut off from those that have a leader.
		m.join.moreAt, m.join.fresh = time.Time{}, true
	}
	m.noteSeed(in, b.Held)
}

// noteSeed keeps what a seed showed in a query or a response.
func (m *Machine) noteSeed(in message.Message, held member.Number) {
	if !in.Claim.IsZero() {
		if in.Claim.Leader != m.self.Address && in.Claim != m.join.suspected &&
			in.Claim != m.join.deaf {
			m.join.ledAt = m.now
		}
		return
	}
	for _, s := range m.cfg.Seeds {
		if s != in.From.Address {
			continue
		}
		a := answer{seed: s, at: m.now, holds: !held.IsZero()}
		for i := range m.join.answers {
			if m.join.answers[i].seed == s {
				m.join.answers[i] = a
				return
			}
		}
		m.join.answers = append(m.join.answers, a)
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
