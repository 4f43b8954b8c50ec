// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// A refusal is a message that n1 must not act on, and the response that it must send.
type refusal struct {
	name    string
	reason  message.Reason
	refused bool // answered with a refusal; otherwise dropped
	at      func(*testing.T) *bus
	event   func(*bus) message.Message
	sends   []string // what n1 sends in answer; nil if nothing
}

// An event based on an observation is dropped if the receiver's own observation differs. Each drop
// has a named reason (protocol.md 2), and the tests must reach every reason.
func TestRefusals(t *testing.T) {
	reached := make([]bool, message.Reasons)
	reached[message.ReasonNone] = true
	reached[message.ReasonPortRefused] = true // probe_test.go
	for r := message.ReasonConflict; r <= message.ReasonUnknown; r++ {
		reached[r] = true // records_test.go
	}
	reached[message.ReasonTableFull] = true // records_test.go
	// copies_test.go
	reached[message.ReasonRestored], reached[message.ReasonLaterState] = true, true
	cases := slices.Concat(refusalsOfHeaders(), refusalsOfJoins(), refusalsOfStores(),
		refusalsOfJoinAnswers(), refusalsByLeaders(), refusalsByFollowers(), refusalsOfStates(),
		refusalsByVoters(), refusalsOfFormal(), refusalsOfFoundings(), refusalsByProposers())
	for _, tc := range cases {
		reached[tc.reason] = true
		t.Run(tc.reason.String()+"/"+tc.name, func(t *testing.T) {
			b := tc.at(t)
			before := b.view(0)
			in := tc.event(b)
			out := b.hand(in)
			want := statemachine.Trace{
				Kind: statemachine.Dropped, Reason: tc.reason,
				Event: in.Body.Kind(), Peer: in.From.Address,
			}
			if tc.refused {
				want.Kind = statemachine.Refused
			}
			if !slices.ContainsFunc(out.Trace, func(got statemachine.Trace) bool {
				got.Version, got.Stage = 0, 0
				return got == want
			}) {
				t.Errorf("got traces %+v, want %+v among them", out.Trace, want)
			}
			if got := kinds(out.Send); !slices.Equal(got, tc.sends) {
				t.Errorf("got sent %q, want %q", got, tc.sends)
			}
			after := b.view(0)
			if before.Role != after.Role || before.Leader != after.Leader || out.Persist != nil {
				t.Errorf("got %v of %v, persist %v, want %v of %v and nothing to save",
					after.Role, after.Leader, out.Persist, before.Role, before.Leader)
			}
		})
	}
	for r, ok := range reached {
		if !ok {
			t.Errorf("no case reaches %q", message.Reason(r))
		}
	}
}

func follower(t *testing.T) *bus { t.Helper(); return aFollower(t, 3) }
func leader(t *testing.T) *bus   { t.Helper(); return aLeader(t, 3) }
func quorate(t *testing.T) *bus  { t.Helper(); return aQuorateLeader(t, 3) }
func votes(t *testing.T) *bus    { t.Helper(); return aVoter(t, 3) }
func founder(t *testing.T) *bus  { t.Helper(); return aFounder(t, 3) }

// fixed returns a message regardless of the bus.
func fixed(from int, claim member.Claim, body message.Body) func(*bus) message.Message {
	return func(*bus) message.Message { return event(from, claim, body) }
}

func refusalsOfHeaders() []refusal {
	return []refusal{{
		name: "from itself", reason: message.ReasonOwnAddress, at: follower,
		event: fixed(0, member.Claim{}, message.SeedKeepAlive{}),
	}, {
		name: "from an earlier run", reason: message.ReasonEarlierRun, at: follower,
		event: func(*bus) message.Message {
			in := event(1, chosen(3, 1), message.SeedKeepAlive{})
			in.From.Incarnation = 0
			return in
		},
	}, {
		name: "a join of an earlier run", reason: message.ReasonEarlierRun, at: leader,
		event: func(*bus) message.Message {
			in := event(1, member.Claim{}, message.JoinClusterRequest{Name: "n2"})
			in.From.Incarnation = 0
			return in
		},
		sends: []string{"n2: JoinClusterResponse"},
	}, {
		name: "to another address", reason: message.ReasonNotAddressed, at: follower,
		event: func(b *bus) message.Message {
			in := event(1, chosen(3, 1), message.SeedKeepAlive{})
			in.To = addr(7)
			return in
		},
	}, {
		name: "of a member of another cluster", reason: message.ReasonOtherCluster, at: follower,
		event: ofCluster(2, chosen(9, 2), message.SeedKeepAlive{}),
	}, {
		name: "a query of a member of another cluster", reason: message.ReasonOtherCluster,
		at:    follower,
		event: ofCluster(2, member.Claim{}, message.LeaderQuery{}),
		sends: []string{"n3: JoinClusterResponse"},
	}}
}

