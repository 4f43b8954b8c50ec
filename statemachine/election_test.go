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

// Tests for protocol.md 6, steps 1 to 4: suspicion, inquiry, promises and the choice of the value.

// Step 1: A node shows no leader once it has heard no healthy leader for LeaderTimeout, or has
// received MemberLeave from its leader.
func TestSuspicionAfterLeaderTimeoutOrGoodbye(t *testing.T) {
	b := supporter(t)
	took := b.until(time.Minute, "suspicion", func() bool { return b.view(0).Leader.IsZero() })
	if took != b.timings.LeaderTimeout {
		t.Errorf("silence: got no leader after %v, want %v", took, b.timings.LeaderTimeout)
	}
	for _, body := range []message.Body{
		message.MemberLeave{GivenUp: chosen(3, 1)}, message.ReJoinCluster{GivenUp: chosen(3, 1)},
	} {
		b = supporter(t)
		out := b.hand(event(1, member.Claim{}, body))
		if v := b.view(0); !v.Leader.IsZero() || !traced(out, statemachine.Suspected) {
			t.Errorf("%T: got leader %v, traces %+v, want none immediately", body, v.Leader, out.Trace)
		}
	}
}

// Step 2: The node sends LeaderStatusQuery to the voters of the held roster.
func TestAsksTheVotersOfTheHeldRoster(t *testing.T) {
	s := state(5, 3, 0, 1)
	s.Roster[2].Status = member.Joining
	s.Roster[3].Status = member.Leaving
	s.Roster[3].Gone = true
	b := holding(t, 5, s)
	b.start(0)
	b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	var got []member.Address
	for _, f := range b.mail(0, message.KindLeaderStatusQuery) {
		got = append(got, f.msg.To)
	}
	if want := []member.Address{addr(1), addr(3), addr(4)}; !slices.Equal(got, want) {
		t.Errorf("got asked %v, want %v: a leaving member is a voter, a joining one is not", got, want)
	}
}

// Step 2: Each node waits until the active members before it have asked. All members lose a dead
// leader at the same instant, and one of them is elected without interference.
func TestVotersAskInTurn(t *testing.T) {
	b := newBus(t, 5, 5)
	b.start(0, 1, 2, 3, 4)
	b.settle(5)
	if l := b.quorate(); l != 4 {
		t.Fatalf("got n%d to found, want n5", l+1)
	}
	b.crash(4)
	b.sent = nil
	var lost [4]time.Time
	for b.quorate() < 0 && b.since() < time.Minute {
		b.run(time.Millisecond)
		for i := range lost {
			if lost[i].IsZero() && b.view(i).Leader.IsZero() {
				lost[i] = b.now
			}
		}
	}
	for _, f := range b.sent {
		from := f.msg.From.Address
		i := slices.IndexFunc(b.nodes, func(n *node) bool { return n.addr == from })
		switch f.msg.Body.Kind() {
		case message.KindProposal:
			if b.quorate() != i {
				t.Errorf("got a proposal of %v, want those of n%d alone", from, b.quorate()+1)
			}
		case message.KindLeaderStatusQuery:
			turn := time.Duration(i) * b.timings.HeartbeatInterval / 20
			// The loss was noticed up to a millisecond late.
			if got := f.at.Sub(lost[i]); got < turn-time.Millisecond {
				t.Errorf("%v: got asked %v after the loss, want %v", from, got, turn)
			}
		}
	}
}

// Step 7: A node that granted the proposal of another node holds back: late answers to its own
// query do not make it propose.
func TestAVoterThatGrantedDoesNotProposeOnLateAnswers(t *testing.T) {
	b := aVoter(t, 3)
	b.untilSent(2*b.timings.LeaderTimeout, message.KindLeaderStatusQuery)
	q := last[message.LeaderStatusQuery](b)
	b.hand(event(2, member.Claim{}, pre(2, 4)))
	out := b.hand(event(2, member.Claim{}, message.LeaderStatusQueryResponse{ID: q.ID}))
	if !gave(out, message.ReasonOtherQuery) || len(bodies[message.Proposal](out.Send)) > 0 {
		t.Errorf("got %+v after an answer to an old question, want it dropped", out)
	}
}

