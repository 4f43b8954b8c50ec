// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/paxos"
)

// timing derives all other durations of this package from the configured ones: no other file
// multiplies, divides or adds them. Each comment gives the formula, the reason, and the effect of
// a shorter or longer value. Numbers in parentheses are sections of protocol.md. Values marked
// (S) are needed for safety; the others affect only delays and the number of messages.
//
// A node that accepts a second set of timings waits for the longer of each timing, which is the
// embedded one, sends heartbeats at the shorter interval, and leads by its own lease (8; why the
// state has no timings: docs/decisions/019-timings.md).
type timing struct {
	message.Timings
	own, shorter message.Timings
}

func newTiming(own, other message.Timings) timing {
	return timing{own.Longer(other), own, own.Shorter(other)}
}

// changes reports whether this node accepts a second set, because an operator changes the timings.
func (t timing) changes() bool { return t.shorter != t.Timings }

// Start and join.

// fewSeeds is the greatest number of seeds that all ask each other immediately (4).
const fewSeeds = 5

// roundJitter is RetryInterval / 4, the upper bound of the random part of a round (4). It separates
// nodes that started together and ask the same seed. A shorter jitter separates them more slowly; a
// longer one delays everything that takes a round.
func (t timing) roundJitter() time.Duration { return t.RetryInterval / 4 }

// longestRound is RetryInterval + roundJitter. A node that received the answer "no leader" is
// notified of a leader that is found within this time (4). With a shorter time the node learns of
// the leader one round later. With a longer time the node's round may be over, and it drops the
// message.
func (t timing) longestRound() time.Duration { return t.RetryInterval + t.roundJitter() }

// widenTimeout is RetryInterval / 2: how long a node waits for the greatest seed before it asks
// further seeds in the same round (4). A shorter time opens needless connections, above all on a
// busy machine; a longer one delays joining if the greatest seed is dead.
func (t timing) widenTimeout() time.Duration { return t.RetryInterval / 2 }

// turnTimeout is how long a seed waits before it asks all others, if there are many seeds. It is
// widenTimeout plus a turn for each seed with a greater address except one (4). A turn is
// widenTimeout, or TTLTimeout / seeds if that is shorter. With shorter turns, all seeds on a
// machine that is too busy to answer in time declare themselves leader together. With longer turns,
// the turns of a minority of the seeds exceed TTLTimeout / 2, and after TTLTimeout all remaining
// seeds declare themselves leader.
func (t timing) turnTimeout(greater, seeds int) time.Duration {
	turn := min(t.widenTimeout(), t.TTLTimeout/time.Duration(seeds))
	return t.widenTimeout() + turn*time.Duration(max(greater-1, 0))
}

// answerLifetime is longestRound + RetryInterval: how long the answer of a seed counts. Within this
// time the seed can be asked again and has a RetryInterval to answer (4). With a shorter time a
// slow seed does not count, and a seed with a lower address declares itself leader too. With a
// longer time a dead seed delays the others.
func (t timing) answerLifetime() time.Duration { return t.longestRound() + t.RetryInterval }

// namedLeaderTimeout is 2 x RetryInterval: after another node named a leader, a seed does not
// declare itself leader for this time, and can ask that leader twice (6, fewer than M alive). With
// a shorter time the seed declares itself leader although a slow leader exists; with a longer time
// it waits for a dead leader.
func (t timing) namedLeaderTimeout() time.Duration { return 2 * t.RetryInterval }

// declareTimeout is TTLTimeout, or 3 x TTLTimeout if the seed holds a state, whose voters may still
// elect a leader. A seed that has had no chosen leader for this time declares itself leader in any
// case (4, 6; the original design). With a shorter time provisional leaders appear during
// elections, and nodes join twice; with a longer time a minority has no leader at all for longer.
func (t timing) declareTimeout(holdsState bool) time.Duration {
	if holdsState {
		return 3 * t.TTLTimeout
	}
	return t.TTLTimeout
}

// gatherTimeout is HeartbeatInterval / 2: a founder waits until no member has joined for this time
// (4). With a shorter time, members that start together join after the founding, and each of them
// costs two revisions that all nodes store. A longer time delays every founding with an incomplete
// roster.
func (t timing) gatherTimeout() time.Duration { return t.HeartbeatInterval / 2 }

