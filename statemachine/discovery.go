// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// joinState is the search for a leader (protocol.md 4). It proceeds in rounds of about
// RetryInterval.
type joinState struct {
	id         uint64    // id of the current round
	roundStart time.Time // when the round began
	nextAt     time.Time // when the next round begins; see schedule
	since      time.Time // when the first round began; zero while there is a leader
	widenAt    time.Time // when to ask further seeds in this round; zero if never
	widened    int       // number of seeds asked in addition to the greatest seed
	widenBy    int       // number of further seeds to ask at a time
	// newCluster is set if another node that holds no state answered in this round.
	newCluster bool
	// turnAt is the time at which this seed may ask all others. It is zero after that time.
	turnAt time.Time
	// askedAllAt is the time at which this seed began to ask all others. It is zero before that.
	askedAllAt time.Time
	answers    []answer // the newest answer of each seed
	// target is the claim of the leader that this node asked for a place; zero if none.
	target member.Claim
	// vouched is the claim that a voter of the held roster made last.
	vouched member.Claim
	// suspected is the leader that was just lost. Claims of other nodes do not bring it back.
	suspected member.Claim
	// refused is the leader that refused this node a place in this round. It is not asked again
	// before the next round, even if other nodes name it.
	refused member.Claim
	// unresponsive is a provisional leader that sends messages but does not answer. Its claims are
	// ignored.
	unresponsive member.Claim
	firstAskedAt time.Time // when target was first asked
	lastAskedAt  time.Time // when target was last asked
	mustWait     bool      // set if target answered that this node has to wait
	// leaderNamedAt is the time at which another node last named a leader.
	leaderNamedAt time.Time
	askers        []asker
}

// answer records the last query or response of another seed.
type answer struct {
	seed  member.Address
	at    time.Time
	named bool // whether the seed named a leader
	holds bool // whether the seed holds a state
}

// asker is a node that asked for a leader while this node had none. It gets another response as
// soon as there is a leader.
type asker struct {
	addr member.Address
	id   uint64
	at   time.Time
}

func (m *Machine) tickJoin() {
	if !m.due(m.join.nextAt) {
		return
	}
	if m.asksForVote() {
		m.schedule(roundBegan)
		for _, to := range m.targets(addresses(m.durable.Held.Roster)) {
			m.sendQuery(to)
		}
	}
	if m.role != member.Seeking {
		return
	}
	m.join.id = m.cfg.Rand.Uint64()
	m.join.roundStart = m.now
	m.schedule(roundBegan)
	m.join.target, m.join.refused = member.Claim{}, member.Claim{}
	m.trace(Trace{Kind: Discovering})
	first := m.join.since.IsZero()
	if first {
		m.join.since = m.now
		m.join.widenBy = 1
		if m.takesTurns() {
			m.join.turnAt = m.now.Add(m.askAllDelay())
		}
	} else if !m.join.newCluster && (!m.takesTurns() || m.cfg.JoinOnly) {
		m.join.widenBy = min(2*m.join.widenBy, len(m.cfg.Seeds))
	}
	m.join.newCluster = false
	m.join.widenAt = time.Time{}
	if m.mayAskAll() {
		m.askAll()
		return
	}
	m.join.askedAllAt = time.Time{}
	// When many nodes start together, all must know the seed that will declare itself.
	m.sendQuery(m.seedsByRank()[0])
	m.join.widenAt = m.now.Add(m.timing.widenTimeout())
	if !first {
		m.widenRound()
	}
}

// tickWiden asks further seeds if this round has brought no answer yet.
func (m *Machine) tickWiden() {
	if m.role != member.Seeking {
		return
	}
	turn, more := m.due(m.join.turnAt), m.due(m.join.widenAt)
	if turn {
		m.join.turnAt = time.Time{}
	}
	if more {
		m.join.widenAt = time.Time{}
	}
	switch {
	case (turn || more) && m.mayAskAll():
		m.askAll()
	case more:
		m.widenRound()
	}
}