// Step 2: A node needs M nodes without a healthy leader, including itself. If fewer nodes answer
// that they have no healthy leader, the node asks again after HeartbeatInterval. The pauses grow,
// so a long round trip only delays the election.
func TestAsksAgainWhileFewerThanMMissTheLeader(t *testing.T) {
	b := aVoter(t, 5)
	q := last[message.LeaderStatusQuery](b)
	healthy := message.LeaderStatusQueryResponse{ID: q.ID, Healthy: true}
	b.hand(event(1, member.Claim{}, message.LeaderStatusQueryResponse{ID: q.ID}))
	b.hand(event(2, member.Claim{}, healthy))
	b.hand(event(3, member.Claim{}, healthy))
	if n := len(b.mail(0, message.KindProposal)); n != 0 {
		t.Fatalf("got %d proposals after two of five unhealthy answers, want none", n)
	}
	took := b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	if took > b.timings.HeartbeatInterval {
		t.Errorf("got asked again after %v, want %v", took, b.timings.HeartbeatInterval)
	}
	if again := last[message.LeaderStatusQuery](b); again.ID == q.ID {
		t.Error("got the same query id again, want one a question")
	}
	b.run(time.Minute)
	if n := len(b.mail(0, message.KindLeaderStatusQuery)) / 4; n < 100 {
		t.Errorf("got %d queries in a minute, want them to continue", n)
	}
}

// Step 2: If an answer names a healthy leader, the node joins that leader, and continues to ask
// until it has taken the leader's state.
func TestAHealthyAnswerLeadsToThatLeader(t *testing.T) {
	b := aVoter(t, 5)
	q := last[message.LeaderStatusQuery](b)
	out := b.hand(event(1, chosen(4, 2), message.LeaderStatusQueryResponse{ID: q.ID, Healthy: true}))
	if got, want := kinds(out.Send), []string{"n3: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	b.untilSent(2*b.timings.HeartbeatInterval, message.KindLeaderStatusQuery)
	b.hand(event(2, chosen(4, 2), message.ClusterAlignment{State: state(5, 4, 0, 2)}))
	mark := len(b.sent)
	b.run(b.timings.LeaderTimeout / 2)
	if n := len(b.mail(mark, message.KindLeaderStatusQuery)); n != 0 {
		t.Errorf("got %d queries after the state was taken, want none", n)
	}
}

// Step 3: A node proposes only if it still holds the version that it asked about (case1). Once a
// member that lost its leader is elected, a slower member must not start another election.
func TestCase1TheVersionAskedAtMustStillBeHeld(t *testing.T) {
	b := aVoter(t, 3)
	q := last[message.LeaderStatusQuery](b)
	b.hand(event(2, member.Claim{}, message.LeaderElected{State: state(3, 4, 0, 2)}))
	out := b.hand(event(1, member.Claim{}, message.LeaderStatusQueryResponse{ID: q.ID}))
	if !gave(out, message.ReasonOtherQuery) || len(bodies[message.Proposal](out.Send)) != 0 {
		t.Errorf("got traces %+v, sent %q, want the late answer dropped", out.Trace, kinds(out.Send))
	}
}

// Step 3: The pre proposal goes to all voters. Its version is the greatest of held + 1, the
// highest version seen in votes, and one above a version whose value could not be adopted.
func TestThePreProposal(t *testing.T) {
	b, p := aProposer(t, 3)
	if p.ID.Version != 4 || p.Founding || p.Held != number(3, 0) || !p.Base.IsZero() {
		t.Errorf("got %+v, want version 4 on 3.0", p)
	}
	if got := p.ID.Ballot.Run(); got != run(0, 1) {
		t.Errorf("got the ballot of %v, want %v", got, run(0, 1))
	}
	// The answers show that a voter promised version 9.
	for i := 1; i < 3; i++ {
		v := no(p, message.ReasonPromised)
		v.Promised = ballot(2, 9, 7)
		b.hand(event(i, member.Claim{}, v))
	}
	again := b.proposes(3)
	if again.ID.Version != 9 || again.ID.Ballot.Round != 8 {
		t.Errorf("got %v, want version 9, the highest seen, and round 8, one above", again.ID)
	}
}

// Step 3: A promise constrains only ballots: the voter continues to follow its leader, to echo and
// to take states.
func TestAPromiseConstrainsBallotsOnly(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
	b.hand(event(1, member.Claim{}, pre(1, 9))) // its own leader proposes
	if got := b.nodes[0].durable.Promised; got != ballot(1, 9, 1) {
		t.Fatalf("got promised %v, want %v", got, ballot(1, 9, 1))
	}
	b.hand(event(1, chosen(3, 1), b.ack(5)))
	if got := b.echo(); got.Clock != 5 {
		t.Errorf("got echo %+v, want the stamp taken", got)
	}
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 2, 1)}))
	if v := b.view(0); v.Revision != 2 || v.Leader != addr(1) {
		t.Errorf("got revision %d of %v, want 2 of n2", v.Revision, v.Leader)
	}
	if got := b.nodes[0].durable.Promised; got != ballot(1, 9, 1) {
		t.Errorf("got promised %v after a state of version 3, want it kept", got)
	}
}

