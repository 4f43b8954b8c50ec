// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/paxos"
)

// timing derives from the configured timings all others that this package uses: no other
// file of it multiplies or divides a duration, or combines two timings. Each comment gives
// the formula, the reason, and what a shorter or a longer value would cost. Sections are
// those of protocol.md. Only the values marked (S) carry safety; the others decide how long
// something takes and how many messages it costs.
type timing struct{ message.Timings }

// Starting and joining.

// fewSeeds is the greatest number of seeds that ask each other all at once (section 4).
const fewSeeds = 5

// roundJitter is RetryInterval / 4: a round of questions lasts RetryInterval and a random
// part of it, which keeps nodes that started together from asking one seed together, round
// after round (section 4). With a shorter one they would stay together for longer. With a
// longer one all that depends on the length of a round would take longer.
func (t timing) roundJitter() time.Duration { return t.RetryInterval / 4 }

// longestRound is RetryInterval + roundJitter: a node that was told of no leader is told
// when there is one, as long as its round may last (section 4). If this were shorter, it
// would find the leader a round later. If it were longer, it would drop what comes, because
// its round is over.
func (t timing) longestRound() time.Duration { return t.RetryInterval + t.roundJitter() }

// widenTimeout is RetryInterval / 2: a node asks further seeds in its round when nothing
// came from the greatest until then (section 4). If it were shorter, nodes would open
// connections which no one needs, most on a busy machine. If it were longer, a node would
// join later where the greatest seed is dead.
func (t timing) widenTimeout() time.Duration { return t.RetryInterval / 2 }

// turnTimeout is how long one of many seeds asks only a few others, because greater of them
// are greater than it (section 4): widenTimeout, and a turn for each of these but the first,
// which may be dead. A turn is widenTimeout, or TTLTimeout / seeds if that is shorter. If
// turns were shorter, seeds of a busy machine, which get no answer in time, would all declare
// themselves at once. If they were longer, the turns of a minority could take longer than
// TTLTimeout / 2, and all seeds that are left declare themselves after TTLTimeout.
func (t timing) turnTimeout(greater, seeds int) time.Duration {
	turn := min(t.widenTimeout(), t.TTLTimeout/time.Duration(seeds))
	return t.widenTimeout() + turn*time.Duration(max(greater-1, 0))
}

// answerLifetime is longestRound + RetryInterval: what a seed said of itself counts until it
// was asked again and had a RetryInterval to answer (section 4). If it were shorter, a slow
// seed would not be counted, and a lower one would declare itself beside it. If it were
// longer, a dead seed would keep the others waiting for longer.
func (t timing) answerLifetime() time.Duration { return t.longestRound() + t.RetryInterval }

// namedLeaderTimeout is 2 x RetryInterval: a seed to which another one named a leader does
// not declare itself for so long, which is enough to ask that leader twice (section 6, fewer
// than M alive). If it were shorter, it would declare itself beside a slow leader. If it
// were longer, a dead leader that is still named would delay it for longer.
func (t timing) namedLeaderTimeout() time.Duration { return 2 * t.RetryInterval }

// declareTimeout is how long a seed without a chosen leader waits before it declares itself
// in any case (sections 4 and 6). One that holds nothing waits for TTLTimeout, one that holds
// a roster for 3 x TTLTimeout, as in the original design: its voters may still elect. If it
// were shorter, provisional leaders would come up while an election is under way, and nodes
// would join twice. If it were longer, nodes without a majority would be alone for longer.
func (t timing) declareTimeout(holdsState bool) time.Duration {
	if holdsState {
		return 3 * t.TTLTimeout
	}
	return t.TTLTimeout
}

// gatherTimeout is HeartbeatInterval / 2: a founder waits until no member has joined for so
// long (section 4). If it were shorter, members that start together with it would come after
// the founding, at two revisions each which all store. If it were longer, every founding that
// is not full would take longer.
func (t timing) gatherTimeout() time.Duration { return t.HeartbeatInterval / 2 }

