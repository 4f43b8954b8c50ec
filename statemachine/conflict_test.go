// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for protocol.md 7.

// A chosen leader beats a provisional leader; otherwise the higher version wins, and then the
// greater address. The loser gets LeaderRelieve with the winner's claim. A node that hears a better
// claim leaves its leader and joins the better leader.
func TestAFollowerOfTheLoserRelievesItAndJoinsTheWinner(t *testing.T) {
	for _, tc := range []struct {
		name string
		own  member.Claim // the claim of n2, which n1 follows
		at   func(*testing.T) *bus
		in   member.Claim
		wins bool
	}{
		{"a later version", chosen(3, 1), follower, chosen(4, 2), true},
		{"an earlier version", chosen(3, 1), follower, chosen(2, 2), false},
		{"provisional, with any version", chosen(3, 1), follower, provisional(99, 2), false},
		{"chosen, against provisional", provisional(9, 1), softFollower, chosen(4, 2), true},
		{"provisional of a later version", provisional(9, 1), softFollower, provisional(10, 2), true},
		{"provisional, a greater address", provisional(9, 1), softFollower, provisional(9, 2), true},
		{"provisional of an earlier version", provisional(9, 1), softFollower, provisional(8, 2), false},
	} {
		b := tc.at(t)
		out := b.hand(event(2, tc.in, message.SeedKeepAlive{}))
		relieved := bodies[message.LeaderRelieve](out.Send)
		to, winner := addr(1), tc.in
		if !tc.wins {
			to, winner = addr(2), tc.own
		}
		i := slices.IndexFunc(out.Send, func(m message.Message) bool {
			return m.Body.Kind() == message.KindLeaderRelieve
		})
		if len(relieved) != 1 || relieved[0].Winner != winner || out.Send[i].To != to {
			t.Errorf("%s: got sent %q, %+v, want %v relieved by %v",
				tc.name, kinds(out.Send), relieved, to, winner)
		}
		joined := len(bodies[message.JoinClusterRequest](out.Send)) == 1
		if joined != tc.wins || joined && b.view(0).Leader == addr(1) {
			t.Errorf("%s: got joined %v, leader %v, want joined %v",
				tc.name, joined, b.view(0).Leader, tc.wins)
		}
	}
}

// softFollower returns n1, which holds 3.0 and follows n2, the provisional leader of version 9.
func softFollower(t *testing.T) *bus {
	t.Helper()
	b := aVoter(t, 3)
	b.hand(event(1, provisional(9, 1), message.SeedKeepAlive{}))
	b.hand(event(1, provisional(9, 1), message.JoinClusterResponse{Accepted: true}))
	b.hand(event(1, provisional(9, 1), message.ClusterAlignment{State: state(3, 9, 1, 1)}))
	if v := b.view(0); v.Leader != addr(1) || v.Version != 9 {
		t.Fatalf("got no follower of the provisional leader\n%s", b)
	}
	return b
}

// A leader that steps down joins the better leader. It sends ReJoinCluster to all members, whatever
// their status, and to nodes that wait for a place (case4 of the original design).
func TestCase4ALosingLeaderTellsMembersInEveryStatus(t *testing.T) {
	s := state(5, 4, 0, 0)
	s.Roster[2].Status = member.Unreachable
	s.Roster[3].Status = member.Joining
	s.Roster[4].Status, s.Roster[4].Gone = member.Leaving, true
	b := aVoter(t, 5)
	b.hand(event(1, member.Claim{}, message.LeaderElected{State: s}))
	b.hand(event(6, member.Claim{}, message.JoinClusterRequest{})) // waits for a seat
	out := b.hand(event(1, chosen(7, 1), message.LeaderRelieve{Winner: chosen(7, 1)}))
	var told []member.Address
	for _, m := range out.Send {
		if r, ok := m.Body.(message.ReJoinCluster); ok {
			told = append(told, m.To)
			if r.GivenUp != chosen(4, 0) || r.Winner != chosen(7, 1) {
				t.Errorf("got %+v, want 4 given up for 7 of n2", r)
			}
		}
	}
	want := []member.Address{addr(1), addr(2), addr(3), addr(4), addr(6)}
	if !slices.Equal(told, want) {
		t.Errorf("notified %v, want %v", told, want)
	}
	joins := len(bodies[message.JoinClusterRequest](out.Send))
	if role := b.view(0).Role; joins != 1 || role == member.Leading {
		t.Errorf("got %d joins as %v, want it to join n2", joins, role)
	}
}

// A member that receives ReJoinCluster joins the winner immediately; without a winner it has no
// leader.
func TestReJoinClusterLeadsToTheWinner(t *testing.T) {
	b := supporter(t)
	rejoin := message.ReJoinCluster{GivenUp: chosen(3, 1), Winner: chosen(5, 2)}
	out := b.hand(event(1, member.Claim{}, rejoin))
	if got := kinds(out.Send); !slices.Contains(got, "n3: JoinClusterRequest") {
		t.Errorf("got %q, want a join at n3", got)
	}
	b = supporter(t)
	rejoin.Winner = member.Claim{}
	out = b.hand(event(1, member.Claim{}, rejoin))
	if v := b.view(0); !v.Leader.IsZero() || len(bodies[message.JoinClusterRequest](out.Send)) != 0 {
		t.Errorf("without a winner: got leader %v, sent %q, want none", v.Leader, kinds(out.Send))
	}
}