// Step 3: A promise is saved before the vote is sent, since both are in one output.
func TestAVoteLeavesWithWhatMustBeStored(t *testing.T) {
	b := aVoter(t, 3)
	out := b.hand(event(2, member.Claim{}, pre(2, 4)))
	if out.Persist == nil || out.Persist.Promised != ballot(2, 4, 1) {
		t.Errorf("pre: got %+v to save, want the promise", out.Persist)
	}
	value := state(3, 4, 0, 2)
	out = b.hand(event(2, member.Claim{}, formal(2, 4, value)))
	if out.Persist == nil || out.Persist.Accepted.ID != ballot(2, 4, 1) ||
		out.Persist.Accepted.Base != number(3, 1) ||
		out.Persist.Accepted.State.Digest() != value.Digest() {
		t.Errorf("formal: got %+v to save, want ballot, base and state", out.Persist)
	}
	// A node also saves its own promise before it sends the proposal.
	b = aVoter(t, 3)
	q := last[message.LeaderStatusQuery](b)
	out = b.hand(event(1, member.Claim{}, message.LeaderStatusQueryResponse{ID: q.ID}))
	p := bodies[message.Proposal](out.Send)
	if len(p) == 0 || out.Persist == nil || out.Persist.Promised != p[0].ID {
		t.Errorf("own: got %+v to save with proposals %+v, want the promise of it", out.Persist, p)
	}
}

// Step 3: Any vote, even a rejection, may show a newer held state. A node without a chosen leader
// takes that state and starts from it, unless the state is below the node's bound.
func TestANewerStateInAVoteIsTaken(t *testing.T) {
	for _, granted := range []bool{true, false} {
		b, p := aProposer(t, 5)
		v := yes(p)
		v.Granted = granted
		v.Held, v.State = number(3, 7), state(5, 3, 7, 1)
		out := b.hand(event(1, member.Claim{}, v))
		if got := b.nodes[0].durable.Held.Number; got != number(3, 7) {
			t.Errorf("granted %v: got %v held, want 3.7", granted, got)
		}
		if len(bodies[message.LeaderStatusQuery](out.Send)) == 0 {
			t.Errorf("granted %v: got %q, want a new query", granted, kinds(out.Send))
		}
	}
	b, p := aProposer(t, 5)
	b.hand(event(2, member.Claim{}, formal(2, 6, state(5, 6, 0, 2)))) // bound to 6
	v := no(p, message.ReasonOldVersion)
	v.Held, v.State = number(5, 0), state(5, 5, 0, 3)
	b.hand(event(1, member.Claim{}, v))
	if got := b.nodes[0].durable.Held.Number; got != number(3, 0) {
		t.Errorf("below the bound: got %v held, want 3.0 still", got)
	}
}

// accepted returns a value for version 4 that n3 proposed, based on the held state.
func accepted(candidate int, base member.Number, incarnation uint64) paxos.Accepted {
	s := state(3, 4, 0, candidate)
	s.Roster[candidate].Incarnation = incarnation
	return paxos.Accepted{ID: ballot(2, 4, 1), Base: base, State: s}
}

