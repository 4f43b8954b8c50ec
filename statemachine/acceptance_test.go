// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for protocol.md 6, steps 5 to 8 (acceptance, bound voters, the first steps of a chosen
// leader) and for what must be durable.

// Step 5: A chosen leader that grants a vote to another candidate no longer has a lease, so it
// steps down.
func TestALeaderAcceptsAnotherWhenItsLeaseHasEndedAndStepsDown(t *testing.T) {
	b := aQuorateLeader(t, 3)
	b.run(message.LeaseMargin(b.timings.LeaseTimeout))
	p := formal(2, 5, state(3, 5, 0, 2))
	p.Base = number(4, 2) // n2 and n3 are unreachable
	out := b.hand(event(2, member.Claim{}, p))
	if v := bodies[message.Vote](out.Send); len(v) != 1 || !v[0].Granted {
		t.Fatalf("got votes %+v, want granted\n%s", v, b)
	}
	if b.view(0).Role == member.Leading || !traced(out, statemachine.SteppedDown) {
		t.Errorf("got role %v, traces %+v, want it to step down", b.view(0).Role, out.Trace)
	}
	if n := len(bodies[message.ReJoinCluster](out.Send)); n != 2 {
		t.Errorf("got %d members notified, want both", n)
	}
}

// Step 5: A node stores the value that it accepted and is bound. It then takes no states and no
// acks of a lower version, and sends no keep-alive for a lower version. TestRefusals covers states
// and acks.
func TestABoundFollowerSendsNoKeepAlive(t *testing.T) {
	b := boundFollower(t)
	mark := len(b.sent)
	b.run(b.timings.LeaderTimeout - 1)
	if n := len(b.mail(mark, message.KindLeaderKeepAlive)); n != 0 {
		t.Errorf("got %d keep-alives below the bound, want none", n)
	}
}

// A state of the bound version or a later one frees the node.
func TestAStateAtTheBoundIsTaken(t *testing.T) {
	b := boundFollower(t)
	b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(3, 5, 0, 1)}))
	if d := b.nodes[0].durable; d.Held.Number != number(5, 0) || d.Bound() != 0 {
		t.Errorf("got held %v, bound to %d, want 5.0 and free", d.Held.Number, d.Bound())
	}
	if v := b.view(0); v.Leader != addr(1) || v.Version != 5 {
		t.Errorf("got leader %v of version %d, want n2 of 5", v.Leader, v.Version)
	}
}

// Step 5: A leader that accepted a higher version, even by its own proposal, changes and commits
// nothing in its old version. The leader proposes itself for a version above the accepted version.
func TestABoundLeaderChangesNothingAndProposesAgainAbove(t *testing.T) {
	b := boundLeader(t) // n1 leads 4 and accepted its own proposal for 7
	before := b.nodes[0].durable.Held.Number
	mark := len(b.sent)
	b.run(2 * b.timings.HeartbeatTimeout) // n2 and n3 fall silent
	b.hand(event(3, member.Claim{}, message.JoinClusterRequest{}))
	if got := b.nodes[0].durable.Held.Number; got != before {
		t.Errorf("got state %v, want %v still", got, before)
	}
	again := b.mail(mark, message.KindProposal)
	if len(again) == 0 {
		t.Fatalf("got no proposal after the first was not answered\n%s", b)
	}
	p := again[len(again)-1].msg.Body.(message.Proposal)
	if p.ID.Version < 7 || p.ID.Ballot.Round < 2 {
		t.Errorf("got %v, want version 7 at least in a later round", p.ID)
	}
}

// Step 6: After M formal votes the proposer sends LeaderElected. All nodes immediately take the
// state and send a keep-alive. The leader answers, and the nodes echo its stamp. So the leader is
// quorate within two round trips.
func TestAChosenLeaderIsQuorateWithinTwoRoundTrips(t *testing.T) {
	for size := 2; size <= 7; size++ {
		b := formed(t, size, size)
		old := b.quorate()
		b.latency = 10 * time.Millisecond
		b.crash(old)
		if size == 2 {
			b.start(old) // the other voter alone is not a majority
		}
		won := func(n *node) bool {
			return slices.ContainsFunc(n.trace, func(t statemachine.Trace) bool {
				return t.Kind == statemachine.BecameLeader && t.Version == 2
			})
		}
		b.until(time.Minute, "leader of version 2", func() bool {
			return slices.ContainsFunc(b.nodes, won)
		})
		l := slices.IndexFunc(b.nodes, won)
		took := b.until(time.Second, "authority", func() bool { return b.quorate() == l })
		if most := 4 * b.latency; took > most {
			t.Errorf("N=%d: got authority %v after it was chosen, want at most %v", size, took, most)
		}
	}
}

