// SPDX-License-Identifier: Apache-2.0

package statemachine

// waitReason is why a node changes when it next asks the voters whether they have a leader, or
// begins a round of questions to the seeds.
type waitReason uint8

const (
	started           waitReason = iota // this run, or its new store, begins
	learned                             // it took a newer state from a vote or a proposal
	mustExceed                          // this leader learned of a version that it must exceed
	queried                             // it asked the voters
	failed                              // its attempt failed
	foundingStopped                     // its founding met a held state, or another list of seeds
	granted                             // it voted for another proposer
	leaderLost                          // its leader is silent or gave up, and the others may not know
	leaderEnded                         // its leader has ended, and the others learn of it now
	leaderHandsOver                     // its leader proposes a successor now
	yielded                             // a voter before this node asks
	runEnded                            // the run of the leader before has ended
	untold                              // a voter does not know yet that this run has ended
	steppedDown                         // this leader gave up
	handedOver                          // this leader proposes a successor now
	successorsRefused                   // none of the successors wants to lead
	roundBegan                          // it asked the seeds
	placeAsked                          // it asked a leader for a place
)

// schedule sets when this node next asks the voters, or as a founder or a bound leader proposes
// itself, and when it next asks the seeds. Nothing else sets these times. postponeInquiry has the
// conditions that must also hold when the time comes.
func (m *Machine) schedule(why waitReason) {
	t, now := m.timing, m.now
	if why != yielded {
		m.inquiry.answered, m.inquiry.yields = false, 0
	}
	inquiry, join := &m.inquiry.nextAt, &m.join.nextAt
	switch why {
	case started, learned:
		*inquiry, *join = now, now
	case queried:
		*inquiry = now.Add(t.voteTimeout(m.inquiry.fails))
	case yielded:
		*inquiry = latest(*inquiry, m.inquiry.yieldUntil)
	case failed:
		// The pause grows with the node's rank in the roster and with each failure, and includes
		// jitter, so that contenders do not keep interrupting each other.
		fails := m.propose.Failures
		*inquiry = now.Add(t.againTimeout(m.rank(), fails) + m.jitter(t.againJitter(fails)))
	case foundingStopped:
		*inquiry = now.Add(t.RetryInterval)
	case granted:
		// The pause includes the turn of this node, in case the proposer dies now.
		*inquiry = latest(*inquiry, now.Add(t.HeartbeatInterval+m.turnDelay()))
		if m.isCrowded() && m.join.since.IsZero() { // all voters would ask all seeds at the same instant
			*join = latest(*join, now.Add(t.HeartbeatInterval))
		}
	case leaderLost, leaderEnded, leaderHandsOver:
		noticed := now
		if why == leaderEnded {
			noticed = now.Add(t.endedTurn())
		}
		if why == leaderHandsOver {
			noticed = now.Add(t.successorTimeout())
		}
		*inquiry, *join = noticed.Add(m.turnDelay()), noticed
		// A voter asks the other voters first; a node without a vote can only ask the seeds.
		if m.isVoter() {
			*join = latest(noticed, m.support.until).Add(t.HeartbeatInterval)
		}
	case runEnded:
		// The question may wait for the end of the support for that run.
		*inquiry = earliestOf(*inquiry, now.Add(m.turnDelay()))
	case untold:
		*inquiry = earliestOf(*inquiry, now.Add(t.inquiryTurn(2*m.inquiry.fails)))
	case steppedDown:
		*inquiry, *join = now, now.Add(m.jitter(t.roundJitter()))
	case handedOver:
		*join = now.Add(t.RetryInterval)
	case mustExceed, successorsRefused:
		*inquiry = now
	case roundBegan:
		*join = now.Add(t.RetryInterval + m.jitter(t.roundJitter()))
	case placeAsked:
		if next := now.Add(t.RetryInterval); join.Before(next) {
			*join = next.Add(m.jitter(t.roundJitter()))
		}
	}
}

// postponeInquiry postpones a query that is due if this voter must not ask now. It reports whether
// it did.
func (m *Machine) postponeInquiry() bool {
	switch at := m.candidacyAt(); {
	case m.now.Before(at):
		m.inquiry.nextAt = at
	case m.now.Before(m.inquiry.yieldUntil):
		m.inquiry.nextAt = m.inquiry.yieldUntil
	case m.startWaitExcludes(m.self.Address): // this node would refuse its own proposal
		m.inquiry.nextAt = m.startWaitEnd
	case m.supportsOther(m.self.Voter()): // the support of the others ends at about the same time
		m.inquiry.nextAt = m.support.until.Add(m.turnDelay())
	default:
		return false
	}
	return true
}