// otherCluster is the id of another cluster.
var otherCluster = member.ClusterID{2}

// ofCluster returns a message of a node that holds a state of another cluster.
func ofCluster(from int, claim member.Claim, body message.Body) func(*bus) message.Message {
	in := event(from, claim, body)
	in.Cluster = otherCluster
	return func(*bus) message.Message { return in }
}

func refusalsOfJoins() []refusal {
	join := message.JoinClusterRequest{}
	answered, told := []string{"n2: JoinClusterResponse"}, []string{"n4: JoinClusterResponse"}
	return []refusal{{
		name: "by a follower", reason: message.ReasonNotLeader, refused: true, at: follower,
		event: fixed(2, member.Claim{}, join), sends: []string{"n3: JoinClusterResponse"},
	}, {
		name: "by a leader with N members", reason: message.ReasonClusterFull, refused: true, at: quorate,
		event: fixed(3, member.Claim{}, join), sends: told,
	}, {
		name: "a run that no clock gives", reason: message.ReasonRunJump, refused: true, at: quorate,
		event: func(*bus) message.Message { return ofRun(3, 1+1<<43+1, member.Claim{}, join) },
		sends: told,
	}, {
		name: "the run that left on purpose", reason: message.ReasonOldIncarnation, refused: true,
		at: func(t *testing.T) *bus {
			b := aQuorateLeader(t, 3)
			b.hand(event(1, chosen(4, 0), message.MemberLeave{}))
			return b
		},
		event: fixed(1, member.Claim{}, join), sends: answered,
	}, {
		name: "an earlier run, by a founder", reason: message.ReasonOldIncarnation, refused: true,
		at: func(t *testing.T) *bus {
			b := aFounder(t, 5)
			b.hand(ofRun(1, 5, member.Claim{}, join))
			return b
		},
		event: fixed(1, member.Claim{}, join), sends: answered,
	}, {
		name: "one bound to a version that no election reaches", reason: message.ReasonVersionJump,
		refused: true, at: quorate,
		event: fixed(1, member.Claim{}, message.JoinClusterRequest{Bound: member.MaxCount - 1}),
		sends: answered,
	}, {
		name: "one without a vote that is bound above", reason: message.ReasonVersionJump,
		refused: true, at: quorate,
		event: fixed(3, member.Claim{}, message.JoinClusterRequest{Bound: 5}), sends: told,
	}, {
		name: "one without a vote that holds a later state", reason: message.ReasonVersionJump,
		refused: true, at: quorate,
		event: fixed(3, member.Claim{}, message.JoinClusterRequest{Held: number(5, 0)}), sends: told,
	}, {
		name: "one that holds a state, by a founder", reason: message.ReasonHoldsState, refused: true,
		at:    founder,
		event: fixed(1, member.Claim{}, message.JoinClusterRequest{Held: number(3, 1)}), sends: answered,
	}, {
		name: "a stranger, by a provisional leader with a roster", reason: message.ReasonNotMember,
		refused: true, at: provisionalWithRoster,
		event: fixed(3, member.Claim{}, join), sends: told,
	}, {
		name: "a stranger, when the other places are kept for seeds", reason: message.ReasonClusterFull,
		refused: true, at: founder,
		event: fixed(3, member.Claim{}, join), sends: told,
	}}
}