// Step 6: LeaderElected is sent to all members of the old and the new roster, whatever their
// status (section 2).
func TestLeaderElectedGoesToMembersInEveryStatus(t *testing.T) {
	s := state(5, 3, 0, 1)
	s.Roster[3].Status = member.Joining
	s.Roster[4].Status, s.Roster[4].Gone = member.Leaving, true
	b := holding(t, 5, s)
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	b.wins(b.proposes(5))
	out := b.wins(last[message.Proposal](b))
	var told []member.Address
	for _, m := range out.Send {
		if m.Body.Kind() == message.KindLeaderElected {
			told = append(told, m.To)
		}
	}
	if want := []member.Address{addr(1), addr(2), addr(3), addr(4)}; !slices.Equal(told, want) {
		t.Errorf("notified %v, want %v", told, want)
	}
}

// Step 8: A join request or keep-alive shows the leader that a member is bound to a higher version.
// The leader then proposes itself above that version. Its followers vote for it, and it keeps its
// authority.
func TestALeaderProposesItselfAboveABoundMember(t *testing.T) {
	for name, in := range map[string]message.Message{
		"keep-alive": event(1, chosen(4, 0), message.LeaderKeepAlive{Number: number(4, 0), Bound: 6}),
		"join":       event(1, member.Claim{}, message.JoinClusterRequest{Held: number(3, 1), Bound: 6}),
	} {
		b := aQuorateLeader(t, 3)
		p := bodies[message.Proposal](b.hand(in).Send)
		if len(p) == 0 || p[0].ID.Version != 7 {
			t.Errorf("%s: got proposals %+v, want one for version 7", name, p)
		}
		if b.quorate() != 0 {
			t.Errorf("%s: got no authority while it proposes, want it kept", name)
		}
	}
}

// A follower is cut off and becomes bound to a later version. It returns to its former leader,
// which then leads a version above the bound.
func TestABoundFollowerComesBackUnderTheSameLeader(t *testing.T) {
	b := formed(t, 5, 5)
	l := b.quorate()
	lost := b.others(l)[0]
	b.isolate(lost)
	b.run(2 * b.timings.LeaderTimeout)
	p := message.Proposal{
		Stage: message.Formal, ID: ballot(b.others(l)[1], 40, 9),
		Base: b.nodes[lost].durable.Held.Number, State: b.nodes[lost].durable.Held,
	}
	p.State.Number, p.State.Leader = number(40, 0), addr(b.others(l)[1])
	b.handTo(lost, message.Message{From: run(b.others(l)[1], 1), To: addr(lost), Body: p})
	if got := b.nodes[lost].durable.Bound(); got != 40 {
		t.Fatalf("got n%d bound to %d, want 40\n%s", lost+1, got, b)
	}
	b.heal()
	took := b.settle(5)
	if got := b.quorate(); got != l || b.view(l).Version != 41 {
		t.Errorf("got n%d leading version %d, want n%d with 41\n%s", got+1, b.view(l).Version, l+1, b)
	}
	if most := 2*b.timings.RetryInterval + 2*b.timings.HeartbeatInterval; took > most {
		t.Errorf("got it back after %v, want at most %v", took, most)
	}
}

// A promise never expires, and neither a claim nor a restart drops it.
func TestAPromiseNeverExpires(t *testing.T) {
	b := aVoter(t, 3)
	p := pre(2, 9)
	p.ID.Ballot.Round = 5
	b.hand(event(2, member.Claim{}, p))
	b.hand(event(1, chosen(12, 1), message.SeedKeepAlive{}))
	b.run(10 * b.timings.TTLTimeout)
	b.crash(0)
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	out := b.hand(event(2, member.Claim{}, pre(2, 9)))
	if !gave(out, message.ReasonPromised) {
		t.Errorf("got traces %+v, want the lower ballot refused\n%s", out.Trace, b)
	}
}