// Step 4: If votes show values accepted at this version, the proposer considers the one with the
// highest ballot. It adopts that value if the value is based on the newest state, has the voters of
// that state, and names a run of the candidate that voted in this round. Otherwise the proposer
// starts again one version higher.
func TestTheChoiceOfTheValue(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value paxos.Accepted
		want  int    // candidate; -1 for none
		next  uint64 // next version to try if there is no candidate
	}{
		{"nothing accepted", paxos.Accepted{}, 0, 0},
		{"the voter itself", accepted(1, number(3, 0), 1), 1, 0},
		{"this node", accepted(0, number(3, 0), 1), 0, 0},
		{"one that did not vote", accepted(2, number(3, 0), 1), -1, 5},
		{"another run of the voter", accepted(1, number(3, 0), 2), -1, 5},
		{"on another state", accepted(1, number(2, 9), 1), -1, 5},
		{"at another version", paxos.Accepted{
			ID: ballot(2, 3, 1), Base: number(2, 0), State: state(3, 3, 0, 1),
		}, 0, 0},
	} {
		b, p := aProposer(t, 3)
		v := yes(p)
		v.Accepted = tc.value
		out := b.hand(event(1, member.Claim{}, v))
		formal := bodies[message.Proposal](out.Send)
		if tc.want < 0 {
			if len(formal) != 0 {
				t.Errorf("%s: got formal proposal %+v, want none", tc.name, formal[0])
			}
			if again := b.proposes(3); again.ID.Version != tc.next {
				t.Errorf("%s: got version %d next, want %d", tc.name, again.ID.Version, tc.next)
			}
			continue
		}
		if len(formal) == 0 {
			t.Errorf("%s: got no formal proposal, sent %q", tc.name, kinds(out.Send))
			continue
		}
		got := formal[0]
		if got.State.Leader != addr(tc.want) || got.Base != number(3, 0) || got.ID != p.ID {
			t.Errorf("%s: got %v led by %v on %v, want %v led by n%d on 3.0",
				tc.name, got.ID, got.State.Leader, got.Base, p.ID, tc.want+1)
		}
	}
}

// Step 4: The initial state is the newest held state, in revision 0 of the new version. Its
// candidate is active, and it has the incarnations of the nodes that pre-voted.
func TestTheInitialState(t *testing.T) {
	s := state(3, 3, 5, 1)
	s.Roster[0].Status = member.Unreachable
	s.Roster[2].Status = member.Unreachable
	b := holding(t, 3, s)
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	p := b.proposes(3)
	in := event(1, member.Claim{}, yes(p))
	in.From.Incarnation = 8
	got := bodies[message.Proposal](b.hand(in).Send)[0].State
	want := s
	want.Number, want.Leader = number(4, 0), addr(0)
	want.Roster = slices.Clone(s.Roster)
	want.Roster[0].Status = member.Active
	want.Roster[1].Incarnation = 8
	if got.Digest() != want.Digest() {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A node cannot take the newest held state among the votes if it is bound above it. It still bases
// its proposal on that state, because voters that hold that state accept no older base.
func TestABoundProposerBuildsOnTheNewestStateOfTheVotes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		voter int // index of a node; state 3.0 lists only the first three
		held  member.State
		want  member.Number
	}{
		{"newer", 2, state(3, 3, 5, 1), number(3, 5)},
		{"not newer", 2, state(3, 3, 0, 1), number(3, 0)},
		{"newer, from a node without a vote", 3, state(3, 3, 5, 1), number(3, 0)},
	} {
		b := holding(t, 3, state(3, 3, 0, 1))
		bound := paxos.ID{Version: 4, Ballot: paxos.Ballot{Round: 1, Proposer: addr(1), Incarnation: 1}}
		d := &b.nodes[0].durable
		d.Accepted = paxos.Accepted{ID: bound, Base: number(3, 0), State: state(3, 4, 0, 1)}
		d.Promised = paxos.ID{Version: 5, Ballot: bound.Ballot}
		b.start(0)
		b.run(b.timings.LeaseTimeout + 1)
		p := b.proposes(3)
		v := yes(p)
		v.Held = tc.held.Number
		if p.Held.Less(v.Held) {
			v.State = tc.held
		}
		b.hand(event(tc.voter, member.Claim{}, v))
		if tc.voter == 3 {
			b.hand(event(2, member.Claim{}, yes(p)))
		}
		f := last[message.Proposal](b)
		if f.Stage != message.Formal || f.Base != tc.want || f.State.Version != 5 {
			t.Errorf("%s: got %v on %v for version %d, want formal on %v for 5",
				tc.name, f.Stage, f.Base, f.State.Version, tc.want)
		}
		if got := b.nodes[0].durable.Held.Number; got != number(3, 0) {
			t.Errorf("%s: got %v held, want 3.0 still", tc.name, got)
		}
	}
}

