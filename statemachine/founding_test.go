// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// Tests for foundings (protocol.md 4).

// A cluster of one node is founded without any message.
func TestFoundingAloneTakesNoMessage(t *testing.T) {
	b := newBus(t, 1, 1)
	b.start(0)
	if b.quorate() != 0 || len(b.sent) != 0 {
		t.Errorf("got leader %d after %d messages, want n1 immediately\n%s", b.quorate(), len(b.sent), b)
	}
}

// An election without any held state is a founding, which is always for version 1.
func TestFoundingIsForVersionOne(t *testing.T) {
	b := formed(t, 5, 3)
	for i, n := range b.nodes {
		if got := n.durable.Held.Version; got != 1 {
			t.Errorf("n%d holds version %d, want 1", i+1, got)
		}
	}
	for _, f := range b.mail(0, message.KindProposal) {
		if p := f.msg.Body.(message.Proposal); p.ID.Version != 1 || !p.Founding {
			t.Errorf("got a proposal for version %d, founding %v, want 1 and true", p.ID.Version, p.Founding)
		}
	}
}

// A founding needs pre and formal votes of M active members and of a majority of the configured
// seeds, so that two halves cannot both found a cluster.
func TestFoundingNeedsMActiveMembersAndAMajorityOfTheSeeds(t *testing.T) {
	for _, tc := range []struct {
		name        string
		size, seeds int
		up          []int
		missing     int // start of the last node
		active      int
	}{
		{"a majority without seeds", 5, 3, []int{0, 3, 4}, 1, 4},
		{"seeds without a majority", 5, 2, []int{0, 1}, 2, 3},
		{"one of two seeds", 3, 2, []int{0, 2}, 1, 3},
		{"one of three", 3, 3, []int{1}, 0, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBus(t, tc.size, tc.seeds)
			b.start(tc.up...)
			end := b.now.Add(4 * b.timings.TTLTimeout)
			for b.step(end) {
				if l := b.quorate(); l >= 0 {
					t.Fatalf("n%d leads at %v\n%s", l+1, b.since(), b)
				}
			}
			b.start(tc.missing)
			b.settle(tc.active)
		})
	}
}

// A founder waits until no node has joined for half a HeartbeatInterval. The wait ends at most a
// RetryInterval after the founder declared itself. If the roster is full, there is no wait.
func TestFounderWaitsForJoiners(t *testing.T) {
	join := message.JoinClusterRequest{Seed: true}
	for _, tc := range []struct {
		name    string
		joiners int // nodes that join after the first M, one after each pause
		pause   time.Duration
		want    time.Duration // time since the last of M nodes joined
	}{
		{"no joiner", 0, 0, 50 * time.Millisecond},
		{"one joins", 1, 30 * time.Millisecond, 80 * time.Millisecond},
		{"all join", 7, 10 * time.Millisecond, 70 * time.Millisecond},
		{"one after the other joins", 6, 49 * time.Millisecond, 200 * time.Millisecond},
	} {
		b := aFounder(t, 15)
		b.run(300 * time.Millisecond) // rest of the RetryInterval since it declared itself
		for i := 1; i <= 7; i++ {
			b.hand(event(i, member.Claim{}, join))
		}
		from := b.now
		for i := range tc.joiners {
			b.run(tc.pause - 1)
			if n := len(b.mail(0, message.KindProposal)); n != 0 && b.now.Sub(from) < tc.want {
				t.Fatalf("%s: got %d proposals after %v, want none yet", tc.name, n, b.now.Sub(from))
			}
			b.run(1)
			b.hand(event(8+i, member.Claim{}, join))
		}
		b.run(time.Second)
		first := b.mail(0, message.KindProposal)
		if len(first) == 0 {
			t.Fatalf("%s: got no founding\n%s", tc.name, b)
		}
		if took := first[0].at.Sub(from); took < tc.want-1 || took > tc.want {
			t.Errorf("%s: got the founding %v after M were there, want %v", tc.name, took, tc.want)
		}
	}
}

// More than N processes can form two halves with M members each, but only one of them has a
// majority of the seeds.
func TestTwoHalvesCannotBothFound(t *testing.T) {
	b := newBus(t, 5, 4)
	for i := 5; i < 10; i++ {
		b.add(i)
	}
	b.part(0, 1, 4, 5, 6)
	for i := range b.nodes {
		b.start(i)
	}
	b.run(4 * b.timings.TTLTimeout)
	for i, n := range b.nodes {
		if !n.durable.Held.IsZero() {
			t.Errorf("n%d holds %v, want a founding on neither side\n%s", i+1, n.durable.Held.Number, b)
		}
	}
	b.heal()
	b.until(3*b.timings.TTLTimeout, "leader", func() bool { return b.quorate() >= 0 })
}