// refusalsOfStores lists joins of another store at the address of n2.
func refusalsOfStores() []refusal {
	join := message.JoinClusterRequest{}
	at := func(incarnation uint64) func(*bus) message.Message {
		return func(*bus) message.Message { return impostor(1, incarnation, member.Claim{}, join) }
	}
	all := []refusal{{
		name: "where the member is heard", reason: message.ReasonAddressHeld, at: quorate, event: at(2),
	}, {
		name: "where the member was just heard, by a founder", reason: message.ReasonAddressHeld,
		at: func(t *testing.T) *bus {
			b := aFounder(t, 5)
			b.hand(event(1, member.Claim{}, join))
			return b
		},
		event: at(2),
	}, {
		name: "in no later run", reason: message.ReasonOldIncarnation, at: leaderOfASilentMember,
		event: at(1),
	}, {
		name: "before the state is committed", reason: message.ReasonNotSettled,
		at: func(t *testing.T) *bus {
			b := aLeader(t, 3)
			b.run(b.timings.HeartbeatTimeout + 1)
			return b
		},
		event: at(2),
	}, {
		name: "where M voters would not be left", reason: message.ReasonQuorumAtStake,
		at: func(t *testing.T) *bus {
			b := aLeader(t, 3)
			b.silence(1, 3, false)
			return b
		},
		event: at(2),
	}, {
		name: "by a leader bound to a later version", reason: message.ReasonLeaderBound,
		at: boundLeader, event: at(2),
	}, {
		name: "by a provisional leader with a roster", reason: message.ReasonNotSettled,
		at: provisionalWithRoster, event: at(2),
	}}
	for i := range all {
		all[i].name = "another store, " + all[i].name
		all[i].refused, all[i].sends = true, []string{"n2: JoinClusterResponse"}
	}
	return all
}

// leaderOfASilentMember returns a quorate leader of three, whose member n2 has been silent for
// HeartbeatTimeout. n3 shows the newest state, in which n2 is unreachable.
func leaderOfASilentMember(t *testing.T) *bus {
	t.Helper()
	b := aQuorateLeader(t, 3)
	b.silence(1, 3, true)
	return b
}

// silence lets HeartbeatTimeout pass since the last message of node i, while the other members of
// a cluster of the given size send keep-alives, with echoes or without. They hold the newest state
// at the end.
func (b *bus) silence(i, size int, echoes bool) {
	b.t.Helper()
	others := func() {
		for j := 1; j < size; j++ {
			echo := b.now
			if !echoes {
				echo = time.Time{}
			}
			if j != i {
				b.hand(b.keepAlive(j, echo))
			}
		}
	}
	for range b.timings.HeartbeatTimeout / b.timings.HeartbeatInterval {
		b.run(b.timings.HeartbeatInterval)
		others()
	}
	others()
	if got := b.status(0, i); got != member.Unreachable {
		b.t.Fatalf("got n%d %v, want it silent\n%s", i+1, got, b)
	}
}

// boundLeader returns n1, which leads version 4. Because n2 was bound to 6, n1 proposed itself for
// version 7 and accepted that proposal.
func boundLeader(t *testing.T) *bus {
	t.Helper()
	b := aQuorateLeader(t, 3)
	k := message.LeaderKeepAlive{Number: number(4, 0), Bound: 6}
	b.hand(event(1, chosen(4, 0), k))
	out := b.wins(last[message.Proposal](b))
	if p := bodies[message.Proposal](out.Send); len(p) == 0 || p[0].Stage != message.Formal {
		t.Fatalf("got no formal proposal, sent %q\n%s", kinds(out.Send), b)
	}
	return b
}

// provisionalWithRoster returns n1, a provisional leader that holds a roster and gets no answer
// from its members.
func provisionalWithRoster(t *testing.T) *bus {
	t.Helper()
	b := aVoter(t, 3)
	b.run(3 * b.timings.TTLTimeout)
	if v := b.view(0); v.Role != member.Provisional {
		t.Fatalf("got no provisional leader\n%s", b)
	}
	return b
}

