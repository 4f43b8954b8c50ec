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

// Tests for a leaving leader and for the operator's calls (protocol.md 6). Tests for members that
// leave are in roster_test.go.

// A leader that leaves ends its authority and sends MemberLeave, which frees its followers. It then
// proposes the successor that had shown the newest state.
func TestALeavingLeaderEndsItsAuthorityThenProposesASuccessor(t *testing.T) {
	b := aQuorateLeader(t, 3)
	out := b.nodes[0].Leave(b.now)
	b.take(b.nodes[0], out)
	if v, _ := b.nodes[0].Authority(b.now); v != 0 || !traced(out, statemachine.LostAuthority) {
		t.Errorf("got authority %d, traces %+v, want it ended", v, out.Trace)
	}
	want := []string{"n2: MemberLeave", "n3: MemberLeave", "n2: Proposal", "n3: Proposal"}
	if got := kinds(out.Send); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	goodbye := bodies[message.MemberLeave](out.Send)[0]
	if goodbye.GivenUp != chosen(4, 0) || goodbye.Successor.IsZero() || goodbye.Stays {
		t.Errorf("got %+v, want version 4 given up for a successor", goodbye)
	}
	// The proposer is not the candidate.
	formal := bodies[message.Proposal](b.wins(bodies[message.Proposal](out.Send)[0]).Send)
	if len(formal) == 0 || formal[0].State.Leader != goodbye.Successor ||
		formal[0].ID.Ballot.Proposer != addr(0) {
		t.Errorf("got %+v, want %v proposed by n1", formal, goodbye.Successor)
	}
}

// The successor has the newest state, is active, was heard recently and is not drained.
func TestTheSuccessorHasTheFreshestState(t *testing.T) {
	b := aQuorateLeader(t, 5)
	b.run(b.timings.HeartbeatTimeout - 1)
	b.hand(event(1, chosen(4, 0), message.MemberLeave{})) // n2 makes a revision
	held := b.nodes[0].durable.Held
	for i := 2; i < 5; i++ {
		k := message.LeaderKeepAlive{Number: held.Number, Digest: held.Digest(), Drained: i == 2}
		if i == 3 {
			k.Number = number(4, 0)
		}
		b.hand(event(i, chosen(4, 0), k))
	}
	out, err := b.nodes[0].Transfer(b.now, member.Address{})
	b.take(b.nodes[0], out)
	leave := bodies[message.MemberLeave](out.Send)
	if err != nil || len(leave) == 0 || leave[0].Successor != addr(4) {
		t.Errorf("got %v, %+v, want n5: n2 leaves, n3 is drained, n4 is behind", err, leave)
	}
}

// A leaving leader stops once its successor is chosen and knows about the departure. The hand-over
// takes a few round trips.
func TestALeavingLeaderIsReplacedInAFewRoundTrips(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		b := formed(t, size, size)
		b.latency = 10 * time.Millisecond
		l := b.quorate()
		b.take(b.nodes[l], b.nodes[l].Leave(b.now))
		took := b.until(time.Minute, "next leader", func() bool {
			n := b.quorate()
			return n >= 0 && n != l
		})
		// The steps are MemberLeave with the pre proposal, pre vote, formal proposal, formal vote,
		// LeaderElected, and two round trips.
		if most := 9 * b.latency; took > most {
			t.Errorf("N=%d: got the next leader after %v, want at most %v", size, took, most)
		}
		b.until(time.Second, "its end", func() bool { return !b.nodes[l].up })
		if err := b.nodes[l].stop; !errors.Is(err, statemachine.ErrLeft) {
			t.Errorf("N=%d: got it stopped by %v, want %v", size, err, statemachine.ErrLeft)
		}
	}
}

