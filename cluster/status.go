// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Status is the state of a node at one moment, for people and monitoring.
type Status struct {
	Cluster string
	// ClusterID is generated when a cluster is founded. It distinguishes the cluster from others of
	// the same name. It is zero until this node has founded the cluster or joined it.
	ClusterID member.ClusterID
	Size      int
	Quorum    int // number of members that must agree: Size/2 + 1
	Self      member.Member
	View      member.View // including Self and Role
	// Token is the token of the quorate leader; zero if there is none.
	Token member.Token
	// NoLeader explains in one line why there is no leader with authority. It names the nodes that
	// this node waits for, and the last answer of each. It is empty if there is a leader.
	NoLeader string
	// NotSaving explains in one line why this node cannot save its state, and so can neither vote nor
	// acknowledge changes: a write to its data directory has not ended within HeartbeatTimeout, or the
	// small test write failed that the node makes after 5 s without a save. It is empty if the node
	// can save, and for a store in memory.
	NotSaving string
	// SavePending is how long a write to the data directory has taken so far, or test writes failed.
	SavePending time.Duration
	// SaveTook is how long the last write to the data directory took; 0 before the first.
	SaveTook time.Duration
	// Provisional reports whether the leader of View is provisional: it declared itself, has no
	// authority, and its members may change when a leader is elected.
	Provisional bool
	// OtherSeeds are the peers whose list of Seeds differs from this node's, sorted. A peer is
	// removed once its list is the same. A peer that is neither a seed nor a member is also removed
	// after a minute of silence.
	OtherSeeds []member.Address
	// MissingSeeds are the seeds that are not active members, sorted, while there is a leader with
	// authority.
	MissingSeeds []MissingSeed
	// PeerFaults are faults of other nodes that this node has seen in the last two minutes, sorted: it
	// refuses the process at the address, or cannot dial it, though that process has connected. An
	// active member is also listed after this node has not been able to connect to it for 30 s.
	PeerFaults []PeerFault
	// LeaseRemaining is how long this node keeps its authority if its lease is not extended; 0 if the
	// node has no authority.
	LeaseRemaining time.Duration
	TermSince      time.Time // when the current term began on this node; zero without a term
	LastElection   Election
	// Elections are the last 32 changes of leader, oldest first; the last one is LastElection.
	// LeaderChanges counts all of them by cause.
	Elections     []Election
	LeaderChanges map[Cause]uint64
	// Leaderless is the total time during which this node knew no quorate leader. At the end of a
	// pause of this process, the time since the authority of the leader ended is added.
	Leaderless time.Duration
	// LeaderlessSince is when the quorate leader was lost; zero if there is one.
	LeaderlessSince time.Time
	// Silent are the seeds and members from which no message arrived for two RetryIntervals plus a
	// HeartbeatTimeout, sorted. Followers seldom send messages to each other.
	Silent []member.Address
	Counts Counts
	Uptime time.Duration
	// VoteWait is how long this run must still wait before it may vote for a new leader, because its
	// previous run may have supported another leader (protocol.md section 5). The wait lasts at most a
	// LeaseTimeout from the start; a node with a memory store that gives up a lost roster waits again.
	// The wait ends early if that leader hands over. During a rolling restart, wait until VoteWait is
	// 0 before you restart the next node.
	VoteWait time.Duration
	Drained  bool
	// RosterLost reports whether so many members have lost their stores that the roster of this
	// node can never elect a leader again (ErrRosterLost).
	RosterLost bool
	// Insecure reports whether the node has neither a secret nor a certificate.
	Insecure bool
	// CertificateExpires is when the certificate of TLSCert or a certificate in its chain expires,
	// whichever is first; zero without TLSCert.
	CertificateExpires time.Time
	// Dropped counts the dropped frames by reason. The reasons of events are "no handler",
	// "malformed event", "queue full", "answer not sent", "answer not awaited", "too many streams"
	// and "closed"; all others are reasons of the protocol. Reasons that have not occurred are
	// missing.
	Dropped map[string]uint64
	// Refused counts the votes and joins that this node refused, by the reason in the protocol.
	Refused   map[string]uint64
	Transport transport.Stats
	Peers     []transport.PeerState // in no particular order
	Receivers []receiver.Stats
}

// Status returns the current state of the node, which the caller may change. View.Quorate, Token,
// TermSince, LeaseRemaining and NoLeader are consistent with each other.
func (n *Node) Status() Status {
	current, now := *n.currentSnapshot(), n.clock()
	view := cloneView(current.view)
	// A timer ends the term before the view shows that the lease has ended. The fields below agree
	// because they all depend on a single check of the term.
	term, lease := current.liveTerm(), time.Duration(0)
	if term != nil && term.own {
		if lease = term.Remaining(); lease == 0 {
			term = nil
		}
	}
	if term == nil {
		current.term, view.Quorate = nil, false
	}
	s := Status{
		Cluster:     n.cfg.Cluster,
		ClusterID:   current.held.Cluster,
		Size:        n.cfg.Size,
		Quorum:      member.Quorum(n.cfg.Size),
		Self:        n.selfEntry(view, current.traits),
		View:        view,
		Provisional: current.provisional,
		Uptime:      now.Sub(n.started),
		VoteWait:    max(0, current.votesAt.Sub(now)),
		Drained:     n.drained.Load(),
		RosterLost:  current.rosterLost,
		Insecure:    n.cfg.Insecure,
		Transport:   n.net.Stats(),
		Peers:       n.net.Peers(),
		Receivers:   n.mux.Stats(),
	}
	if term != nil {
		s.Token, s.TermSince, s.LeaseRemaining = term.Term().Token(), term.began, lease
	}
	if c := n.credentials.Load(); c != nil && c.files != nil {
		s.CertificateExpires = c.files.Expires()
	}
	s.setReport(n.reporter.ReadReport(now, n.stateOf(&current, term)))
	s.Counts.Requests = convertKeys(n.messages.Requests(),
		func(r messaging.Requested) Requested { return Requested(r) })
	s.Counts.Lagged = n.hub.countLagged()
	return s
}