func refusalsOfJoinAnswers() []refusal {
	accepted := message.JoinClusterResponse{Accepted: true}
	return []refusal{{
		name: "to no join of a follower", reason: message.ReasonNotJoining, at: follower,
		event: fixed(1, chosen(3, 1), accepted),
	}, {
		name: "no, from one that was not asked", reason: message.ReasonNotJoining, at: votes,
		event: fixed(2, member.Claim{}, message.JoinClusterResponse{}),
	}, {
		name: "yes, for another leader", reason: message.ReasonOtherLeader, at: votes,
		event: fixed(2, member.Claim{}, accepted),
	}, {
		name: "yes, for a version below the held one", reason: message.ReasonOtherVersion, at: votes,
		event: fixed(2, chosen(2, 2), accepted),
	}, {
		name: "yes, for a version below the bound", reason: message.ReasonBound,
		at: func(t *testing.T) *bus {
			b := aVoter(t, 3)
			b.hand(event(2, member.Claim{}, formal(2, 5, state(3, 5, 0, 2))))
			b.hand(event(1, chosen(4, 1), message.SeedKeepAlive{})) // n1's request shows its bound
			return b
		},
		event: fixed(1, chosen(4, 1), accepted),
	}, {
		name: "to no query of a follower", reason: message.ReasonOtherQuery, at: follower,
		event: fixed(1, chosen(3, 1), message.LeaderResponse{ID: 1}),
	}, {
		name: "to an earlier query", reason: message.ReasonOtherQuery, at: votes,
		event: fixed(1, member.Claim{}, message.LeaderResponse{ID: 1}),
	}}
}

func refusalsByLeaders() []refusal {
	alive := message.LeaderKeepAlive{Number: number(4, 0), Digest: state(3, 4, 0, 0).Digest()}
	foreign := alive
	foreign.Echo = message.Stamp{Version: 3, Incarnation: 1, Clock: 1}
	earlier := alive
	earlier.Echo = message.Stamp{Version: 4, Incarnation: 9, Clock: 1}
	acked := []string{"n2: LeaderKeepAliveAck"}
	return []refusal{{
		name: "a keep-alive at a follower", reason: message.ReasonNotLeader, at: follower,
		event: fixed(2, chosen(3, 0), alive), sends: []string{"n3: ReJoinCluster"},
	}, {
		name: "a keep-alive for another leader", reason: message.ReasonOtherLeader, at: leader,
		event: fixed(1, chosen(3, 1), alive),
	}, {
		name: "a keep-alive of a stranger", reason: message.ReasonUnknownRun, refused: true, at: leader,
		event: fixed(3, chosen(4, 0), alive),
		sends: []string{"n4: LeaderKeepAliveAck", "n4: ClusterAlignment"},
	}, {
		name: "an echo of another version", reason: message.ReasonForeignEcho, at: leader,
		event: fixed(1, chosen(4, 0), foreign), sends: acked,
	}, {
		name: "an echo of another run", reason: message.ReasonForeignEcho, at: leader,
		event: fixed(1, chosen(4, 0), earlier), sends: acked,
	}, {
		name: "an echo of a stamp that was never given", reason: message.ReasonForeignEcho, at: leader,
		event: func(b *bus) message.Message { return b.keepAlive(1, b.now.Add(1)) }, sends: acked,
	}, {
		name: "MemberLeave of a stranger", reason: message.ReasonUnknownMember, at: leader,
		event: fixed(3, chosen(4, 0), message.MemberLeave{}),
	}, {
		name: "MemberLeave at a follower", reason: message.ReasonNotLeader, at: follower,
		event: fixed(2, chosen(3, 1), message.MemberLeave{}),
	}, {
		name: "MemberLeave at a bound leader", reason: message.ReasonLeaderBound, at: boundLeader,
		event: fixed(1, chosen(4, 0), message.MemberLeave{}),
	}}
}