// A leaving node stops after LeaderTimeout at the latest, even if its request is lost.
func TestALeavingNodeGoesAfterLeaderTimeout(t *testing.T) {
	for name, at := range map[string]func(*testing.T) *bus{
		"leader without answers": quorate, "follower without answers": follower,
	} {
		b := at(t)
		b.take(b.nodes[0], b.nodes[0].Leave(b.now))
		took := b.until(time.Minute, "end of the node", func() bool { return !b.nodes[0].up })
		if took > b.timings.LeaderTimeout {
			t.Errorf("%s: got it ended after %v, want at most %v", name, took, b.timings.LeaderTimeout)
		}
		if err := b.nodes[0].stop; !errors.Is(err, statemachine.ErrLeft) {
			t.Errorf("%s: got it stopped by %v, want %v", name, err, statemachine.ErrLeft)
		}
	}
	for name, at := range map[string]func(*testing.T) *bus{
		"a node without a leader": votes, "a provisional leader": founder,
		"alone": func(t *testing.T) *bus { return formed(t, 1, 1) },
	} {
		b := at(t)
		out := b.nodes[0].Leave(b.now)
		if !errors.Is(out.Stop, statemachine.ErrLeft) {
			t.Errorf("%s: got %v, want it to stop immediately", name, out.Stop)
		}
	}
}

// A leader that stops without leaving ends its authority and frees its followers. It proposes no
// successor, because it answers nothing afterwards: the followers elect one in a few round trips.
func TestALeaderThatStopsFreesItsFollowers(t *testing.T) {
	b := aQuorateLeader(t, 3)
	out := b.nodes[0].StopLeading(b.now)
	b.take(b.nodes[0], out)
	if v, _ := b.nodes[0].Authority(b.now); v != 0 || !errors.Is(out.Stop, statemachine.ErrStopped) {
		t.Errorf("got authority %d, stopped by %v, want none and ErrStopped", v, out.Stop)
	}
	want := []string{"n2: MemberLeave", "n3: MemberLeave"}
	if got := kinds(out.Send); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	goodbye := bodies[message.MemberLeave](out.Send)[0]
	if want := (message.MemberLeave{GivenUp: chosen(4, 0), Stays: true}); goodbye != want {
		t.Errorf("got %+v, want %+v", goodbye, want)
	}
	for _, size := range []int{3, 5} {
		b := formed(t, size, size)
		b.latency = 10 * time.Millisecond
		l := b.quorate()
		b.take(b.nodes[l], b.nodes[l].StopLeading(b.now))
		took := b.until(time.Minute, "next leader", func() bool { return b.quorate() >= 0 })
		// The steps are MemberLeave, a twentieth of an interval, the query and both proposals with their
		// answers, LeaderElected, and two round trips.
		if most := 12*b.latency + b.timings.HeartbeatInterval/20; took > most {
			t.Errorf("N=%d: got the next leader after %v, want at most %v", size, took, most)
		}
	}
}

// A node that does not lead sends no MemberLeave when it stops: it remains a member.
func TestOnlyALeaderGivesUpWhenItStops(t *testing.T) {
	for name, at := range map[string]func(*testing.T) *bus{
		"a follower": follower, "a provisional leader": founder, "a node without a leader": votes,
	} {
		b := at(t)
		out := b.nodes[0].StopLeading(b.now)
		if leaves := bodies[message.MemberLeave](out.Send); len(leaves) != 0 ||
			!errors.Is(out.Stop, statemachine.ErrStopped) {
			t.Errorf("%s: got %+v, stopped by %v, want no message and ErrStopped", name, leaves, out.Stop)
		}
		if again := b.nodes[0].StopLeading(b.now); len(again.Send) != 0 || again.Stop != nil {
			t.Errorf("%s: stopped twice, it returned %+v", name, again)
		}
	}
}