// Any node that knows a better claim answers with the better claim.
func TestABetterClaimIsTheAnswer(t *testing.T) {
	b := supporter(t)
	for _, tc := range []struct {
		name string
		in   message.Message
	}{
		{"a query", event(2, member.Claim{}, message.LeaderQuery{ID: 1})},
		{"a worse leader's claim", event(2, provisional(4, 2), message.SeedKeepAlive{})},
		{"a join of a former leader", event(2, member.Claim{}, message.JoinClusterRequest{})},
		{"a keep-alive of a former leader", event(2, chosen(2, 0), message.LeaderKeepAlive{})},
		{"a status query", event(2, member.Claim{}, message.LeaderStatusQuery{ID: 1})},
	} {
		out := b.hand(tc.in)
		if len(out.Send) == 0 || out.Send[0].Claim != chosen(3, 1) {
			t.Errorf("%s: got %+v, want an answer under the claim of n2", tc.name, out.Send)
		}
	}
}

// Claims may be old when they arrive. So a claim below the held version is ignored, and claims that
// other nodes send do not bring back a lost leader.
func TestOldClaimsAreIgnored(t *testing.T) {
	for name, in := range map[string]message.Message{
		"below what is held":        event(2, chosen(2, 2), message.SeedKeepAliveAck{}),
		"another of what is held":   event(2, chosen(3, 2), message.SeedKeepAliveAck{}),
		"hearsay of the lost one":   event(2, chosen(3, 1), message.SeedKeepAliveAck{}),
		"this node, of another run": event(2, chosen(9, 0), message.SeedKeepAliveAck{}),
	} {
		b := supporter(t)
		b.hand(event(1, member.Claim{}, message.ReJoinCluster{GivenUp: chosen(3, 1)}))
		if out := b.hand(in); len(out.Send) != 0 {
			t.Errorf("%s: got %q, want nothing", name, kinds(out.Send))
		}
	}
	b := supporter(t)
	b.hand(event(1, member.Claim{}, message.ReJoinCluster{GivenUp: chosen(3, 1)}))
	out := b.hand(event(1, chosen(3, 1), message.SeedKeepAlive{}))
	if got := kinds(out.Send); !slices.Contains(got, "n2: JoinClusterRequest") {
		t.Errorf("the lost leader itself: got %q, want a join", got)
	}
}

// Two chosen leaders of different versions are normal for a moment. Two chosen leaders of the same
// version prove a fault, and both stop with an error.
func TestTwoLeadersOfOneVersionStop(t *testing.T) {
	b := aQuorateLeader(t, 3)
	out := b.hand(event(2, chosen(4, 2), message.SeedKeepAlive{}))
	if want := statemachine.ErrSplitVersion; !errors.Is(out.Stop, want) || len(out.Send) != 0 {
		t.Errorf("got %v, sent %q, want %v and silence", out.Stop, kinds(out.Send), want)
	}
	if v, _ := b.nodes[0].Authority(b.now); v != 0 {
		t.Error("got authority after the proof of a fault, want none")
	}
	if !b.nodes[0].Deadline().IsZero() {
		t.Error("got a deadline of a machine that stopped")
	}
	b = aQuorateLeader(t, 3)
	b.hand(event(2, chosen(5, 2), message.SeedKeepAlive{}))
	if v := b.view(0); !b.nodes[0].up || v.Role == member.Leading {
		t.Errorf("another version: got up %v as %v, want it to step down", b.nodes[0].up, v.Role)
	}
}

// Two groups that formed separately under provisional leaders become one cluster soon after they
// can reach each other.
func TestTwoProvisionalGroupsBecomeOne(t *testing.T) {
	b := newBus(t, 5, 4)
	b.part(0, 1, 4)
	b.start(0, 1, 2, 3, 4)
	b.run(2 * b.timings.TTLTimeout)
	leaders := 0
	for i := range b.nodes {
		if b.view(i).Role == member.Provisional {
			leaders++
		}
	}
	if leaders != 2 {
		t.Fatalf("got %d provisional leaders apart, want 2\n%s", leaders, b)
	}
	b.heal()
	if took := b.settle(5); took > 4*b.timings.HeartbeatInterval {
		t.Errorf("got one cluster after %v, want within four intervals", took)
	}
}

// A returning provisional leader with an inflated version does not disturb a chosen leader (section
// 12).
func TestAProvisionalLeaderDisturbsNoMember(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	lone := b.others(l)[1]
	b.isolate(lone)
	b.run(4 * b.timings.TTLTimeout)
	if v := b.view(lone); v.Role != member.Provisional || v.Version <= b.view(l).Version {
		t.Fatalf("got no provisional leader of a greater version\n%s", b)
	}
	before := len(b.nodes[l].trace)
	b.heal()
	for end := b.now.Add(10 * time.Second); b.step(end); {
		if got := b.quorate(); got != l {
			t.Fatalf("at %v: got leader %d, want n%d all the time\n%s", b.since(), got, l+1, b)
		}
	}
	if !b.settled(3) || b.view(l).Version != 1 {
		t.Errorf("got no whole cluster of version 1\n%s", b)
	}
	for _, tr := range b.nodes[l].trace[before:] {
		if tr.Kind == statemachine.LostAuthority || tr.Kind == statemachine.SteppedDown {
			t.Errorf("got %+v at the healthy leader", tr)
		}
	}
}