// mayAskAll reports whether this node may ask all known nodes now. If there are many seeds, each
// seed lets the seeds with greater addresses go first. Otherwise all seeds on a machine that is too
// busy to answer in time would declare themselves together.
func (m *Machine) mayAskAll() bool {
	if !m.heldNumber().IsZero() || len(m.targets(m.cfg.Seeds)) == 0 {
		return true
	}
	if !m.takesTurns() {
		return m.isSeed
	}
	_, greatest, _ := m.heardSeeds()
	return greatest && m.due(m.join.since.Add(m.askAllDelay()))
}

// takesTurns reports whether this node is one of many seeds of a new cluster.
func (m *Machine) takesTurns() bool {
	return m.isSeed && len(m.cfg.Seeds) > fewSeeds && m.heldNumber().IsZero()
}

// askAllDelay returns the time that one of many seeds waits for seeds with greater addresses before
// it asks all others.
func (m *Machine) askAllDelay() time.Duration {
	greater := 0
	for _, s := range m.cfg.Seeds {
		if s.Compare(m.self.Address) > 0 {
			greater++
		}
	}
	return m.timing.turnTimeout(greater, len(m.cfg.Seeds))
}

// askAll asks the seeds that have not answered in this round, and the members of the held roster.
func (m *Machine) askAll() {
	if m.join.askedAllAt.IsZero() {
		m.join.askedAllAt = m.now
	}
	for _, to := range m.targets(m.cfg.Seeds, addresses(m.durable.Held.Roster)) {
		answered := slices.ContainsFunc(m.join.answers, func(a answer) bool {
			return a.seed == to && !a.named && a.at.After(m.join.roundStart)
		})
		if !answered {
			m.sendQuery(to)
		}
	}
}

// widenRound asks further seeds: one in the first round, and twice as many after each round without
// an answer. Each call asks different seeds. A seed that may declare itself asks only one seed at a
// time. Other seeds may start and ask at the same time, and on a busy machine each further query
// costs a connection but brings no answer in time.
func (m *Machine) widenRound() {
	others := m.seedsByRank()[1:]
	if m.join.widenBy >= len(others) {
		m.join.widenAt = time.Time{} // all have been asked
	}
	for range min(m.join.widenBy, len(others)) {
		m.sendQuery(others[m.join.widened%len(others)])
		m.join.widened++
	}
}

// asksForVote reports whether this node asks the members for a newer state although it is or
// follows a provisional leader: it has no vote in the held state, so no vote shows it a newer one.
func (m *Machine) asksForVote() bool {
	return m.role != member.Seeking && !m.claim().Chosen && !m.heldNumber().IsZero() && !m.isVoter()
}

func (m *Machine) sendQuery(to member.Address) {
	m.send(to, message.LeaderQuery{ID: m.join.id, Held: m.durable.Held, Runs: m.runs})
}

// seedsByRank returns the other seeds by descending address.
func (m *Machine) seedsByRank() []member.Address {
	seeds := m.targets(m.cfg.Seeds)
	slices.SortFunc(seeds, func(a, b member.Address) int { return b.Compare(a) })
	return seeds
}

// endSearch clears the search state when this node follows or leads.
func (m *Machine) endSearch() {
	m.join.target, m.join.suspected = member.Claim{}, member.Claim{}
	m.join.since, m.join.widenAt, m.join.askedAllAt = time.Time{}, time.Time{}, time.Time{}
	m.join.turnAt = time.Time{}
}

func (m *Machine) joinDeadline(d *deadline) {
	if m.role == member.Seeking || m.asksForVote() {
		d.add(m.join.nextAt)
	}
	if m.role == member.Seeking {
		d.add(m.join.widenAt)
		d.add(m.join.turnAt)
	}
}