// A founding leaves out members that are not active.
func TestFoundingLeavesOutMembersThatAreNotActive(t *testing.T) {
	b := aFounder(t, 5)
	b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	b.run(b.timings.HeartbeatTimeout + b.timings.HeartbeatInterval)
	if got := b.status(0, 1); got != member.Unreachable {
		t.Fatalf("got n2 %v, want %v", got, member.Unreachable)
	}
	for _, i := range []int{2, 3} {
		b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	}
	p := last[message.Proposal](b)
	var out statemachine.Output
	for _, i := range []int{2, 3} {
		out = b.hand(event(i, member.Claim{}, yes(p)))
	}
	formal := bodies[message.Proposal](out.Send)
	if len(formal) == 0 {
		t.Fatalf("got no formal proposal, sent %q\n%s", kinds(out.Send), b)
	}
	if _, ok := formal[0].State.Roster.Find(addr(1)); ok || len(formal[0].State.Roster) != 3 {
		t.Errorf("got roster %+v, want n1, n3 and n4", formal[0].State.Roster)
	}
}

// A founding always adopts the accepted value with the highest ballot, because that value may have
// been chosen. The founding adopts this value even if its candidate is gone.
func TestFoundingAdoptsAnAcceptedValue(t *testing.T) {
	b := newBus(t, 3, 3)
	b.cut = func(m message.Message) bool {
		// n3 dies when only n1 has accepted its value.
		v, vote := m.Body.(message.Vote)
		p, proposal := m.Body.(message.Proposal)
		return vote && v.Stage == message.Formal ||
			proposal && p.Stage == message.Formal && m.To == addr(1)
	}
	b.start(0, 1, 2)
	b.until(time.Second, "value accepted by n1", func() bool {
		return b.nodes[0].durable.Bound() == 1
	})
	b.crash(2)
	b.heal()
	b.until(b.timings.TTLTimeout, "state held by n1 and n2", func() bool {
		return b.nodes[0].durable.Held.Version == 1 && b.nodes[1].durable.Held.Version == 1
	})
	for i := range 2 {
		if got := b.nodes[i].durable.Held.Leader; got != addr(2) {
			t.Errorf("n%d: version 1 is led by %v, want n3, whose value was accepted", i+1, got)
		}
	}
	// A run never leads a version that was chosen for an earlier run.
	b.start(2)
	b.settle(3)
	if got := b.view(0).Version; got < 2 {
		t.Errorf("got version %d led, want one after that of the run that died", got)
	}
}

// Any vote that shows a held state stops a founding, whether it accepts or rejects.
func TestAHeldStateStopsTheFounding(t *testing.T) {
	for _, tc := range []struct {
		name string
		vote func(message.Proposal) message.Vote
		took bool
	}{
		{"the state itself", func(p message.Proposal) message.Vote {
			v := no(p, message.ReasonOldVersion)
			v.Held, v.State = number(3, 1), state(3, 3, 1, 1)
			return v
		}, true},
		{"its number in an accept", func(p message.Proposal) message.Vote {
			v := yes(p)
			v.Held = number(3, 1)
			return v
		}, false},
		{"its number in a reject", func(p message.Proposal) message.Vote {
			v := no(p, message.ReasonOldVersion)
			v.Held = number(3, 1)
			return v
		}, false},
	} {
		b := aFounder(t, 3)
		b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
		b.run(b.timings.HeartbeatInterval/2 + 1)
		out := b.hand(event(1, member.Claim{}, tc.vote(last[message.Proposal](b))))
		if n := len(bodies[message.Proposal](out.Send)); n != 0 {
			t.Errorf("%s: got %d more proposals, want none", tc.name, n)
		}
		if took := b.nodes[0].durable.Held.Number == number(3, 1); took != tc.took {
			t.Errorf("%s: took the state: got %v, want %v\n%s", tc.name, took, tc.took, b)
		}
		if !traced(out, statemachine.GaveUpProposal) && b.view(0).Role == member.Provisional {
			t.Errorf("%s: the founding continues, traces %+v", tc.name, out.Trace)
		}
	}
}