// A second Leave has no effect, and a stopped machine does nothing.
func TestLeaveTwice(t *testing.T) {
	b := aFollower(t, 3)
	first := b.nodes[0].Leave(b.now)
	if got := len(bodies[message.MemberLeave](first.Send)); got != 1 {
		t.Errorf("got %d goodbyes, want one", got)
	}
	if again := b.nodes[0].Leave(b.now); len(again.Send)+len(again.Trace) != 0 {
		t.Errorf("left twice: got %q, %+v, want nothing", kinds(again.Send), again.Trace)
	}
	b.run(b.timings.LeaderTimeout + 1)
	out := b.nodes[0].Step(b.now, event(1, chosen(3, 1), message.LeaderQuery{ID: 1}))
	if len(out.Send)+len(out.Trace) != 0 || out.Persist != nil || !b.nodes[0].Deadline().IsZero() {
		t.Errorf("after its end: got %+v, want nothing", out)
	}
}

// Transfer hands leadership over like Leave, but the old leader stays a member.
func TestTransferHandsOverAndStays(t *testing.T) {
	b := formed(t, 5, 5)
	l := b.quorate()
	to := b.others(l)[2]
	out, err := b.nodes[l].Transfer(b.now, addr(to))
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[l], out)
	took := b.settle(5)
	if got := b.quorate(); got != to {
		t.Errorf("got n%d leading, want n%d\n%s", got+1, to+1, b)
	}
	if most := 20 * time.Millisecond; took > most {
		t.Errorf("got it settled after %v, want at most %v", took, most)
	}
	if len(b.moves(b.quorate(), l)) != 0 && b.status(to, l) != member.Active {
		t.Errorf("got n%d as %v, want it active all the time", l+1, b.status(to, l))
	}
}

// Transfer is refused if this node has no leadership to hand over or no member can take it.
func TestTransferIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   func(*testing.T) *bus
		to   int
		want error
	}{
		{"by a follower", follower, 1, statemachine.ErrNotLeader},
		{"by a provisional leader", founder, 1, statemachine.ErrNotLeader},
		{"by a node that left", func(t *testing.T) *bus {
			b := aVoter(t, 3)
			b.take(b.nodes[0], b.nodes[0].Leave(b.now))
			return b
		}, 1, statemachine.ErrNotLeader},
		{"to itself", quorate, 0, statemachine.ErrNotActive},
		{"to a stranger", quorate, 7, statemachine.ErrNotActive},
		{"to a member that is unreachable", func(t *testing.T) *bus {
			b := aQuorateLeader(t, 3)
			b.run(b.timings.HeartbeatTimeout + 1)
			return b
		}, 1, statemachine.ErrNotActive},
		{"to any member, without another member", func(t *testing.T) *bus { return formed(t, 1, 1) },
			-1, statemachine.ErrNotActive},
	} {
		b := tc.at(t)
		role := b.view(0).Role
		to := member.Address{}
		if tc.to >= 0 {
			to = addr(tc.to)
		}
		out, err := b.nodes[0].Transfer(b.now, to)
		if !errors.Is(err, tc.want) || len(bodies[message.MemberLeave](out.Send)) != 0 {
			t.Errorf("%s: got %v, sent %q, want %v", tc.name, err, kinds(out.Send), tc.want)
		}
		if got := b.view(0).Role; got != role {
			t.Errorf("%s: got role %v, want %v still", tc.name, got, role)
		}
	}
}

// If a successor does not vote, another successor is proposed. A named successor that died
// unnoticed causes a delay of HeartbeatInterval. There is no delay if any member may succeed. No
// version is wasted.
func TestADeadSuccessorIsNotElected(t *testing.T) {
	for _, size := range []int{3, 5} {
		for _, named := range []bool{false, true} {
			b := formed(t, size, size)
			l := b.quorate()
			dead := b.others(l)[0] // the first of the members with the same state
			b.crash(dead)
			to, most := member.Address{}, 20*time.Millisecond
			if named {
				to, most = addr(dead), most+b.timings.HeartbeatInterval
			}
			out, err := b.nodes[l].Transfer(b.now, to)
			if err != nil {
				t.Fatal(err)
			}
			b.take(b.nodes[l], out)
			took := b.until(time.Minute, "leader", func() bool { return b.quorate() >= 0 })
			next := b.quorate()
			if next == l || took > most {
				t.Errorf("N=%d, named %v: got n%d after %v, want another than n%d within %v",
					size, named, next+1, took, l+1, most)
			}
			if v := b.view(next).Version; v != 2 {
				t.Errorf("N=%d, named %v: got version %d, want 2", size, named, v)
			}
		}
	}
}