// onLeaderQuery answers with the current leader. If there is no leader, it answers again as soon as
// there is a leader, if the asker's round is still open.
func (m *Machine) onLeaderQuery(in message.Message, b message.LeaderQuery) {
	m.noteSeedAnswer(in, b.Held.Number)
	m.findLater(in, b.Held)
	m.learnIfVoteless(in.From, b.Held)
	m.send(in.From.Address, message.LeaderResponse{ID: b.ID, Held: m.heldNumber()})
	voter, held := in.From.Voter(), m.durable.Held
	if b.Held.Less(held.Number) && held.Roster.IsVoter(voter) && !b.Held.Roster.IsVoter(voter) {
		m.sendQuery(in.From.Address)
	}
	if !m.claim().IsZero() {
		return
	}
	a := asker{in.From.Address, b.ID, m.now}
	m.join.askers = replaceOrAppend(m.join.askers, a, 2*m.cfg.Size,
		func(o asker) bool { return o.addr == a.addr })
}

// replaceOrAppend replaces the element of list for which isSame is true with e. If there is no such
// element, it appends e, unless list already has limit elements.
func replaceOrAppend[E any](list []E, e E, limit int, isSame func(E) bool) []E {
	if i := slices.IndexFunc(list, isSame); i >= 0 {
		list[i] = e
	} else if len(list) < limit {
		list = append(list, e)
	}
	return list
}

// answerAskers answers the nodes that asked before there was a leader and whose rounds are still
// open.
func (m *Machine) answerAskers() {
	for _, a := range m.join.askers {
		if m.isRoundOpen(a) {
			m.send(a.addr, message.LeaderResponse{ID: a.id, Held: m.heldNumber()})
		}
	}
	m.join.askers = nil
}

// isRoundOpen reports whether a's round may still be open.
func (m *Machine) isRoundOpen(a asker) bool {
	return m.now.Sub(a.at) < m.timing.longestRound()
}

// onLeaderResponse records that a node has no leader. Step handles the claim in the header, if any.
func (m *Machine) onLeaderResponse(in message.Message, b message.LeaderResponse) {
	if m.role != member.Seeking || b.ID != m.join.id {
		m.drop(in, message.ReasonOtherQuery)
		return
	}
	if in.Claim.IsZero() && b.Held.IsZero() {
		// The cluster is new, and the sender will answer again as soon as there is a leader. A
		// sender that holds a state may be cut off from its leader, so its answer does not end the
		// round.
		m.join.widenAt, m.join.newCluster = time.Time{}, true
	}
	m.noteSeedAnswer(in, b.Held)
}

// noteSeedAnswer records the query or response of a seed.
func (m *Machine) noteSeedAnswer(in message.Message, held member.Number) {
	isSeed := m.isSeedAt(in.From.Address)
	_, isKnown := m.durable.Held.Roster.Find(in.From.Address)
	if (isSeed || isKnown) && !in.Claim.IsZero() && in.Claim.Leader != m.self.Address &&
		in.Claim != m.join.suspected && in.Claim != m.join.unresponsive {
		m.join.leaderNamedAt = m.now
	}
	if !isSeed {
		return
	}
	a := answer{
		seed: in.From.Address, at: m.now, named: !in.Claim.IsZero(), holds: !held.IsZero(),
	}
	m.join.answers = replaceOrAppend(m.join.answers, a, len(m.cfg.Seeds),
		func(o answer) bool { return o.seed == a.seed })
}

// tickUnresponsive gives up a provisional leader that does not answer. It waits until this node has
// had no chosen leader for long enough to declare itself. Otherwise a leader that can send but not
// receive would keep all other seeds from declaring themselves.
func (m *Machine) tickUnresponsive() {
	s := &m.join
	if m.role == member.Seeking && !s.target.IsZero() && !s.target.Chosen && !s.mustWait &&
		m.now.Sub(s.firstAskedAt) >= m.timing.RetryInterval && m.due(m.declareAt()) {
		s.unresponsive, s.target = s.target, member.Claim{}
	}
}

// noteResponse accepts an unresponsive leader again when the leader answers.
func (m *Machine) noteResponse(in message.Message) {
	switch in.Body.(type) {
	case message.LeaderResponse, message.JoinClusterResponse, message.SeedKeepAliveAck:
		if in.From.Address == m.join.unresponsive.Leader {
			m.join.unresponsive = member.Claim{}
		}
	}
}