// An accepted value survives a restart and is shown in the next promise.
func TestAnAcceptedValueIsShownAfterARestart(t *testing.T) {
	b := aVoter(t, 3)
	value := state(3, 4, 0, 2)
	b.hand(event(2, member.Claim{}, formal(2, 4, value)))
	b.crash(0)
	b.run(10 * b.timings.TTLTimeout)
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	p := pre(1, 4)
	p.ID.Ballot.Round = 9
	v := bodies[message.Vote](b.hand(event(1, member.Claim{}, p)).Send)
	if len(v) != 1 || !v[0].Granted || v[0].Accepted.ID != ballot(2, 4, 1) ||
		v[0].Accepted.State.Digest() != value.Digest() {
		t.Errorf("got votes %+v, want the value that was accepted shown", v)
	}
}

// A leader saves each revision in the output that sends it.
func TestALeaderStoresARevisionBeforeItIsSent(t *testing.T) {
	b := aQuorateLeader(t, 3)
	out := b.hand(event(1, chosen(4, 0), message.MemberLeave{}))
	sent := bodies[message.MemberStatusUpdate](out.Send)
	if len(sent) == 0 || out.Persist == nil || out.Persist.Held.Number.Less(sent[0].Number) {
		t.Errorf("got %+v to save with updates %+v, want the revision saved", out.Persist, sent)
	}
}

// A leader proposes itself above the version of a bound member. If it has to adopt the value of
// another candidate, it then follows that candidate.
func TestALeaderFollowsTheOneThatItHadToAdopt(t *testing.T) {
	b := aLeader(t, 3)
	b.hand(event(1, chosen(4, 0), message.LeaderKeepAlive{Number: number(4, 0), Bound: 6}))
	v := yes(last[message.Proposal](b))
	v.Accepted.ID, v.Accepted.Base, v.Accepted.State = ballot(2, 7, 1), number(4, 0), state(3, 7, 0, 1)
	b.hand(event(1, member.Claim{}, v))
	out := b.hand(event(1, member.Claim{}, yes(last[message.Proposal](b))))
	elected := bodies[message.LeaderElected](out.Send)
	if len(elected) != 2 || elected[0].State.Leader != addr(1) {
		t.Fatalf("got sent %q, %+v, want n2 announced to both", kinds(out.Send), elected)
	}
	if n := len(bodies[message.ReJoinCluster](out.Send)); n != 2 {
		t.Errorf("got %d members notified that version 4 is given up, want both", n)
	}
	if v := b.view(0); v.Role != member.Following || v.Leader != addr(1) || v.Version != 7 {
		t.Errorf("got %v of %v in version %d, want a follower of n2 in 7", v.Role, v.Leader, v.Version)
	}
}

// A bound leader does not even reactivate a returning member.
func TestABoundLeaderReactivatesNoMember(t *testing.T) {
	b := aQuorateLeader(t, 3)
	b.run(b.timings.HeartbeatTimeout - 1)
	b.hand(b.keepAlive(1, b.now))
	b.awaitStatus(time.Second, 0, 2, member.Unreachable)
	before := b.nodes[0].durable.Held.Number
	b.hand(event(1, chosen(4, 0), message.LeaderKeepAlive{Number: before, Bound: 6}))
	b.wins(last[message.Proposal](b)) // n1 accepts its own proposal for 7
	b.hand(b.keepAlive(2, b.now))
	if got := b.nodes[0].durable.Held.Number; got != before || b.nodes[0].durable.Bound() != 7 {
		t.Errorf("got %v held, bound to %d, want %v still and 7", got, b.nodes[0].durable.Bound(), before)
	}
}

// A follower that accepted another candidate ignores the acks of its leader from then on, so it
// leaves that leader.
func TestAFollowerThatAcceptedAnotherLeavesItsLeader(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
	if granted, why := b.helps(2, 5); !granted {
		t.Fatalf("got refused: %v, want granted", why)
	}
	if v := b.view(0); !v.Leader.IsZero() {
		t.Errorf("got leader %v after another was accepted, want none", v.Leader)
	}
}
