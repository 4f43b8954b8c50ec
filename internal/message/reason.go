// SPDX-License-Identifier: Apache-2.0

package message

import "fmt"

// Reason names why an event was refused or dropped. Every refusal of the state
// machine has one; those in votes and join responses travel to the peer. The
// numbers are part of the wire format: new reasons are appended.
type Reason uint8

// The reasons.
const (
	// ReasonNone is no refusal.
	ReasonNone Reason = iota

	// Any event.

	// ReasonOwnAddress drops an event that claims to come from this address.
	ReasonOwnAddress
	// ReasonEarlierRun drops an event of a run older than one heard before.
	ReasonEarlierRun
	// ReasonNotAddressed drops an event for another address.
	ReasonNotAddressed
	// ReasonOtherCluster drops an event of a node that holds the state of another
	// cluster.
	ReasonOtherCluster

	// Discovery and joining.

	// ReasonOtherQuery drops an answer to a question that is no longer open.
	ReasonOtherQuery
	// ReasonNotJoining drops an answer to a join that was not asked for.
	ReasonNotJoining
	// ReasonNotLeader refuses what only a leader does.
	ReasonNotLeader
	// ReasonClusterFull refuses a joiner: N members have their seats.
	ReasonClusterFull
	// ReasonOldIncarnation refuses a joiner whose address is known under a
	// later run.
	ReasonOldIncarnation
	// ReasonNotSettled lets a joiner wait until the present change of voters
	// is committed.
	ReasonNotSettled
	// ReasonHoldsState refuses one that holds a state at a provisional leader
	// that holds none.
	ReasonHoldsState
	// ReasonNotMember refuses a stranger at a provisional leader that holds a
	// roster.
	ReasonNotMember
	// ReasonLeaderBound refuses a change by a leader bound to a later version, or that
	// has to lead a later one first.
	ReasonLeaderBound
	// ReasonQuorumAtStake keeps the vote of an old store until M other voters
	// are heard.
	ReasonQuorumAtStake

	// Keep-alive and state.

	// ReasonOtherLeader drops what does not come from the leader followed.
	ReasonOtherLeader
	// ReasonOtherVersion drops what belongs to another version.
	ReasonOtherVersion
	// ReasonUnknownRun answers a keep-alive without a stamp: the state does
	// not have this run of the follower.
	ReasonUnknownRun
	// ReasonBound drops what is below the version that the node is bound to.
	ReasonBound
	// ReasonOldState drops a state that is not newer than the held one.
	ReasonOldState
	// ReasonRevisionGap drops an update that does not follow the held state.
	ReasonRevisionGap
	// ReasonForeignEcho ignores an echo of another leadership or run.
	ReasonForeignEcho
	// ReasonUnknownMember drops what concerns no member of the state.
	ReasonUnknownMember

	// Conflict.

	// ReasonWorseClaim drops a claim that loses against the one followed.
	ReasonWorseClaim

	// Election.

	// ReasonOldVersion refuses a proposal not above the held version.
	ReasonOldVersion
	// ReasonPromised refuses a proposal below the promise.
	ReasonPromised
	// ReasonSupports refuses a proposal while the voter supports a leader.
	ReasonSupports
	// ReasonHealthyLeader refuses a pre proposal: the leader is healthy.
	ReasonHealthyLeader
	// ReasonStartWait refuses a proposal soon after a start.
	ReasonStartWait
	// ReasonNotVoter refuses a proposer that is no voter of the held state.
	ReasonNotVoter
	// ReasonOldBase refuses a value built on less than the voter holds.
	ReasonOldBase
	// ReasonLeaseRuns refuses a formal proposal at a leader with a lease.
	ReasonLeaseRuns
	// ReasonJoinOnly refuses a founding at a node that may only join.
	ReasonJoinOnly
	// ReasonOtherSeeds refuses a founding with another list of seeds.
	ReasonOtherSeeds
	// ReasonOtherBallot drops a vote for another proposal or stage.
	ReasonOtherBallot
	// ReasonVotedTwice drops a second vote of one voter.
	ReasonVotedTwice
	// ReasonRepeated drops a proposal that was answered before.
	ReasonRepeated
	// ReasonNotCandidate drops a proposal or a state that no leader of this
	// cluster could have made.
	ReasonNotCandidate
	// ReasonVersionJump refuses a version that no election can have reached: it lies
	// too far above the one before.
	ReasonVersionJump
	// ReasonHoldsNothing refuses a proposal that is no founding: the voter holds
	// no state, and could not take the proposer's.
	ReasonHoldsNothing

	// ReasonPortRefused gives a leader up whose host refuses its port.
	ReasonPortRefused

	// Records.

	// ReasonConflict refuses a request of which a condition does not hold.
	ReasonConflict
	// ReasonOwned refuses to set a record that another run owns.
	ReasonOwned
	// ReasonNotActive refuses a request of one that is no active member.
	ReasonNotActive
	// ReasonTooLarge refuses a request beyond the limits of records.
	ReasonTooLarge
	// ReasonBusy refuses a request because too many wait.
	ReasonBusy
	// ReasonNoQuorum refuses a request where no leader has authority.
	ReasonNoQuorum
	// ReasonUnknown ends a request that may or may not have been taken.
	ReasonUnknown

	// Reasons counts the reasons.
	Reasons
)

var reasonNames = [Reasons]string{
	"none", "own address", "earlier run", "not addressed",
	"other cluster",
	"other query", "not joining", "not leader", "cluster full", "old incarnation", "not settled",
	"holds state", "not member", "leader bound", "quorum at stake",
	"other leader", "other version", "unknown run", "bound", "old state", "revision gap",
	"foreign echo", "unknown member", "worse claim",
	"old version", "promised", "supports", "healthy leader", "start wait", "not voter", "old base",
	"lease runs", "join only", "other seeds", "other ballot", "voted twice", "repeated",
	"not candidate", "version jump", "holds nothing", "port refused",
	"conflict", "owned", "not active", "too large", "busy", "no quorum", "unknown",
}

// String is the name of the reason as logs and metrics write it.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