// stateInterval is HeartbeatInterval / 2, for more than ten members HeartbeatInterval / 20 for
// each. It is the minimum time between two whole states that a provisional leader sends because
// of changes (4), or that a leader sends because a member has not shown the latest changes (5).
// If it is shorter, a leader sends its state to all members for each joining node. That work grows
// with the square of their number, and heartbeats wait behind states. If it is longer, members
// learn of each other later, and a member that lost an update stays behind for longer.
//
// With more than unpacedMembers members it is also the minimum time between two revisions that
// change statuses because of silence (3). More revisions would make a busy machine busier.
func (t timing) stateInterval(members int) time.Duration {
	return t.HeartbeatInterval / unpacedMembers / 2 * time.Duration(max(unpacedMembers, members))
}

// livelySilence is 2 x HeartbeatInterval. A preferred member that was silent for so long may be
// dead, so its leader does not hand over to it (6, preference).
func (t timing) livelySilence() time.Duration { return 2 * t.HeartbeatInterval }

func (t timing) countSilences(d time.Duration) time.Duration { return d / t.livelySilence() }

// unpacedMembers is the number of members up to which stateInterval does not grow.
const unpacedMembers = 10

// waitingTimeout is 2 x RetryInterval: a leader forgets a waiting joiner that has not repeated its
// request within this time (3). It must exceed longestRound, within which a joiner repeats its
// request. With a much longer time a place may go to a joiner that no longer exists.
func (t timing) waitingTimeout() time.Duration { return 2 * t.RetryInterval }

// Keep-alive, support and lease.

// unaskedTimeout is HeartbeatInterval x 3/2: a follower that has sent no keep-alive for this time
// sends one without waiting for an ack. The leader then considers the follower late (5). At
// HeartbeatInterval or below, keep-alives would cross acks on their way. The time must stay below
// HeartbeatTimeout, which is at least 2 x HeartbeatInterval, because otherwise one lost ack would
// make a member unreachable.
func (t timing) unaskedTimeout() time.Duration {
	return t.HeartbeatInterval + t.HeartbeatInterval/2
}

// answerInterval is HeartbeatInterval x 3/4: a follower answers an ack only if its stamp is at
// least this much newer than the last stamp that the follower echoed (5). With a shorter time it
// answers more of the acks that follow a commit, and the lease gains nothing. At HeartbeatInterval
// or above, acks on time get no answer, and the lease is extended half as often.
func (t timing) answerInterval() time.Duration { return t.shorter.HeartbeatInterval / 4 * 3 }

// workerInterval is HoldTimeout / 12: how often a worker sends a keep-alive through a member (10).
// Its trust must outlast an election and the way to another member. A shorter time costs the leader
// more packets. given is the HoldTimeout in the newest ack, or 0: the timings of the cluster may be
// shorter.
func (t timing) workerInterval(given time.Duration) time.Duration {
	return shorterHold(t.shorter, given) / 12
}

// aloneInterval is LeaseTimeout / 2: how often a leader without any other member or seed renews its
// lease. It must be below leaseMargin, or authority ends between two renewals; a shorter time only
// wakes the process more often.
func (t timing) aloneInterval() time.Duration { return t.shorter.LeaseTimeout / 2 }

// leaseMargin is LeaseTimeout x 9/10: (S) how long after an echoed stamp a leader counts on the
// support of that follower (5). With a longer time a follower with a faster clock could support
// another leader while this one still trusts its lease; with a shorter time authority ends sooner
// when the network fails. Of two sets it is that of the node's own, which each follower accepts and
// so supports for; by a longer one, a follower that accepts only the shorter could support another.
func (t timing) leaseMargin() time.Duration { return message.LeaseMargin(t.own.LeaseTimeout) }

// heartbeatPause is HeartbeatInterval: how often a leader sends acks (5). Of two sets it is the
// shorter one, because a follower may lead by it soon. With the longer one, a follower that accepts
// only the shorter would miss its leader.
func (t timing) heartbeatPause() time.Duration { return t.shorter.HeartbeatInterval }