// softSyncInterval is HeartbeatInterval / 2: a provisional leader sends its members its whole
// state at most so often (section 4). If it were shorter, the state would be sent to all for
// each of many nodes that join together. If it were longer, members would learn later of
// those who joined.
func (t timing) softSyncInterval() time.Duration { return t.HeartbeatInterval / 2 }

// Members.

// waitingTimeout is 2 x RetryInterval: a leader forgets a joiner that waits for its place and
// has not repeated its request for so long (section 3). It must exceed longestRound, in which
// a joiner repeats it, or joiners would be forgotten while they wait. If it were much longer,
// a place could go to a joiner that is gone.
func (t timing) waitingTimeout() time.Duration { return 2 * t.RetryInterval }

// Keep-alive, support and lease.

// unaskedTimeout is HeartbeatInterval x 3/2: a follower that sent nothing for so long sends a
// keep-alive unasked, and its leader takes it for late (section 5). If it were
// HeartbeatInterval or less, keep-alives would cross acks that are on their way. It must stay
// below HeartbeatTimeout, which is at least 2 x HeartbeatInterval, or one lost ack would make
// a member unreachable.
func (t timing) unaskedTimeout() time.Duration {
	return t.HeartbeatInterval + t.HeartbeatInterval/2
}

// answerInterval is HeartbeatInterval / 2: a follower does not answer an ack that comes within
// this time of its last keep-alive (section 5). If it were very short, acks that come
// together would each be answered, and the two sides could chase each other. If it were
// HeartbeatInterval or more, acks that come on time would get no answer, and the lease would
// be extended half as often.
func (t timing) answerInterval() time.Duration { return t.HeartbeatInterval / 2 }

// realignInterval is HeartbeatInterval / 2: a leader sends the whole state to a member that was
// told of the newest one and has shown nothing newer for so long (section 5). If it were
// shorter than a round trip, it would send the state again while the answer is on its way. If
// it were longer, a member that lost an update would be behind for longer.
func (t timing) realignInterval() time.Duration { return t.HeartbeatInterval / 2 }

// aloneInterval is LeaseTimeout / 2: a leader that has no other member and no other seed
// mayExtend its lease by looking at it so often. It must be shorter than leaseMargin, or its
// authority would end between two looks. If it were shorter, it would wake up for nothing.
func (t timing) aloneInterval() time.Duration { return t.LeaseTimeout / 2 }

// leaseMargin is LeaseTimeout x 9/10: (S) a leader counts on the support of a follower for so
// long from the stamp which that echoed (section 5). If it were longer, a follower whose
// clock is faster could support another leader while this one still believes in its lease. If
// it were shorter, authority would end sooner when the network falls silent.
func (t timing) leaseMargin() time.Duration { return message.LeaseMargin(t.LeaseTimeout) }

// holdMargin is HoldTimeout x 9/10: (S) an owner trusts its records for so long from the
// keep-alive that the leader answered (section 10), for the reason of leaseMargin.
func (t timing) holdMargin() time.Duration { return message.LeaseMargin(t.HoldTimeout()) }

// onlyExtenderTimeout is HoldTimeout - LeaseTimeout: (S) who has followed one leader for so
// long knows, when that leader's lease ends as well, that no owner trusts its records by the
// acks of an earlier leader (section 10). If it were shorter, a new leader could end records
// which their owner still trusts. If it were longer, records of owners that are gone would
// more often stay for a whole HoldTimeout after a leader was lost.
func (t timing) onlyExtenderTimeout() time.Duration { return t.HoldTimeout() - t.LeaseTimeout }

// Elections.

// maxRank limits how many members before a node in the roster make it wait: also in a large
// cluster whose first voters are down the next one asks soon.
const maxRank = 8