// The wait for a named successor outlasts its own saves, not those of another member.
func TestADeadSuccessorIsNotAwaitedForSavesOfOthers(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	dead, slow := b.others(l)[0], b.others(l)[1]
	var held []message.Message
	b.cut = func(m message.Message) bool {
		if k, ok := m.Body.(message.LeaderKeepAlive); ok && m.From.Address == addr(slow) {
			k.Save = time.Second
			m.Body = k
			held = append(held, m)
		}
		return len(held) > 0
	}
	b.until(time.Minute, "keep-alive", func() bool { return len(held) > 0 })
	b.cut = nil
	b.deliver(held[0])
	b.crash(dead)
	out, err := b.nodes[l].Transfer(b.now, addr(dead))
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[l], out)
	b.until(2*b.timings.HeartbeatInterval, "leader", func() bool { return b.quorate() >= 0 })
}

// A successor that reaches the leader alone would get no authority. It is not elected, and no
// version is wasted. If it is named, this causes a delay of HeartbeatInterval.
func TestASuccessorThatHearsNoMajorityIsNotElected(t *testing.T) {
	for _, how := range []string{"leave", "drain", "transfer", "transfer by name"} {
		b := formed(t, 5, 5)
		l := b.quorate()
		s := b.others(l)[0] // the first of the members with the same state
		b.cut = func(m message.Message) bool {
			return m.From.Address == addr(s) && m.To != addr(l) ||
				m.To == addr(s) && m.From.Address != addr(l)
		}
		b.run(lan.HeartbeatTimeout)
		var out statemachine.Output
		var err error
		most := 10 * time.Millisecond // five round trips
		switch n := b.nodes[l]; how {
		case "leave":
			out = n.Leave(b.now)
		case "drain":
			out = n.Drain(b.now)
		case "transfer":
			out, err = n.Transfer(b.now, member.Address{})
		case "transfer by name":
			out, err = n.Transfer(b.now, addr(s))
			most += lan.HeartbeatInterval
		}
		if err != nil {
			t.Fatal(err)
		}
		b.take(b.nodes[l], out)
		took := b.until(time.Minute, "next leader", func() bool { return b.quorate() >= 0 })
		next := b.quorate()
		if v := b.view(next).Version; next == s || next == l || took > most || v != 2 {
			t.Errorf("%s: n%d leads version %d after %v, want version 2 of another than n%d and n%d "+
				"within %v", how, next+1, v, took, l+1, s+1, most)
		}
	}
}

// A successor of an earlier release does not prove that it hears M voters. Its vote counts as one
// of a successor all the same.
func TestAnEarlierReleaseSucceeds(t *testing.T) {
	b := aQuorateLeader(t, 5)
	out, err := b.nodes[0].Transfer(b.now, member.Address{})
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[0], out)
	pre := bodies[message.Proposal](out.Send)[0]
	if want := []member.Address{addr(1), addr(2), addr(3)}; !slices.Equal(pre.Successors, want) {
		t.Errorf("got the successors %v, want %v", pre.Successors, want)
	}
	formal := bodies[message.Proposal](b.wins(pre).Send)
	if len(formal) == 0 || formal[0].State.Leader != addr(1) || len(formal[0].Successors) != 0 {
		t.Errorf("got %+v, want n2 proposed", formal)
	}
}