// MissingSeed is a seed that is not an active member.
type MissingSeed struct {
	Address member.Address
	// Why is the last answer of the seed to this node, or why it has sent none, in one line: "no
	// answer", "unknown host (no such host)". A follower that has no need to dial the seed knows less
	// than the leader.
	Why string
}

// PeerFault is a fault of another node as this node sees it.
type PeerFault struct {
	// Address is the one that the other node advertises.
	Address member.Address
	Why     string
}

// setReport sets the fields that package diagnosis provides.
func (s *Status) setReport(r diagnosis.Report) {
	s.NoLeader, s.OtherSeeds, s.Silent = r.NoLeader, r.OtherSeeds, r.Silent
	for _, m := range r.Missing {
		s.MissingSeeds = append(s.MissingSeeds, MissingSeed(m))
	}
	for _, f := range r.Faults {
		s.PeerFaults = append(s.PeerFaults, PeerFault(f))
	}
	s.NotSaving, s.SavePending, s.SaveTook = r.NotSaving, r.SavePending, r.SaveTook
	for _, e := range r.Elections {
		s.Elections = append(s.Elections, electionOf(e))
		s.LastElection = electionOf(e)
	}
	s.LeaderChanges = convertKeys(r.LeaderChanges, func(c diagnosis.Cause) Cause { return Cause(c) })
	s.Leaderless, s.LeaderlessSince = r.Leaderless, r.LeaderlessSince
	s.Dropped, s.Refused = r.Counts.Dropped, r.Counts.Refused
	s.Counts = countsOf(r.Counts)
}

// Counts holds the counters of a node since its start. Keys that are names, addresses or
// Transitions are missing until they occur; all other keys are present from the start.
type Counts struct {
	// Elections counts the elections that this node saw, by result: "won" (by this node),
	// "followed" (another node won), or "failed" (this node may propose again).
	Elections map[string]uint64
	// Proposals counts the proposals of this node.
	Proposals map[Proposal]uint64
	// Votes counts the answers of this node to the proposals of others.
	Votes map[Vote]uint64
	// Conflicts counts how often a better claim replaced a leader, by Election.Rule.
	Conflicts map[string]uint64
	// Missed counts late heartbeats by the member that was late. A follower counts the late heartbeats
	// of the leader, and the leader counts those of each follower. Removed members are left out.
	Missed map[member.Address]uint64
	// Transitions counts the changes of status that this node saw.
	Transitions map[Transition]uint64
	// Lagged counts how often a reader of Events began to lag.
	Lagged uint64
	// ClockSteps counts how often the wall clock was set forward. Each time, this node lost its
	// authority and its records until the other members confirmed them.
	ClockSteps uint64
	// Replaced counts how often this node, as the leader, gave the place of a member to another store
	// at the same address: the member had lost its store, or has a store in memory and was restarted.
	Replaced uint64
	// Copies counts how often this node found out that a data directory, its own or that of another
	// node, had been restored from an earlier copy.
	Copies uint64
	// Elected has the time without a leader for each change of leader, except for the first leader
	// after the start of the node.
	Elected receiver.Durations
	// Saved has the durations of saves of the store.
	Saved receiver.Durations
	// Requests counts the requests of this node, by type and outcome.
	Requests map[Requested]uint64
}

// Requested is a type of request and its outcome: "ok" or a code for the error.
type Requested struct{ Type, Code string }

// Proposal is the stage of a proposal and its result: "won", "lost", or "overtaken" by another
// election.
type Proposal struct{ Stage, Result string }

// Vote is an answer to a proposal at a stage.
type Vote struct {
	Stage   string
	Granted bool
}

// Transition is a change of the status of a member.
type Transition struct{ From, To member.Status }

// countsOf converts the counters of package diagnosis.
func countsOf(c diagnosis.Counts) Counts {
	return Counts{
		Elections: c.Elections,
		Proposals: convertKeys(c.Proposals, func(p diagnosis.Proposal) Proposal { return Proposal(p) }),
		Votes:     convertKeys(c.Votes, func(v diagnosis.Vote) Vote { return Vote(v) }),
		Conflicts: c.Conflicts,
		Missed:    c.Missed,
		Transitions: convertKeys(c.Transitions,
			func(t diagnosis.Transition) Transition { return Transition(t) }),
		ClockSteps: c.ClockSteps,
		Replaced:   c.Replaced,
		Copies:     c.Copies,
		Elected:    receiver.Durations(c.Elected),
		Saved:      receiver.Durations(c.Saved),
	}
}

// convertKeys returns a copy of m with its keys converted.
func convertKeys[To, From comparable](m map[From]uint64, convert func(From) To) map[To]uint64 {
	out := make(map[To]uint64, len(m))
	for key, n := range m {
		out[convert(key)] = n
	}
	return out
}