func refusalsByFollowers() []refusal {
	update := func(n member.Number) message.MemberStatusUpdate {
		return message.MemberStatusUpdate{Number: n, Member: state(3, 3, 1, 1).Roster[2]}
	}
	stamped := (*bus)(nil).ack(1)
	foreign, unseen := stamped, stamped
	foreign.Stamp.Version, unseen.Stamp.Version = 2, 4
	// The node follows n3 in version 4, but still holds version 3.
	behind := func(t *testing.T) *bus {
		b := aVoter(t, 3)
		b.hand(event(2, chosen(4, 2), message.SeedKeepAlive{}))
		b.hand(event(2, chosen(4, 2), message.JoinClusterResponse{Accepted: true}))
		return b
	}
	return []refusal{{
		name: "an ack of another", reason: message.ReasonOtherLeader, at: follower,
		event: fixed(2, chosen(3, 1), stamped),
	}, {
		name: "an ack of an earlier leadership", reason: message.ReasonOtherVersion, at: follower,
		event: fixed(1, chosen(2, 1), stamped),
	}, {
		name: "a stamp of another version", reason: message.ReasonOtherVersion, at: follower,
		event: fixed(1, chosen(3, 1), foreign),
	}, {
		name: "a stamp of a version that it does not hold", reason: message.ReasonOtherVersion,
		at: behind, event: fixed(2, chosen(4, 2), unseen),
	}, {
		name: "an ack below the bound", reason: message.ReasonBound, at: boundFollower,
		event: fixed(1, chosen(3, 1), stamped),
	}, {
		name: "an update below the bound", reason: message.ReasonBound, at: boundFollower,
		event: fixed(1, chosen(3, 1), update(number(3, 2))),
	}, {
		name: "the update that is held", reason: message.ReasonOldState, at: follower,
		event: fixed(1, chosen(3, 1), update(number(3, 1))),
	}, {
		name: "an update of another version", reason: message.ReasonOtherVersion, at: follower,
		event: fixed(1, chosen(3, 1), update(number(2, 2))),
	}, {
		name: "an update that skips one", reason: message.ReasonRevisionGap, at: follower,
		event: fixed(1, chosen(3, 1), update(number(3, 3))), sends: []string{"n2: LeaderKeepAlive"},
	}, {
		name: "an update of another", reason: message.ReasonOtherLeader, at: follower,
		event: fixed(2, chosen(3, 1), update(number(3, 2))),
	}, {
		name: "a worse claim", reason: message.ReasonWorseClaim, refused: true, at: follower,
		event: fixed(2, provisional(9, 2), message.SeedKeepAlive{}),
		sends: []string{"n3: LeaderRelieve", "n3: SeedKeepAliveAck"},
	}, {
		name: "another gives leadership up", reason: message.ReasonOtherLeader, at: follower,
		event: fixed(2, member.Claim{}, message.ReJoinCluster{GivenUp: chosen(3, 1)}),
	}, {
		name: "another leaves as the leader", reason: message.ReasonOtherLeader, at: follower,
		event: fixed(2, member.Claim{}, message.MemberLeave{GivenUp: chosen(3, 1)}),
	}}
}

// refusalsOfStates lists whole states that a node must not take.
func refusalsOfStates() []refusal {
	return []refusal{{
		name: "a state below the bound", reason: message.ReasonBound, at: boundFollower,
		event: fixed(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 2, 1)}),
	}, {
		name: "a leader elected below the bound", reason: message.ReasonBound, at: boundFollower,
		event: fixed(1, member.Claim{}, message.LeaderElected{State: state(3, 4, 0, 1)}),
	}, {
		name: "a state with more members than N", reason: message.ReasonNotCandidate, at: follower,
		event: fixed(1, chosen(3, 1), message.ClusterAlignment{State: state(4, 3, 2, 1)}),
	}, {
		name: "a state with fewer than M voters", reason: message.ReasonNotCandidate, at: follower,
		event: fixed(1, member.Claim{}, message.LeaderElected{State: state(1, 4, 0, 0)}),
	}, {
		name: "a state of another cluster", reason: message.ReasonNotCandidate, at: follower,
		event: fixed(1, member.Claim{}, message.LeaderElected{State: foreign(state(3, 4, 0, 1))}),
	}, {
		name: "a state of a version that no cluster reaches", reason: message.ReasonNotCandidate,
		at: follower,
		event: fixed(1, member.Claim{}, message.LeaderElected{
			State: state(3, member.MaxVersion+1, 0, 1),
		}),
	}, {
		name: "LeaderElected from a stranger", reason: message.ReasonUnknownMember,
		at:    follower,
		event: fixed(7, member.Claim{}, message.LeaderElected{State: state(3, 4, 0, 1)}),
	}, {
		name: "the state of a leader that is a stranger", reason: message.ReasonUnknownMember,
		at: follower,
		event: fixed(7, chosen(4, 7), message.ClusterAlignment{
			State: withMember(state(2, 4, 0, 7), 7),
		}),
	}, {
		name: "a state whose leader is no member", reason: message.ReasonNotCandidate, at: follower,
		event: fixed(1, member.Claim{}, message.LeaderElected{State: state(3, 4, 0, 7)}),
	}, {
		name: "a provisional state with more members than N", reason: message.ReasonNotCandidate,
		at:    softFollower,
		event: fixed(1, provisional(9, 1), message.ClusterAlignment{State: state(4, 9, 2, 1)}),
	}, {
		name: "the state that is held", reason: message.ReasonOldState, at: follower,
		event: fixed(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}),
	}, {
		name: "a state that is not of its sender", reason: message.ReasonOtherLeader, at: follower,
		event: fixed(2, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 2, 1)}),
	}, {
		name: "the state of a provisional leader that is not followed", reason: message.ReasonOtherLeader,
		at:    follower,
		event: fixed(2, provisional(9, 2), message.ClusterAlignment{State: state(3, 9, 1, 2)}),
	}, {
		name: "the provisional state that is shown", reason: message.ReasonOldState, at: softFollower,
		event: fixed(1, provisional(9, 1), message.ClusterAlignment{State: state(3, 9, 1, 1)}),
	}}
}