// A member that became a witness, or was drained, an instant before the hand-over refuses to lead,
// although the leader does not know it yet. If no other is left, the old leader leads again.
func TestASuccessorRefusesToLead(t *testing.T) {
	for _, size := range []int{3, 5} {
		for _, left := range []int{0, 1} {
			b := formed(t, size, size)
			l := b.quorate()
			others := b.others(l)
			for _, i := range others[:len(others)-left] {
				b.prefer(i, never)
			}
			b.take(b.nodes[l], b.nodes[l].Drain(b.now))
			want := l
			if left > 0 {
				want = others[len(others)-1]
			}
			took := b.until(time.Minute, "next leader", func() bool { return b.quorate() >= 0 })
			if got := b.quorate(); got != want || took > 2*lan.HeartbeatInterval {
				t.Errorf("N=%d: n%d leads after %v, want n%d", size, got+1, took, want+1)
			}
			b.run(4 * lan.LeaderTimeout)
			if got := b.quorate(); got != want {
				t.Errorf("N=%d: n%d leads at the end, want n%d\n%s", size, got+1, want+1, b)
			}
		}
	}
}

// The leader waits for a named successor even if it votes last.
func TestANamedSuccessorMayVoteLast(t *testing.T) {
	b := formed(t, 5, 5)
	l := b.quorate()
	to := b.others(l)[3]
	var late []message.Message
	b.cut = func(m message.Message) bool {
		first := m.From.Address == addr(to) && m.Body.Kind() == message.KindVote && late == nil
		if first {
			late = append(late, m)
		}
		return first
	}
	out, err := b.nodes[l].Transfer(b.now, addr(to))
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[l], out)
	b.run(b.timings.HeartbeatInterval / 2)
	if len(late) != 1 || b.quorate() >= 0 {
		t.Fatalf("got %d votes held back and n%d leading, want no leader yet", len(late), b.quorate()+1)
	}
	b.deliver(late[0])
	b.until(20*time.Millisecond, "leader", func() bool { return b.quorate() == to })
}

// If no successor votes, the hand-over ends after LeaderTimeout, and the others elect one of
// themselves. Here that is the old leader, since the third node may not lead.
func TestAHandOverThatFailsEndsInAnElection(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	to, drained := b.others(l)[0], b.others(l)[1]
	b.take(b.nodes[drained], b.nodes[drained].Drain(b.now))
	b.run(2 * b.timings.HeartbeatInterval)
	b.crash(to)
	out, err := b.nodes[l].Transfer(b.now, member.Address{})
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[l], out)
	b.until(2*b.timings.LeaderTimeout+5*b.timings.HeartbeatInterval, "leader",
		func() bool { return b.quorate() >= 0 })
}

// A drained leader hands over as soon as another member can lead, and a drained voter lets the
// others stand for election.
func TestADrainedNodeLetsOthersLead(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	b.take(b.nodes[l], b.nodes[l].Drain(b.now))
	took := b.settle(3)
	next := b.quorate()
	if next == l || took > 20*time.Millisecond {
		t.Errorf("got n%d leading after %v, want another immediately", next+1, took)
	}
	b.crash(next)
	b.until(time.Minute, "the third to lead", func() bool {
		n := b.quorate()
		return n >= 0 && n != next
	})
	if got := b.quorate(); got == l {
		t.Errorf("got the drained n%d leading", l+1)
	}
	b.crash(b.quorate())
	b.start(next)
	b.run(5 * b.timings.LeaderTimeout)
	if got := b.quorate(); got != next {
		t.Errorf("got n%d leading, want n%d, which is not drained\n%s", got+1, next+1, b)
	}
}