// Step 4: A vote counts if its address and store id are those of a voter of the newest held state.
func TestVotesOfOthersDoNotCount(t *testing.T) {
	for name, from := range map[string]member.Identity{
		"a stranger": run(7, 1), "another store": newStore(run(1, 1)),
	} {
		b, p := aProposer(t, 3)
		in := event(1, member.Claim{}, yes(p))
		in.From = from
		out := b.hand(in)
		if len(bodies[message.Proposal](out.Send)) != 0 {
			t.Errorf("%s: got a formal proposal, want its vote not counted", name)
		}
	}
}

// Step 5: The formal proposal is also sent to all voters of the proposed state, even if only an
// adopted value of a founding lists them.
func TestAFormalProposalGoesToVotersOfTheProposedStateToo(t *testing.T) {
	b := aFounder(t, 5)
	for i := 1; i < 3; i++ {
		b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	}
	b.untilSent(b.timings.RetryInterval, message.KindProposal)
	p := last[message.Proposal](b)
	v := yes(p)
	v.Accepted = paxos.Accepted{ID: ballot(1, 1, 1), State: state(5, 1, 0, 1)}
	v.Accepted.State.Roster = v.Accepted.State.Roster.Without(addr(2)).Without(addr(3))
	b.hand(event(1, member.Claim{}, v))
	out := b.hand(event(2, member.Claim{}, yes(p)))
	want := []string{"n2: Proposal", "n3: Proposal", "n5: Proposal"}
	if got := kinds(out.Send); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Step 7: A proposer with fewer than M votes or a rejection tries again in a round above the
// highest round that it has seen or promised. First it waits for a time that grows with its rank in
// the roster. The time includes jitter, so that contenders do not compete forever.
func TestAFailedProposalIsMadeAgainAboveAllRoundsSeen(t *testing.T) {
	b, p := aProposer(t, 3)
	var rounds []uint64
	for range 5 {
		rounds = append(rounds, p.ID.Ballot.Round)
		b.hand(event(1, member.Claim{}, no(p, message.ReasonPromised)))
		out := b.hand(event(2, member.Claim{}, no(p, message.ReasonPromised)))
		if !traced(out, statemachine.GaveUpProposal) {
			t.Fatalf("rejected by two of three: got traces %+v, want it given up", out.Trace)
		}
		p = b.proposes(3)
	}
	for i := 1; i < len(rounds); i++ {
		if rounds[i] <= rounds[i-1] {
			t.Errorf("got rounds %v, want them to grow", rounds)
		}
	}
	// The rounds seen in other proposals count too.
	higher := pre(2, 3)
	higher.ID.Ballot.Round = 77
	b.hand(event(2, member.Claim{}, higher))
	b.hand(event(1, member.Claim{}, no(p, message.ReasonPromised)))
	b.hand(event(2, member.Claim{}, no(p, message.ReasonPromised)))
	if got := b.proposes(3).ID.Ballot.Round; got != 78 {
		t.Errorf("got round %d after round 77, want 78", got)
	}
}

// Step 7: A proposal fails if fewer than M votes arrive within HeartbeatInterval. Here no voter
// answers.
func TestAProposalWithoutAnswersIsGivenUp(t *testing.T) {
	b, _ := aProposer(t, 3)
	from := len(b.nodes[0].trace)
	took := b.until(time.Minute, "end of the proposal", func() bool {
		return slices.ContainsFunc(b.nodes[0].trace[from:], func(t statemachine.Trace) bool {
			return t.Kind == statemachine.GaveUpProposal
		})
	})
	if took != b.timings.HeartbeatInterval {
		t.Errorf("got it given up after %v, want %v", took, b.timings.HeartbeatInterval)
	}
}

// Step 7: A node has at most one proposal in progress.
func TestOneProposalUnderWayPerNode(t *testing.T) {
	b, p := aProposer(t, 5)
	q := last[message.LeaderStatusQuery](b)
	mark := len(b.sent)
	for i := 1; i < 5; i++ { // all notice the loss late
		b.hand(event(i, member.Claim{}, message.LeaderStatusQueryResponse{ID: q.ID}))
	}
	b.run(b.timings.HeartbeatInterval / 2)
	if got := b.mail(mark, message.KindProposal); len(got) != 0 {
		t.Errorf("got %d more proposals while %v is under way, want none", len(got), p.ID)
	}
}

// Contenders do not block each other: five members lose their leader at the same instant and elect
// one of them within a few intervals.
func TestContendersDoNotDuel(t *testing.T) {
	for seed := range 20 {
		b := newBus(t, 5, 5)
		b.latency = time.Duration(1+seed) * time.Millisecond
		for i := range 5 {
			b.nodes[i].durable.Incarnation = uint64(seed) // other random numbers
			b.start(i)
		}
		b.settle(5)
		b.run(time.Second)
		old := b.quorate()
		b.crash(old)
		took := b.until(time.Minute, "next leader", func() bool {
			l := b.quorate()
			return l >= 0 && l != old
		})
		if most := b.timings.LeaderTimeout + 5*b.timings.HeartbeatInterval + 20*b.latency; took > most {
			t.Errorf("latency %v: got the next leader after %v, want at most %v", b.latency, took, most)
		}
	}
}

// A follower of a chosen leader takes states up to that version from that leader only.
func TestAFollowerTakesNoEarlierStateFromAVote(t *testing.T) {
	b, p := aProposer(t, 5)
	b.hand(event(2, chosen(5, 2), message.SeedKeepAlive{}))
	b.hand(event(2, chosen(5, 2), message.JoinClusterResponse{Accepted: true}))
	v := no(p, message.ReasonOldVersion)
	v.Held, v.State = number(4, 0), state(5, 4, 0, 3)
	b.hand(event(1, member.Claim{}, v))
	if got := b.nodes[0].durable.Held.Number; got != number(3, 0) {
		t.Errorf("got %v held, want 3.0 until the state of n3 arrives", got)
	}
}

// A voter asks the others as soon as its support has ended. The support can last longer than the
// health of its leader.
func TestAVoterAsksWhenItsSupportHasEnded(t *testing.T) {
	b := supporter(t)
	b.run(b.timings.LeaderTimeout / 2)
	ack := b.ack(2)
	ack.Healthy, ack.Quorate = false, false
	b.hand(event(1, chosen(3, 1), ack))
	took := b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	if took != b.timings.LeaseTimeout {
		t.Errorf("got the question %v after the last ack, want %v", took, b.timings.LeaseTimeout)
	}
}

// A node that would refuse its own proposal does not make it.
func TestAProposalThatItsProposerRefusesIsNotMade(t *testing.T) {
	b := supporter(t)
	b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	q := last[message.LeaderStatusQuery](b)
	b.hand(event(1, chosen(3, 1), message.SeedKeepAlive{}))
	b.hand(event(1, chosen(3, 1), message.JoinClusterResponse{Accepted: true}))
	ack := message.LeaderKeepAliveAck{Stamp: message.Stamp{Version: 3, Incarnation: 1, Clock: 2}}
	b.hand(event(1, chosen(3, 1), ack)) // support for n2, which is not healthy
	out := b.hand(event(2, member.Claim{}, message.LeaderStatusQueryResponse{ID: q.ID}))
	n := len(bodies[message.Proposal](out.Send))
	if n != 0 || !traced(out, statemachine.GaveUpProposal) {
		t.Errorf("got %d proposals, traces %+v, want it given up unsent", n, out.Trace)
	}
}

// The pause between proposals stays bounded even if many proposals fail.
func TestTheWaitAfterAFailureIsBounded(t *testing.T) {
	b, p := aProposer(t, 3)
	for range 60 {
		b.hand(event(1, member.Claim{}, no(p, message.ReasonPromised)))
		b.hand(event(2, member.Claim{}, no(p, message.ReasonPromised)))
		from := b.now
		p = b.proposes(3)
		if took, most := b.now.Sub(from), 5*b.timings.HeartbeatInterval; took > most {
			t.Fatalf("round %d: got it %v after the failure, want at most %v", p.ID.Ballot.Round, took, most)
		}
	}
	b.until(6*b.timings.HeartbeatInterval, "end of a proposal without answers", func() bool {
		tr := b.nodes[0].trace
		return tr[len(tr)-1].Kind == statemachine.GaveUpProposal
	})
}

// A voter asks the other voters first and the seeds a HeartbeatInterval later; a node without a
// vote asks the seeds immediately.
func TestANodeWithoutAVoteSearchesImmediately(t *testing.T) {
	for _, votes := range []bool{true, false} {
		s := state(3, 3, 0, 1)
		if !votes {
			s.Roster[0].Status = member.Joining
		}
		b := holding(t, 3, s)
		b.start(0)
		s = s.Next(s.Roster)
		b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: s}))
		b.until(time.Minute, "suspicion", func() bool { return b.view(0).Leader.IsZero() })
		lostAt := b.now
		b.run(b.timings.HeartbeatInterval + 1)
		queries := b.mail(0, message.KindLeaderQuery)
		want := time.Duration(0)
		if votes {
			want = b.timings.HeartbeatInterval
		}
		if got := queries[len(queries)-1].at.Sub(lostAt); got != want {
			t.Errorf("votes %v: got LeaderQuery %v after the loss, want %v", votes, got, want)
		}
	}
}