// foreign returns a state of another cluster.
func foreign(s member.State) member.State {
	s.Cluster = otherCluster
	return s
}

// withMember returns s with node i as an additional active member.
func withMember(s member.State, i int) member.State {
	s.Roster = s.Roster.With(member.Member{Identity: run(i, 1), Status: member.Active})
	return s
}

// boundFollower returns a follower of n2 that has accepted n2 for version 5.
func boundFollower(t *testing.T) *bus {
	t.Helper()
	b := aFollower(t, 3)
	out := b.hand(event(2, member.Claim{}, formal(2, 5, state(3, 5, 0, 1))))
	if v := bodies[message.Vote](out.Send); len(v) != 1 || !v[0].Granted {
		t.Fatalf("got votes %+v, want a yes", v)
	}
	return b
}

// pre and formal return the first pre or formal proposal of node i for a version.
func pre(i int, version uint64) message.Proposal {
	return message.Proposal{Stage: message.Pre, ID: ballot(i, version, 1), Held: number(3, 1)}
}

func formal(i int, version uint64, s member.State) message.Proposal {
	p := pre(i, version)
	p.Stage, p.Base, p.State = message.Formal, number(3, 1), s
	return p
}

func ballot(i int, version, round uint64) paxos.ID {
	id := run(i, 1)
	return paxos.ID{Version: version, Ballot: paxos.Ballot{
		Round: round, Proposer: id.Address, Incarnation: id.Incarnation, StoreID: id.StoreID,
	}}
}

var voted = []string{"n3: Vote"}

func refusalsByVoters() []refusal {
	stranger := pre(3, 4)
	stranger.Held = number(3, 0)
	return []refusal{{
		name: "a version that is held", reason: message.ReasonOldVersion, refused: true, at: votes,
		event: fixed(2, member.Claim{}, pre(2, 3)), sends: voted,
	}, {
		name: "a version that no election reaches", reason: message.ReasonVersionJump, refused: true,
		at: votes, event: fixed(2, member.Claim{}, pre(2, 1<<20)), sends: voted,
	}, {
		name: "a round that no election reaches", reason: message.ReasonVersionJump, refused: true,
		at: votes,
		event: func(*bus) message.Message {
			p := pre(2, 4)
			p.ID.Ballot.Round = member.MaxCount
			return event(2, member.Claim{}, p)
		},
		sends: voted,
	}, {
		name: "a ballot below the promise", reason: message.ReasonPromised, refused: true,
		at: func(t *testing.T) *bus {
			b := aVoter(t, 3)
			p := pre(1, 4)
			p.ID.Ballot.Round = 2
			b.hand(event(1, member.Claim{}, p))
			return b
		},
		event: fixed(2, member.Claim{}, pre(2, 4)), sends: voted,
	}, {
		name: "while it supports another", reason: message.ReasonSupports, refused: true,
		at:    supporter,
		event: fixed(2, member.Claim{}, pre(2, 4)), sends: voted,
	}, {
		name: "while its leader is healthy", reason: message.ReasonHealthyLeader, refused: true,
		at:    follower,
		event: fixed(2, member.Claim{}, pre(2, 4)), sends: voted,
	}, {
		name: "while it leads", reason: message.ReasonHealthyLeader, refused: true, at: quorate,
		event: fixed(2, member.Claim{}, pre(2, 5)), sends: voted,
	}, {
		name: "just after a start", reason: message.ReasonStartWait, refused: true,
		at: func(t *testing.T) *bus {
			b := holding(t, 3, state(3, 3, 0, 1))
			b.start(0)
			return b
		},
		event: fixed(2, member.Claim{}, pre(2, 4)), sends: voted,
	}, {
		name: "a proposer without a vote", reason: message.ReasonNotVoter, refused: true, at: votes,
		event: fixed(3, member.Claim{}, stranger), sends: []string{"n4: Vote"},
	}, {
		name: "the ballot of another", reason: message.ReasonNotCandidate, at: votes,
		event: fixed(2, member.Claim{}, pre(1, 4)),
	}, {
		name: "what it promised already", reason: message.ReasonRepeated,
		at: func(t *testing.T) *bus {
			b := aVoter(t, 3)
			b.hand(event(2, member.Claim{}, pre(2, 4)))
			return b
		},
		event: fixed(2, member.Claim{}, pre(2, 4)),
	}}
}