// After 2 x LeaderTimeout without a chosen leader a drained voter stands for election like any
// other. Here all of the M running voters are drained, and one of them leads until another member
// can.
func TestDrainedVotersStandWhenNoOtherDoes(t *testing.T) {
	for _, size := range []int{3, 5} {
		b := formed(t, size, size)
		l := b.quorate()
		others := b.others(l)
		for _, i := range others {
			b.take(b.nodes[i], b.nodes[i].Drain(b.now))
		}
		b.run(2 * b.timings.HeartbeatInterval)
		b.crash(l)
		missed := b.until(time.Minute, "voter that misses it", func() bool {
			return traced(statemachine.Output{Trace: b.nodes[others[0]].trace}, statemachine.Suspected)
		})
		least := 2 * b.timings.LeaderTimeout
		most := least + 2*b.timings.HeartbeatInterval
		took := b.until(time.Minute, "drained leader", func() bool { return b.quorate() >= 0 })
		if took < least-b.timings.HeartbeatInterval || took > most {
			t.Errorf("N=%d: got a leader %v after it was missed (%v), want about %v to %v",
				size, took, missed, least, most)
		}
		drained := b.quorate()
		if drained == l {
			t.Fatalf("N=%d: n%d is down", size, l+1)
		}
		b.start(l)
		took = b.until(time.Minute, "leader that is not drained", func() bool { return b.quorate() == l })
		if most := b.timings.HeartbeatInterval; took > most {
			t.Errorf("N=%d: got n%d leading after %v, want at most %v", size, l+1, took, most)
		}
	}
}

// A drained voter does not ask while it follows a leader or waits for a chosen leader's state. A
// leaving node never asks.
func TestADrainedVoterDoesNotStandBesideALeader(t *testing.T) {
	for name, at := range map[string]func(*testing.T) *bus{
		"it follows a leader": follower,
		"the state is on the way": func(t *testing.T) *bus {
			b := aVoter(t, 3)
			b.run(3 * b.timings.LeaderTimeout)
			b.hand(event(1, chosen(4, 1), message.JoinClusterResponse{Accepted: true}))
			return b
		},
	} {
		b := at(t)
		b.take(b.nodes[0], b.nodes[0].Drain(b.now))
		mark := len(b.sent)
		b.run(b.timings.LeaderTimeout - 1)
		if got := b.mail(mark, message.KindLeaderStatusQuery); len(got) != 0 {
			t.Errorf("%s: got %d queries, want none\n%s", name, len(got), b)
		}
	}
}

// A leader that is drained after all others keeps leading.
func TestTheLastLeaderIsNotDrained(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	for _, i := range b.others(l) {
		b.take(b.nodes[i], b.nodes[i].Drain(b.now))
	}
	b.run(2 * b.timings.HeartbeatInterval)
	b.take(b.nodes[l], b.nodes[l].Drain(b.now))
	mark := len(b.sent)
	b.run(10 * time.Second)
	if got := b.quorate(); got != l {
		t.Errorf("got n%d leading, want n%d still\n%s", got+1, l+1, b)
	}
	if n := len(b.mail(mark, message.KindMemberLeave)); n != 0 {
		t.Errorf("got %d attempts to hand over, want none", n)
	}
}

// The messages by which a leader gives up carry no claim: members would take such a claim for that
// of a new leadership and ask for a place.
func TestALeaderThatGaveUpClaimsNothing(t *testing.T) {
	for name, giveUp := range map[string]func(b *bus) statemachine.Output{
		"by transfer": func(b *bus) statemachine.Output {
			out, err := b.nodes[0].Transfer(b.now, addr(1))
			if err != nil {
				t.Fatal(err)
			}
			return out
		},
		"for a better one": func(b *bus) statemachine.Output {
			return b.hand(event(2, chosen(5, 2), message.SeedKeepAlive{}))
		},
	} {
		b := aQuorateLeader(t, 3)
		told := 0
		for _, m := range giveUp(b).Send {
			switch m.Body.(type) {
			case message.MemberLeave, message.ReJoinCluster:
				if told++; !m.Claim.IsZero() {
					t.Errorf("%s: got %v with the claim %v, want none", name, m.Body.Kind(), m.Claim)
				}
			}
		}
		if told != 2 {
			t.Errorf("%s: got %d members notified, want 2", name, told)
		}
	}
}
