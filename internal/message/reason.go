// SPDX-License-Identifier: Apache-2.0

package message

import "fmt"

// Reason is why an event was refused or dropped. Every refusal of the state machine has a reason.
// Reasons in votes and responses are sent to the peer. The numbers are part of the wire format: new
// reasons are appended.
type Reason uint8

// The reasons.
const (
	// ReasonNone means that there is no refusal.
	ReasonNone Reason = iota

	// Any event.

	// ReasonOwnAddress means that an event claims to be from this node's address.
	ReasonOwnAddress
	// ReasonEarlierRun means that an event is from an earlier run than the latest known run.
	ReasonEarlierRun
	// ReasonNotAddressed means that an event is for another address.
	ReasonNotAddressed
	// ReasonOtherCluster means that the sender holds the state of another cluster.
	ReasonOtherCluster

	// Discovery and joining.

	// ReasonOtherQuery means that an answer is to a query that is no longer pending.
	ReasonOtherQuery
	// ReasonNotJoining means that an answer is to a join that this node did not request.
	ReasonNotJoining
	// ReasonNotLeader means that only a leader can serve the request.
	ReasonNotLeader
	// ReasonClusterFull means that N members have seats already.
	ReasonClusterFull
	// ReasonOldIncarnation means that the joiner's address has a later run.
	ReasonOldIncarnation
	// ReasonNotSettled means that a joiner has to wait until the pending change of voters is
	// committed.
	ReasonNotSettled
	// ReasonHoldsState means that a joiner holds a state but the provisional leader holds none.
	ReasonHoldsState
	// ReasonNotMember means that a node is not in the roster of the provisional leader.
	ReasonNotMember
	// ReasonLeaderBound means that the leader may not make changes, because it is bound to a later
	// version or must lead a later version first.
	ReasonLeaderBound
	// ReasonQuorumAtStake means that this node has heard fewer than M other voters. Until then, it
	// does not remove the vote of an old store.
	ReasonQuorumAtStake

	// Keep-alive and state.

	// ReasonOtherLeader means that an event is not from the leader that this node follows.
	ReasonOtherLeader
	// ReasonOtherVersion means that an event belongs to another version.
	ReasonOtherVersion
	// ReasonUnknownRun means that a keep-alive is answered without a stamp because the state does not
	// list this run of the follower.
	ReasonUnknownRun
	// ReasonBound means that an event is below the version that the node is bound to.
	ReasonBound
	// ReasonOldState means that a state is not newer than the held state.
	ReasonOldState
	// ReasonRevisionGap means that an update does not follow the held state.
	ReasonRevisionGap
	// ReasonForeignEcho means that an echo belongs to another leadership or run.
	ReasonForeignEcho
	// ReasonUnknownMember means that an event is about a node outside the roster.
	ReasonUnknownMember

	// Conflict.

	// ReasonWorseClaim means that a claim is worse than the claim of the leader that this node
	// follows.
	ReasonWorseClaim

	// Election.

	// ReasonOldVersion means that a proposal is not above the held version.
	ReasonOldVersion
	// ReasonPromised means that a proposal is below the promise.
	ReasonPromised
	// ReasonSupports means that the voter supports another leader.
	ReasonSupports
	// ReasonHealthyLeader means that a pre proposal came while the leader was healthy.
	ReasonHealthyLeader
	// ReasonStartWait means that the voter has started recently and must wait before it votes.
	ReasonStartWait
	// ReasonNotVoter means that the proposer is not a voter of the held state.
	ReasonNotVoter
	// ReasonOldBase means that a value is built on an older state than the voter holds.
	ReasonOldBase
	// ReasonLeaseRuns means that the voter is itself a leader whose lease is running.
	ReasonLeaseRuns
	// ReasonJoinOnly means that the node may only join. It may not vote in a founding.
	ReasonJoinOnly
	// ReasonOtherSeeds means that a founding has another list of seeds.
	ReasonOtherSeeds
	// ReasonOtherBallot means that a vote is for another proposal or stage.
	ReasonOtherBallot
	// ReasonVotedTwice means that the voter has voted before.
	ReasonVotedTwice
	// ReasonRepeated means that the proposal was answered before.
	ReasonRepeated
	// ReasonNotCandidate means that no leader of this cluster can have made the proposal or state.
	ReasonNotCandidate
	// ReasonVersionJump means that a version is too far above the held version for any election to
	// have reached it.
	ReasonVersionJump
	// ReasonHoldsNothing means that the proposal is not a founding, and the voter has no state and
	// could not take the state of the proposer.
	ReasonHoldsNothing

	// ReasonPortRefused means that the node gave up the leader because the leader's host refuses the
	// port.
	ReasonPortRefused

	// Records.

	// ReasonConflict means that the conditions of a request do not hold.
	ReasonConflict
	// ReasonOwned means that a request would set a record that another run owns.
	ReasonOwned
	// ReasonNotActive means that the sender of a request is not an active member.
	ReasonNotActive
	// ReasonTooLarge means that a request exceeds the limits of records.
	ReasonTooLarge
	// ReasonBusy means that too many requests are waiting.
	ReasonBusy
	// ReasonNoQuorum means that no leader has authority.
	ReasonNoQuorum
	// ReasonUnknown means that a request may or may not have been executed.
	ReasonUnknown

	// Identity.

	// ReasonAddressHeld means that a process with another store has the joiner's address, and was
	// heard within HeartbeatTimeout.
	ReasonAddressHeld
	// ReasonRunJump means that the incarnation of a joiner is too far above that of the leader: one of
	// the two clocks is wrong by centuries.
	ReasonRunJump

	// ReasonTableFull means that a request would overfill the table of records.
	ReasonTableFull

	// Copies.

	// ReasonRestored means that the store of the joiner has forgotten what it showed before: it was
	// restored from a copy.
	ReasonRestored
	// ReasonLaterState means that the receiver holds a later state than the leader with authority: the
	// stores of a majority were restored from copies.
	ReasonLaterState

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
	"address held", "run jump", "table full", "restored", "later state",
}

// String returns the name of the reason as it appears in logs and metrics.
func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