// supporter returns a follower that has taken a stamped ack from n2.
func supporter(t *testing.T) *bus {
	t.Helper()
	b := aFollower(t, 3)
	b.hand(event(1, chosen(3, 1), b.ack(1)))
	return b
}

func refusalsOfFormal() []refusal {
	value := state(3, 5, 0, 2)
	old := formal(2, 5, value)
	old.Base = number(2, 9)
	malformed := func(change func(*message.Proposal)) func(*bus) message.Message {
		p := formal(2, 5, state(3, 5, 0, 2))
		change(&p)
		return fixed(2, member.Claim{}, p)
	}
	cases := []refusal{{
		name: "a version that is held", reason: message.ReasonOldVersion, refused: true, at: votes,
		event: fixed(2, member.Claim{}, formalOnOld(3)), sends: voted,
	}, {
		name: "a value built on less", reason: message.ReasonOldBase, refused: true, at: votes,
		event: fixed(2, member.Claim{}, old), sends: voted,
	}, {
		name: "a ballot below the promise", reason: message.ReasonPromised, refused: true,
		at: func(t *testing.T) *bus {
			b := aVoter(t, 3)
			b.hand(event(1, member.Claim{}, pre(1, 6)))
			return b
		},
		event: fixed(2, member.Claim{}, formal(2, 5, value)), sends: voted,
	}, {
		name: "a state in which it has no vote", reason: message.ReasonNotVoter, refused: true, at: votes,
		event: malformed(func(p *message.Proposal) { p.State.Roster[0].Status = member.Joining }),
		sends: voted,
	}, {
		name: "a state that lists another store of it", reason: message.ReasonNotVoter, refused: true,
		at: votes,
		event: malformed(func(p *message.Proposal) {
			p.State.Roster[0].Identity = newStore(run(0, 1))
		}),
		sends: voted,
	}, {
		name: "while it supports another", reason: message.ReasonSupports, refused: true, at: supporter,
		event: fixed(2, member.Claim{}, formal(2, 5, value)), sends: voted,
	}, {
		name: "just after a start", reason: message.ReasonStartWait, refused: true,
		at: func(t *testing.T) *bus {
			b := holding(t, 3, state(3, 3, 0, 1))
			b.start(0)
			return b
		},
		event: fixed(2, member.Claim{}, formal(2, 5, value)), sends: voted,
	}, {
		name: "while its own lease runs", reason: message.ReasonLeaseRuns, refused: true, at: quorate,
		event: malformed(func(p *message.Proposal) { p.Base = number(4, 0) }), sends: voted,
	}, {
		name: "what it accepted already", reason: message.ReasonRepeated, at: boundFollower,
		event: fixed(2, member.Claim{}, formal(2, 5, state(3, 5, 0, 1))),
	}}
	for name, change := range map[string]func(*message.Proposal){
		"a leader that is no member": func(p *message.Proposal) { p.State.Leader = addr(7) },
		"a leader that is not active": func(p *message.Proposal) {
			p.State.Roster[2].Status = member.Leaving
		},
		"a state of another version": func(p *message.Proposal) { p.State.Version = 6 },
		"a state that is not first":  func(p *message.Proposal) { p.State.Revision = 1 },
		"a base of its own version":  func(p *message.Proposal) { p.Base = number(5, 0) },
	} {
		cases = append(cases, refusal{
			name: name, reason: message.ReasonNotCandidate, at: votes, event: malformed(change),
		})
	}
	return cases
}

