// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Status is a snapshot of a node, for people and monitoring.
type Status struct {
	Cluster string
	// ClusterID is made when a cluster is founded, and tells it apart from all others, also
	// of the same name. It is zero until this node has taken part in the founding or joined.
	ClusterID member.ClusterID
	Size      int
	Quorum    int // members that must agree: Size/2 + 1
	Self      member.Member
	View      member.View // with Self and Role
	// Token is that of the quorate leader; zero if there is none.
	Token member.Token
	// NoLeader explains in one line for people why there is no leader with authority: the
	// nodes that this one waits for, and the last answer of each. It is empty while there is
	// a leader.
	NoLeader string
	// Provisional reports whether the leader of View declared itself: it has no authority,
	// and its members may change when a leader is chosen.
	Provisional bool
	// OtherSeeds are the peers that have another list of Seeds than this node, sorted. A
	// peer stays until it has the same list; one that is neither a seed nor a member also
	// goes after a minute of silence.
	OtherSeeds []member.Address
	// LeaseRemaining is how long this node has authority unless it is extended; 0 on a node
	// without authority.
	LeaseRemaining time.Duration
	TermSince      time.Time // when the present term began on this node; zero without one
	LastElection   Election
	// Elections are the last 32 changes of leader, the oldest first, the
	// last of which is LastElection. LeaderChanges counts them all by cause.
	Elections     []Election
	LeaderChanges map[Cause]uint64
	// Leaderless is the sum of all times without a quorate leader, as far as this node knew.
	Leaderless time.Duration
	// LeaderlessSince is when the quorate leader was lost; zero while there is one.
	LeaderlessSince time.Time
	// Silent are the seeds and members from which no message came for two RetryIntervals
	// and a HeartbeatTimeout, sorted. A follower hears from its leader, and seldom from
	// other followers.
	Silent []member.Address
	Counts Counts
	Uptime time.Duration
	// VoteWait is how long this run must not vote for a new leader yet, because the run
	// before may still support one (protocol.md section 5): the rest of a LeaseTimeout after
	// the start, or after the end of a roster that memory stores have lost; else 0. It ends
	// early if the leader of the run before hands over in order. A rolling restart must wait
	// for it before it restarts the next node.
	VoteWait time.Duration
	Drained  bool
	// RosterLost reports whether so many members lost their stores that the roster of this
	// node can never elect a leader again.
	RosterLost bool
	// Insecure reports whether the node runs without a secret and without a certificate.
	Insecure bool
	// CertificateExpires is when others no longer accept the certificate of TLSCert that
	// the next handshake shows: it ends, or an authority above it. Zero without one.
	CertificateExpires time.Time
	// Dropped counts the frames that changed nothing, by reason. The reasons of events are
	// "no handler", "malformed event", "queue full", "answer not sent", "answer not awaited",
	// "too many streams" and "closed"; all others are of the protocol. A reason that never
	// occurred is missing.
	Dropped map[string]uint64
	// Refused counts the votes and joins that were refused, by reason of the protocol.
	Refused   map[string]uint64
	Transport transport.Stats
	Peers     []transport.PeerState // as the transport knows them, in no order
	Receivers []receiver.Stats
}

// Status returns a snapshot of the node that shares nothing with it. Its fields about
// authority are of one moment: View.Quorate, Token, TermSince, LeaseRemaining and NoLeader
// agree.
func (n *Node) Status() Status {
	seen, now := *n.look(), n.clock()
	view := clone(seen.view)
	// A term ends by a timer of its own, before the view shows that the lease has ended.
	// Whether it has ended is read once, for everything below that depends on it.
	term, lease := seen.live(), time.Duration(0)
	if term != nil && term.own {
		if lease = term.Remaining(); lease == 0 {
			term = nil
		}
	}
	if term == nil {
		seen.term, view.Quorate = nil, false
	}
	s := Status{
		Cluster:     n.cfg.Cluster,
		ClusterID:   seen.held.Cluster,
		Size:        n.cfg.Size,
		Quorum:      member.Quorum(n.cfg.Size),
		Self:        n.self(view),
		View:        view,
		Provisional: seen.provisional,
		Uptime:      now.Sub(n.started),
		VoteWait:    max(0, seen.votesAt.Sub(now)),
		Drained:     n.drained.Load(),
		RosterLost:  seen.rosterLost,
		Insecure:    n.cfg.Insecure,
		Transport:   n.net.Stats(),
		Peers:       n.net.Peers(),
		Receivers:   n.mux.Stats(),
	}
	if term != nil {
		s.Token, s.TermSince, s.LeaseRemaining = term.Term().Token(), term.began, lease
	}
	if n.identity != nil {
		s.CertificateExpires = n.identity.Expires()
	}
	s.setReport(n.observer.Read(now, n.stateOf(&seen)))
	s.Counts.Requests = convertKeys(n.messages.Requests(),
		func(r messaging.Requested) Requested { return Requested(r) })
	s.Counts.Lagged = n.hub.countLagged()
	return s
}