// selfMargin is LeaseTimeout x 9/10: (S) how long a leader trusts its own records after an instant
// at which it had authority (10). With two sets it is at most the shorter HoldTimeout x 9/10: the
// next leader may accept only the set with the shorter one, and then drops records after it.
func (t timing) selfMargin() time.Duration {
	return message.LeaseMargin(min(t.own.LeaseTimeout, t.shorter.HoldTimeout()))
}

// holdMargin is HoldTimeout x 9/10: (S) how long an owner trusts its records after it sent a
// keep-alive that the leader answered (10). The reason is the same as for leaseMargin. given is for
// how long a leader with two sets extends at most; 0 if it has one.
func (t timing) holdMargin(given time.Duration) time.Duration {
	return message.LeaseMargin(shorterHold(t.own, given))
}

func shorterHold(own message.Timings, given time.Duration) time.Duration {
	if given > 0 {
		return min(own.HoldTimeout(), given)
	}
	return own.HoldTimeout()
}

// givenHold is the shorter HoldTimeout of two sets: (S) for how long a leader extends records at
// most (10). The next leader may accept only the set with the shorter one, and then drops records
// after it. It is 0 with one set.
func (t timing) givenHold() time.Duration {
	if !t.changes() {
		return 0
	}
	return t.shorter.HoldTimeout()
}

// onlyExtenderTimeout is HoldTimeout - LeaseTimeout. (S) Once a node has followed one leader for
// this time and that leader's lease has ended, acks of earlier leaders no longer extend any owner's
// trust (10). With a shorter time a new leader could drop records that are still trusted; with a
// longer time it more often keeps the records of dead owners for a HoldTimeout.
func (t timing) onlyExtenderTimeout() time.Duration { return t.HoldTimeout() - t.LeaseTimeout }

// Elections.

// maxRank limits the number of preceding members in the roster for which a node waits. So the wait
// stays short in a large cluster whose first voters are down.
const maxRank = 8

// smallSize is the greatest size of a cluster in which all voters ask in turn. In a larger one they
// also wait for those that ask before them (6, 2). In a small one that would only delay the
// election if the first voter is lost while it asks.
const smallSize = 7

// preparedVoters is the number of members to which each voter keeps a connection, because they are
// the first to ask for an election (8). With fewer, an election is slow if these members were lost
// together with the leader; with more, each voter has more connections.
const preparedVoters = 3

// voteTimeout is HeartbeatInterval x (1 + fails): how long a voter waits for the answers to a query
// or proposal. fails is its number of failures in a row, at most paxos.MaxFailures (6, 2 and 7). If
// it did not grow, no election would succeed with a round trip above HeartbeatInterval. If its
// first value were longer, a lost message would delay the election for longer.
func (t timing) voteTimeout(fails int) time.Duration {
	return t.HeartbeatInterval * time.Duration(1+min(fails, paxos.MaxFailures))
}

// outlastSaves is the wait, but at least 4 x save and that at most TTLTimeout: how long a node
// waits for others whose saves take that long (6, slow disks). A follower that gets two revisions
// saves twice before its answer, perhaps for twice as long as this node. With a shorter time no
// attempt succeeds on slow disks; with a longer one, a node with a slow disk waits longer for dead
// nodes.
func (t timing) outlastSaves(wait, save time.Duration) time.Duration {
	return max(wait, min(4*save, t.TTLTimeout))
}

// outlastVotes is outlastSaves with 6 x save: how long a proposer waits for votes (6, slow disks).
// A voter that three proposers asked saves three times before its vote, and each of these saves may
// take twice as long as the last one of the proposer.
func (t timing) outlastVotes(wait, save time.Duration) time.Duration {
	return t.outlastSaves(wait, save+save/2)
}

// nextSave is how long the next save may take after one that took so long: as long, but at least
// before / 2. Without the second part a single fast save on a slow disk would make the next attempt
// too short; with a greater part a disk that stalled once delays elections for longer.
func (t timing) nextSave(took, before time.Duration) time.Duration { return max(took, before/2) }