// voteTimeout is HeartbeatInterval x (1 + fails), where fails is the number of failures in a row
// and counts up to paxos.MaxFailures: a voter waits so long for the answers to a question or a
// proposal (section 6, 2 and 7). If it did not grow, no election would succeed when a round trip
// takes longer than HeartbeatInterval. If it were longer from the start, a lost message would
// delay the election for longer.
func (t timing) voteTimeout(fails int) time.Duration {
	return t.HeartbeatInterval * time.Duration(1+min(fails, paxos.MaxFailures))
}

// againTimeout is HeartbeatInterval / 4 x rank x fails, with the rank in the roster up to maxRank:
// a proposer that failed waits so long, and a random part of againJitter, before it proposes
// again (section 6, 7). If it were shorter than a proposal takes, contenders would keep
// interrupting each other. If it were longer, the next attempt would start later.
func (t timing) againTimeout(rank, fails int) time.Duration {
	return t.HeartbeatInterval / 4 * time.Duration(min(rank, maxRank)*fails)
}

// againJitter is HeartbeatInterval / 2 x fails: it separates contenders that do not agree on
// their ranks, since they hold different rosters. The costs are those of againTimeout.
func (t timing) againJitter(fails int) time.Duration {
	return t.HeartbeatInterval / 4 * time.Duration(2*fails)
}

// inquiryTurn is HeartbeatInterval / 20 for each voter before this one: all voters miss a leader
// that died at one instant, and ask in turn (section 6, 2). If a turn were shorter than a
// message takes, two voters would ask and propose together, and both could fail. If it were
// longer, an election would take longer where the first voters are down too.
func (t timing) inquiryTurn(before int) time.Duration {
	return t.HeartbeatInterval / 20 * time.Duration(before)
}

// refusedTurn is HeartbeatInterval / 20: a follower whose leader's host refused its port asks the
// others so much later, when they know as well (section 6, a process that died). If it were
// shorter, they would answer that the leader is healthy. If it were longer, the next leader
// would be elected later.
func (t timing) refusedTurn() time.Duration { return t.HeartbeatInterval / 20 }

// successorTimeout is 2 x HeartbeatInterval: the followers of a leader that handed over leave
// its successor so much time before they ask for an election (section 6, leaving leader). If
// it were shorter, they would compete with the successor. If it were longer, they would be
// without a leader for longer when the hand-over fails.
func (t timing) successorTimeout() time.Duration { return 2 * t.HeartbeatInterval }

// handOverInterval is HeartbeatInterval / 2: a leader that hands over proposes a successor
// again so often while no proposal is under way (section 6, leaving leader). If it were
// shorter, it would propose again before the voters can have changed. If it were longer, a
// hand-over whose first proposal failed would take longer.
func (t timing) handOverInterval() time.Duration { return t.HeartbeatInterval / 2 }

// drainedTimeout is 2 x LeaderTimeout: a drained voter stands for election when there has been
// no chosen leader for so long, and in its turn (section 6, drained). If it were shorter, it
// would be elected although another voter is about to be. If it were longer, a cluster whose
// undrained voters are down would be without a leader for longer.
func (t timing) drainedTimeout() time.Duration { return 2 * t.LeaderTimeout }

// probeTimeout is HeartbeatInterval x 11/10: a follower asks the host of its leader whether the
// process is there when an ack is late by a tenth (section 6, a process that died). If it were
// shorter, it would probe in a cluster at rest. If it were longer, a crash would be noticed
// later.
func (t timing) probeTimeout() time.Duration {
	return t.HeartbeatInterval + t.HeartbeatInterval/10
}

// probeInterval is HeartbeatInterval / 4: the host is asked again so often until an ack comes,
// since a probe or its refusal may be lost. If it were shorter, there would be more probes;
// if it were longer, a lost one would delay the election for longer.
func (t timing) probeInterval() time.Duration { return t.HeartbeatInterval / 4 }