// formalOnOld returns a formal proposal for a version that all nodes already hold. It is based on
// the previous version.
func formalOnOld(version uint64) message.Proposal {
	p := formal(2, version, state(3, version, 0, 2))
	p.Base = number(version-1, 0)
	return p
}

func refusalsOfFoundings() []refusal {
	found := func(b *bus) message.Message {
		return event(2, member.Claim{}, message.Proposal{
			Stage: message.Pre, ID: ballot(2, 1, 1), Founding: true,
			SeedDigest: statemachine.SeedDigest(b.seeds),
		})
	}
	return []refusal{{
		name: "a state that a founder never had", reason: message.ReasonHoldsNothing, refused: true,
		at: founder, event: fixed(2, member.Claim{}, formal(2, 5, state(3, 5, 0, 2))), sends: voted,
	}, {
		name: "a node that may only join", reason: message.ReasonJoinOnly, refused: true,
		at: func(t *testing.T) *bus {
			b := newBus(t, 3, 3)
			b.nodes[0].conf = func(c *statemachine.Config) { c.JoinOnly = true }
			b.start(0)
			return b
		},
		event: found, sends: voted,
	}, {
		name: "another list of seeds", reason: message.ReasonOtherSeeds, refused: true, at: founder,
		event: func(b *bus) message.Message {
			in := found(b)
			p := in.Body.(message.Proposal)
			p.SeedDigest++
			in.Body = p
			return in
		}, sends: voted,
	}, {
		name: "a node that holds a state", reason: message.ReasonOldVersion, refused: true, at: votes,
		event: found, sends: voted,
	}}
}

func refusalsByProposers() []refusal {
	proposer := func(t *testing.T) *bus {
		b, _ := aProposer(t, 5)
		return b
	}
	vote := func(from int, change func(*message.Vote)) func(*bus) message.Message {
		return func(b *bus) message.Message {
			v := yes(last[message.Proposal](b))
			change(&v)
			return event(from, member.Claim{}, v)
		}
	}
	answer := func(from int, other uint64) func(*bus) message.Message {
		return func(b *bus) message.Message {
			id := last[message.LeaderStatusQuery](b).ID + other
			return event(from, member.Claim{}, message.LeaderStatusQueryResponse{ID: id})
		}
	}
	asked := func(t *testing.T) *bus {
		b := aVoter(t, 5)
		b.untilSent(b.timings.LeaderTimeout, message.KindLeaderStatusQuery)
		b.hand(answer(1, 0)(b))
		return b
	}
	return []refusal{{
		name: "a vote on another ballot", reason: message.ReasonOtherBallot, at: proposer,
		event: vote(1, func(v *message.Vote) { v.ID.Ballot.Round++ }),
	}, {
		name: "a vote on another run's ballot", reason: message.ReasonOtherBallot, at: proposer,
		event: vote(1, func(v *message.Vote) { v.ID.Ballot.Incarnation-- }),
	}, {
		name: "a vote of the other stage", reason: message.ReasonOtherBallot, at: proposer,
		event: vote(1, func(v *message.Vote) { v.Stage = message.Formal }),
	}, {
		name: "a second vote of one voter", reason: message.ReasonVotedTwice,
		at: func(t *testing.T) *bus {
			b := proposer(t)
			b.hand(vote(1, func(*message.Vote) {})(b))
			return b
		},
		event: vote(1, func(*message.Vote) {}),
	}, {
		name: "an answer to another query", reason: message.ReasonOtherQuery, at: asked,
		event: answer(1, 1),
	}, {
		name: "a second answer of one voter", reason: message.ReasonVotedTwice, at: asked,
		event: answer(1, 0),
	}, {
		name: "the answer of one without a vote", reason: message.ReasonNotVoter, at: asked,
		event: answer(7, 0),
	}}
}