// A voter with another list of seeds stops the founding.
func TestAnotherListOfSeedsStopsTheFounding(t *testing.T) {
	b := newBus(t, 3, 3)
	b.nodes[0].conf = func(c *statemachine.Config) { c.Seeds = c.Seeds[:2] }
	b.start(0, 2)
	b.run(2 * b.timings.TTLTimeout)
	b.start(1) // M nodes agree, but a misconfigured seed is reported, not outvoted
	b.run(2 * b.timings.TTLTimeout)
	refused := 0
	for _, f := range b.mail(0, message.KindVote) {
		if f.msg.Body.(message.Vote).Reason == message.ReasonOtherSeeds {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("got no vote refused for the other list of seeds\n%s", b)
	}
	if l := b.quorate(); l >= 0 {
		t.Errorf("n%d leads although n1 has another list of seeds\n%s", l+1, b)
	}
}

// A voter that holds nothing first takes the state on which the pre proposal is based, and then
// votes. If it still holds nothing, it votes only in foundings.
func TestAVoterThatHoldsNothingTakesTheStateFirst(t *testing.T) {
	s := state(3, 1, 2, 2)
	others := s
	others.Roster = s.Roster.Without(addr(0))
	for _, tc := range []struct {
		name    string
		state   member.State
		granted bool
	}{
		{"without a state", member.State{}, false},
		{"with one in which it has no vote", others, false},
		{"with one in which it has a vote", s, true},
	} {
		b := newBus(t, 3, 3)
		b.start(0)
		p := pre(2, 2)
		p.Held, p.State = s.Number, tc.state
		out := b.hand(event(2, member.Claim{}, p))
		v, ok := out.Send[0].Body.(message.Vote)
		if !ok || v.Granted != tc.granted {
			t.Errorf("%s: got %+v, want granted=%v", tc.name, out.Send[0], tc.granted)
			continue
		}
		d := b.nodes[0].durable
		if tc.granted && (d.Held.Number != s.Number || d.Promised != p.ID) {
			t.Errorf("%s: saved %v and the promise %v, want both", tc.name, d.Held.Number, d.Promised)
		}
		if !tc.granted && (v.Reason != message.ReasonHoldsNothing || !d.Promised.IsZero()) {
			t.Errorf("%s: got %v and the promise %v, want %v and none",
				tc.name, v.Reason, d.Promised, message.ReasonHoldsNothing)
		}
	}
}

// In both stages of a founding the voters are the active members of the proposer's provisional
// state, including those without a vote in a value that is adopted.
func TestAFoundingCountsVotersWithoutAVoteInItsValue(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	value := state(3, 1, 0, 1)
	value.Roster = value.Roster.Without(addr(0))
	p := message.Proposal{
		Stage: message.Formal, ID: ballot(2, 1, 2), Founding: true,
		SeedDigest: statemachine.SeedDigest(b.seeds), State: value,
	}
	votes := bodies[message.Vote](b.hand(event(2, member.Claim{}, p)).Send)
	if len(votes) != 1 || !votes[0].Granted {
		t.Errorf("got votes %+v, want one that is granted", votes)
	}
}

// A node that is started with JoinOnly neither founds nor votes in a founding.
func TestJoinOnlyNeitherFoundsNorVotes(t *testing.T) {
	joinOnly := func(c *statemachine.Config) { c.JoinOnly = true }
	b := newBus(t, 3, 3)
	b.nodes[1].conf, b.nodes[2].conf = joinOnly, joinOnly
	b.start(0, 1, 2)
	b.run(4 * b.timings.TTLTimeout)
	if l := b.quorate(); l >= 0 {
		t.Errorf("n%d leads: two of three seeds may only join\n%s", l+1, b)
	}
	b = newBus(t, 3, 3)
	b.nodes[2].conf = joinOnly
	b.start(0, 1, 2)
	b.settle(3)
	for _, f := range b.mail(0, message.KindVote) {
		if v := f.msg.Body.(message.Vote); f.msg.From.Address == addr(2) && v.Granted {
			t.Errorf("n3 granted %v, want it to join only", v.ID)
		}
	}
	b = newBus(t, 3, 1)
	b.nodes[1].conf, b.nodes[2].conf = joinOnly, joinOnly // not seeds
	b.start(0, 1, 2)
	b.run(4 * b.timings.TTLTimeout)
	if l := b.quorate(); l >= 0 {
		t.Errorf("n%d leads: two of three members may only join\n%s", l+1, b)
	}
}

// A provisional leader with a full roster announces what changes no more often than one without.
// Otherwise each change would make a large cluster on a busy machine busier.
func TestFullRosterIsAnnouncedOnce(t *testing.T) {
	const size = 40
	b := aFounder(t, size)
	for i := 1; i < size; i++ {
		b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	}
	mark := len(b.sent)
	for i := range 20 {
		again := event(1+i, member.Claim{}, message.JoinClusterRequest{Seed: true})
		again.From.Incarnation++
		b.hand(again)
		b.run(5 * time.Millisecond)
	}
	states := len(b.mail(mark, message.KindClusterAlignment))
	if states >= 2*size {
		t.Errorf("got %d states after 20 changes in 100 ms, want fewer than 2 for each member", states)
	}
}

// A founding does not begin while the answer of another seed shows a held state, even of a seed
// that still follows a leader. Here that leader refused n1, so n1 declares itself at the end of
// TTLTimeout and gets M members before the answer has become too old to count.
func TestAFoundingWaitsForASeedThatFollowsALeader(t *testing.T) {
	for _, held := range []member.Number{number(3, 0), {}} {
		b := newBus(t, 5, 5)
		b.start(0)
		answered := b.timings.TTLTimeout - 2*b.timings.RetryInterval - b.timings.HeartbeatInterval/2
		for b.since() < answered { // n5, the greatest seed, may declare itself, so n1 waits
			b.hand(event(4, member.Claim{}, message.LeaderQuery{}))
			b.run(min(b.timings.RetryInterval, answered-b.since()))
		}
		b.hand(b.answer(2, chosen(3, 1), held))
		b.hand(event(1, chosen(3, 1), message.JoinClusterResponse{Reason: message.ReasonVersionJump}))
		b.until(b.timings.RetryInterval*5/2, "provisional leader", func() bool {
			return b.view(0).Role == member.Provisional
		})
		for i := 3; i < 5; i++ {
			b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
		}
		b.untilSent(b.timings.RetryInterval, message.KindProposal)
		counts := b.timings.RetryInterval * 9 / 4
		if age := b.since() - answered; held.IsZero() == (age > counts) {
			t.Errorf("the seed holds %v: the founding began %v after its answer, want it later than %v: %v",
				held, age, counts, !held.IsZero())
		}
	}
}

// founded returns the version of the first state that n1, a founder of five, proposes after the
// others have joined.
func (b *bus) founded() uint64 {
	b.t.Helper()
	for i := 2; i < 5; i++ {
		b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	}
	b.run(b.timings.HeartbeatInterval/2 + 1)
	pre := last[message.Proposal](b)
	for _, e := range b.view(0).Members {
		in := event(0, member.Claim{}, yes(pre))
		in.From = e.Identity
		if e.Address != addr(0) {
			b.hand(in)
		}
	}
	formal := last[message.Proposal](b)
	if formal.Stage != message.Formal {
		b.t.Fatalf("got %+v, want a formal proposal\n%s", formal, b)
	}
	return formal.State.Version
}

// The initial state has version 1, or the greatest floor of the proposer and of those that joined
// it, plus 1. A process that got no place does not count, because it would raise the tokens of a
// cluster that it is not in.
func TestOnlyMembersRaiseTheVersionOfAFounding(t *testing.T) {
	join := message.JoinClusterRequest{Seed: true, Bound: 50}
	holds := join
	holds.Held = number(3, 1)
	beyond := join
	beyond.Bound = paxos.MaxFloor + 2
	for name, tc := range map[string]struct {
		in   message.Message
		want uint64
	}{
		"a member":                            {event(1, member.Claim{}, join), 50},
		"one that holds a state":              {event(1, member.Claim{}, holds), 1},
		"a node beyond N":                     {event(7, member.Claim{}, join), 1},
		"a member with a floor that none has": {event(1, member.Claim{}, beyond), 1},
		"a run beyond the limit":              {ofRun(1, 1<<43+2, member.Claim{}, join), 1},
		"another store at a member's address": {impostor(2, 2, member.Claim{}, join), 1},
	} {
		b := aFounder(t, 5)
		b.hand(event(2, member.Claim{}, message.JoinClusterRequest{Seed: true}))
		b.hand(tc.in)
		if got := b.founded(); got != tc.want {
			t.Errorf("bound to 50, %s: the first state has version %d, want %d", name, got, tc.want)
		}
	}
}

// A joiner that had to wait for its place counts when it gets it.
func TestAJoinerThatWaitedRaisesTheVersionOfAFounding(t *testing.T) {
	b := aFounder(t, 5)
	b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	in := impostor(1, 2, member.Claim{}, message.JoinClusterRequest{Seed: true, Bound: 50})
	if out := b.hand(in); !gave(out, message.ReasonAddressHeld) {
		t.Fatalf("got traces %+v, want it to wait", out.Trace)
	}
	b.run(b.timings.HeartbeatTimeout + b.timings.HeartbeatInterval)
	if e, _ := b.view(0).Member(addr(1)); e.Identity != in.From {
		t.Fatalf("got entry %+v, want the joiner in its place\n%s", e, b)
	}
	if got := b.founded(); got != 50 {
		t.Errorf("a member is bound to 50: the first state has version %d, want 50", got)
	}
}