// againTimeout is HeartbeatInterval / 4 x rank x fails, with rank up to maxRank: how long a
// proposer pauses after a failure. A random part of againJitter is added (6, 7). If it is shorter
// than a proposal takes, contenders keep interrupting each other; if it is longer, the next attempt
// starts later.
func (t timing) againTimeout(rank, fails int) time.Duration {
	return t.HeartbeatInterval / 4 * time.Duration(min(rank, maxRank)*fails)
}

// againJitter is HeartbeatInterval / 2 x fails. It separates contenders that hold different rosters
// and so do not agree on their ranks.
func (t timing) againJitter(fails int) time.Duration {
	return t.HeartbeatInterval / 4 * time.Duration(2*fails)
}

// inquiryTurn is HeartbeatInterval / 20 for each voter before this one. All voters lose a leader at
// the same instant, and ask in turn (6, 2). If a turn is shorter than a message takes, two voters
// propose together and may both fail. Longer turns delay the election if the first voters are down
// too.
func (t timing) inquiryTurn(before int) time.Duration {
	return t.HeartbeatInterval / 20 * time.Duration(before)
}

// preferenceTurn is HeartbeatInterval / 4: how much later a voter asks if a more preferred voter
// may ask (6, 2). If it is too short, a less preferred voter that misses the leader early is
// elected; if it is too long, a failover without preferred voters takes long.
func (t timing) preferenceTurn() time.Duration { return t.HeartbeatInterval / 4 }

// yieldTime is HeartbeatInterval / 4: how much longer than its turn a voter waits when a voter
// before it asks (6, 2). If it is too short, both propose if the machines are busy; if it is too
// long, an election takes long if the first voter is lost, too.
func (t timing) yieldTime() time.Duration { return t.HeartbeatInterval / 4 }

// preferencePause is twice the last pause of a preferred member, at most 30 x TTLTimeout: how long
// it is not preferred after it led for less than this time (6, preference). The first pause is
// twice HandOverToPreferred. With shorter pauses a member that cannot lead changes the leader more
// often; with longer ones it is preferred later when it can lead again.
func (t timing) preferencePause(last time.Duration) time.Duration {
	return min(2*last, max(last, 30*t.TTLTimeout))
}

// endedTurn is HeartbeatInterval / 20. After its leader's host refused the port, or the leader gave
// up its leadership without a successor, a follower waits for this time before it asks the other
// voters (6, leaving leader, a process that died). With a shorter wait the others still consider
// the leader healthy; a longer one delays the election.
func (t timing) endedTurn() time.Duration { return t.HeartbeatInterval / 20 }

// successorTimeout is 2 x HeartbeatInterval. After a leader handed over, its followers wait for its
// successor for this time before they ask for an election (6, leaving leader). With a shorter time
// they compete with the successor; a longer one extends the gap if the hand-over fails.
func (t timing) successorTimeout() time.Duration { return 2 * t.HeartbeatInterval }

// handOverInterval is HeartbeatInterval / 2: the pause between two proposals of a successor (6,
// leaving leader). With a shorter pause the voters' answers cannot have changed yet; a longer one
// delays a hand-over whose first proposal failed.
func (t timing) handOverInterval() time.Duration { return t.HeartbeatInterval / 2 }

// drainedTimeout is 2 x LeaderTimeout: a drained voter stands for election only after it has had no
// chosen leader for this time (6, drained). With a shorter time it may be elected shortly before
// another voter would be; a longer one extends the gap if all other voters are down.
func (t timing) drainedTimeout() time.Duration { return 2 * t.LeaderTimeout }

// probeTimeout is HeartbeatInterval x 11/10: a follower probes its leader's host when an ack is a
// tenth of an interval late (6, a process that died). A shorter time sends probes in an idle
// cluster; a longer time delays the detection of a crash.
func (t timing) probeTimeout() time.Duration {
	return t.HeartbeatInterval + t.HeartbeatInterval/10
}

// probeInterval is HeartbeatInterval / 4: the time between probes until an ack arrives, since a
// probe or its refusal may be lost. A shorter time sends more probes; a longer time delays the
// election after a loss.
func (t timing) probeInterval() time.Duration { return t.HeartbeatInterval / 4 }