// A node that voted for another proposer waits for a HeartbeatInterval before it proposes.
func TestAVoterDoesNotContendWithItsCandidate(t *testing.T) {
	for _, p := range []message.Proposal{pre(2, 4), formal(2, 4, state(3, 4, 0, 2))} {
		b := aVoter(t, 3)
		b.run(b.timings.HeartbeatInterval / 2)
		b.hand(event(2, member.Claim{}, p))
		took := b.untilSent(time.Minute, message.KindLeaderStatusQuery)
		if took < b.timings.HeartbeatInterval {
			t.Errorf("%v: got the next question after %v, want at least %v",
				p.Stage, took, b.timings.HeartbeatInterval)
		}
	}
}

// Step 4: A proposer that is bound above the newest state cannot take that state. It builds on the
// state if the candidate is one of its voters. An election must not give a vote or the lead to a
// joining or removed node.
func TestHandsOverOnlyToAVoterOfTheNewestState(t *testing.T) {
	joins := state(3, 5, 1, 2)
	e := joins.Roster[1]
	e.Identity, e.Status = newStore(run(1, 2)), member.Joining
	joins.Roster = joins.Roster.With(e)
	gone := state(3, 5, 1, 2)
	gone.Roster = gone.Roster.Without(addr(1))
	for name, s := range map[string]member.State{"joins": joins, "gone": gone} {
		b := boundLeader(t)
		b.hand(b.keepAlive(1, b.now))
		b.run(b.timings.HeartbeatInterval / 2)
		out, err := b.nodes[0].Transfer(b.now, addr(1))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.take(b.nodes[0], out)
		b.untilSent(time.Minute, message.KindProposal)
		for range 20 {
			p := last[message.Proposal](b)
			if p.Stage == message.Formal && p.Base == s.Number && p.State.Leader == addr(1) {
				t.Fatalf("%s: got %v proposed on %v, where n2 has no vote", name, p.State, s.Number)
			}
			v := yes(p)
			v.Held, v.State = s.Number, s
			b.hand(event(2, member.Claim{}, v))
			b.run(b.timings.HeartbeatInterval / 10)
		}
	}
}

// A voter that asks for votes finds that its leader still leads, and follows it again. A vote that
// arrives then must not make it accept its own proposal: bound to the later version, it would send
// the leader no keep-alive until it gave that leader up.
func TestAFollowerEndsItsAttempt(t *testing.T) {
	b, p := aProposer(t, 3)
	b.hand(event(1, chosen(3, 1), message.SeedKeepAlive{}))
	b.hand(event(1, chosen(3, 1), message.JoinClusterResponse{Accepted: true}))
	if v := b.view(0); v.Role != member.Following {
		t.Fatalf("got %v, want a follower of n2", v.Role)
	}
	b.hand(event(1, chosen(3, 1), yes(p)))
	b.hand(event(2, chosen(3, 1), yes(p)))
	if got := b.nodes[0].durable.Bound(); got > 3 {
		t.Errorf("the follower of version 3 is bound to version %d", got)
	}
	b.untilSent(b.timings.HeartbeatTimeout, message.KindLeaderKeepAlive)
}
