// SPDX-License-Identifier: Apache-2.0

package message

import "fmt"

// Reason is why an event was refused or dropped. Every refusal of the state machine has one.
// Reasons in votes and responses are sent to the peer. The numbers are part of the wire format: new
// reasons are appended.
type Reason uint8

// The reasons.
const (
	// ReasonNone means that there is no refusal.
	ReasonNone Reason = iota

	// Any event.

	// ReasonOwnAddress drops an event that claims to be from this node's address.
	ReasonOwnAddress
	// ReasonEarlierRun drops an event from an earlier run than the latest known one.
	ReasonEarlierRun
	// ReasonNotAddressed drops an event for another address.
	ReasonNotAddressed
	// ReasonOtherCluster drops an event from a node with the state of another cluster.
	ReasonOtherCluster

	// Discovery and joining.

	// ReasonOtherQuery drops the answer to a query that is no longer pending.
	ReasonOtherQuery
	// ReasonNotJoining drops an answer to a join that this node did not request.
	ReasonNotJoining
	// ReasonNotLeader refuses a request that only a leader can serve.
	ReasonNotLeader
	// ReasonClusterFull refuses a joiner because N members have seats.
	ReasonClusterFull
	// ReasonOldIncarnation refuses a joiner whose address has a later run.
	ReasonOldIncarnation
	// ReasonNotSettled delays a joiner until the pending change of voters is committed.
	ReasonNotSettled
	// ReasonHoldsState refuses a joiner that holds a state at a provisional leader that holds none.
	ReasonHoldsState
	// ReasonNotMember refuses a node outside the roster of a provisional leader.
	ReasonNotMember
	// ReasonLeaderBound refuses a change because the leader is bound to a later version, or must
	// lead a later version first.
	ReasonLeaderBound
	// ReasonQuorumAtStake delays the removal of an old store's vote until this node has heard M
	// other voters.
	ReasonQuorumAtStake

	// Keep-alive and state.

	// ReasonOtherLeader drops an event that is not from the leader that this node follows.
	ReasonOtherLeader
	// ReasonOtherVersion drops an event of another version.
	ReasonOtherVersion
	// ReasonUnknownRun answers a keep-alive without a stamp because the state does not list this
	// run of the follower.
	ReasonUnknownRun
	// ReasonBound drops an event below the version that the node is bound to.
	ReasonBound
	// ReasonOldState drops a state that is not newer than the held one.
	ReasonOldState
	// ReasonRevisionGap drops an update that does not follow the held state.
	ReasonRevisionGap
	// ReasonForeignEcho ignores an echo of another leadership or run.
	ReasonForeignEcho
	// ReasonUnknownMember drops an event about a node outside the roster.
	ReasonUnknownMember

	// Conflict.

	// ReasonWorseClaim drops a claim that is worse than that of the leader followed.
	ReasonWorseClaim

	// Election.

	// ReasonOldVersion refuses a proposal that is not above the held version.
	ReasonOldVersion
	// ReasonPromised refuses a proposal below the promise.
	ReasonPromised
	// ReasonSupports refuses a proposal while the voter supports a leader.
	ReasonSupports
	// ReasonHealthyLeader refuses a pre proposal because the leader is healthy.
	ReasonHealthyLeader
	// ReasonStartWait refuses a proposal during the wait after a start.
	ReasonStartWait
	// ReasonNotVoter refuses a proposer that is not a voter of the held state.
	ReasonNotVoter
	// ReasonOldBase refuses a value built on an older state than the voter holds.
	ReasonOldBase
	// ReasonLeaseRuns refuses a formal proposal at a leader whose lease runs.
	ReasonLeaseRuns
	// ReasonJoinOnly refuses a founding at a node that may only join.
	ReasonJoinOnly
	// ReasonOtherSeeds refuses a founding with another list of seeds.
	ReasonOtherSeeds
	// ReasonOtherBallot drops a vote for another proposal or stage.
	ReasonOtherBallot
	// ReasonVotedTwice drops a second vote from the same voter.
	ReasonVotedTwice
	// ReasonRepeated drops a proposal that was answered before.
	ReasonRepeated
	// ReasonNotCandidate drops a proposal or a state that no leader of this cluster can
	// have made.
	ReasonNotCandidate
	// ReasonVersionJump refuses a version so far above the held one that no election can have
	// reached it.
	ReasonVersionJump
	// ReasonHoldsNothing refuses a proposal, other than a founding, at a voter that holds no state
	// and could not take the proposer's.
	ReasonHoldsNothing

	// ReasonPortRefused gives up a leader whose host refuses the leader's port.
	ReasonPortRefused

	// Records.

	// ReasonConflict refuses a request whose conditions do not hold.
	ReasonConflict
	// ReasonOwned refuses to set a record that another run owns.
	ReasonOwned
	// ReasonNotActive refuses a request from a node that is not an active member.
	ReasonNotActive
	// ReasonTooLarge refuses a request that exceeds the limits of records.
	ReasonTooLarge
	// ReasonBusy refuses a request because too many are waiting.
	ReasonBusy
	// ReasonNoQuorum refuses a request because no leader has authority.
	ReasonNoQuorum
	// ReasonUnknown ends a request that may or may not have been executed.
	ReasonUnknown

	// Reasons is the number of reasons.
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

// String returns the name of the reason as it appears in logs and metrics.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