// setReport sets what package observe knows.
func (s *Status) setReport(r observe.Report) {
	s.NoLeader, s.OtherSeeds, s.Silent = r.NoLeader, r.OtherSeeds, r.Silent
	for _, e := range r.Elections {
		s.Elections = append(s.Elections, electionOf(e))
		s.LastElection = electionOf(e)
	}
	s.LeaderChanges = convertKeys(r.LeaderChanges, func(c observe.Cause) Cause { return Cause(c) })
	s.Leaderless, s.LeaderlessSince = r.Leaderless, r.LeaderlessSince
	s.Dropped, s.Refused = r.Counts.Dropped, r.Counts.Refused
	s.Counts = countsOf(r.Counts)
}

// Counts are what a node counted since its start, for monitoring. A key that is a name, an
// address or a Transition is missing until it occurs; all other keys are there from the
// start, with 0.
type Counts struct {
	// Elections counts the elections that this node saw: it "won", it "followed" another
	// node, or its own proposal "failed", after which there may be another one.
	Elections map[string]uint64
	// Proposals counts the proposals of this node.
	Proposals map[Proposal]uint64
	// Votes counts the answers of this node to the proposals of others.
	Votes map[Vote]uint64
	// Conflicts counts leaders left or given up for a better claim, by Election.Rule.
	Conflicts map[string]uint64
	// Missed counts late heartbeats, by the member that was late: of the leader at its
	// members, and of members at the leader. A member that is removed is left out.
	Missed map[member.Address]uint64
	// Transitions counts the changes of members that this node saw.
	Transitions map[Transition]uint64
	// Lagged counts how often a reader of Events had lagged.
	Lagged uint64
	// ClockSteps counts how often the wall clock was set forward. After that this node had
	// no authority and trusted no record until the others had confirmed both.
	ClockSteps uint64
	// Elected are the times without a leader at each change of leader, the start of the
	// node aside.
	Elected receiver.Durations
	// Saved are the times that the store took to save.
	Saved receiver.Durations
	// Requests counts the requests of this node, by type and outcome.
	Requests map[Requested]uint64
}

// Requested is a type of request, and how requests of it ended: "ok", or a name for the
// error.
type Requested struct{ Type, Code string }

// Proposal is a proposal at a stage, and its result: "won", "lost", or "overtaken" by
// another election.
type Proposal struct{ Stage, Result string }

// Vote is an answer to a proposal at a stage.
type Vote struct {
	Stage   string
	Granted bool
}

// Transition is a change of the status of a member.
type Transition struct{ From, To member.Status }

// countsOf returns what package observe has counted.
func countsOf(c observe.Counts) Counts {
	return Counts{
		Elections: c.Elections,
		Proposals: convertKeys(c.Proposals, func(p observe.Proposal) Proposal { return Proposal(p) }),
		Votes:     convertKeys(c.Votes, func(v observe.Vote) Vote { return Vote(v) }),
		Conflicts: c.Conflicts,
		Missed:    c.Missed,
		Transitions: convertKeys(c.Transitions,
			func(t observe.Transition) Transition { return Transition(t) }),
		ClockSteps: c.ClockSteps,
		Elected:    receiver.Durations(c.Elected),
		Saved:      receiver.Durations(c.Saved),
	}
}

// convertKeys returns a copy of m with keys of another type.
func convertKeys[To, From comparable](m map[From]uint64, convert func(From) To) map[To]uint64 {
	out := make(map[To]uint64, len(m))
	for key, n := range m {
		out[convert(key)] = n
	}
	return out
}
