// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// Tests for the way a leader changes the statuses of its members (protocol.md 3).

// moves returns the statuses that the leader gave a node, in order.
func (b *bus) moves(l, of int) []member.Status {
	var out []member.Status
	for _, t := range b.nodes[l].trace {
		if t.Kind == statemachine.MemberMoved && t.Peer == addr(of) {
			out = append(out, t.Status)
		}
	}
	return out
}

func (b *bus) awaitStatus(limit time.Duration, l, of int, want member.Status) time.Duration {
	b.t.Helper()
	return b.until(limit, want.String(), func() bool { return b.status(l, of) == want })
}

// threeOfFive returns a cluster of five of which only n1 to n3 are running. Its trace is empty.
func threeOfFive(t *testing.T) (*bus, int) {
	t.Helper()
	b := newBus(t, 5, 3)
	b.start(0, 1, 2)
	b.settle(3)
	b.run(time.Second)
	l := b.quorate()
	b.nodes[l].trace = nil
	return b, l
}

// A node whose join request was taken is joining. Once it has shown a state of this version and M
// voters hold the leader's current state, it becomes active and a voter in one revision.
func TestAJoinerIsJoiningThenActive(t *testing.T) {
	b, l := threeOfFive(t)
	b.start(3)
	b.awaitStatus(time.Second, l, 3, member.Joining)
	joining := b.nodes[l].durable.Held
	if e, _ := joining.Roster.Find(addr(3)); e.IsVoter() {
		t.Errorf("got %+v, want no vote while joining", e)
	}
	b.awaitStatus(time.Second, l, 3, member.Active)
	active := b.nodes[l].durable.Held
	if active.Revision != joining.Revision+1 {
		t.Errorf("got active in revision %d after joining in %d, want the next",
			active.Revision, joining.Revision)
	}
	if want := []member.Status{member.Joining, member.Active}; !slices.Equal(b.moves(l, 3), want) {
		t.Errorf("got moves %v, want %v", b.moves(l, 3), want)
	}
}

// A joiner becomes active only once M voters hold the state.
func TestAJoinerStaysJoiningUntilTheStateIsCommitted(t *testing.T) {
	b, l := threeOfFive(t)
	others := []int{0, 1, 2}
	others = slices.DeleteFunc(others, func(i int) bool { return i == l })
	b.cut = func(m message.Message) bool { // the other members receive nothing more from the leader
		return m.From.Address == addr(l) && (m.To == addr(others[0]) || m.To == addr(others[1]))
	}
	b.start(3)
	b.awaitStatus(time.Second, l, 3, member.Joining)
	b.run(b.timings.LeaderTimeout / 2)
	if got := b.status(l, 3); got != member.Joining {
		t.Errorf("got %v while one voter of three holds the state, want %v", got, member.Joining)
	}
	b.heal()
	b.awaitStatus(time.Second, l, 3, member.Active)
}

// A provisional leader makes a joiner active immediately.
func TestAProvisionalLeaderMakesMembersActiveAtOnce(t *testing.T) {
	b := aFounder(t, 5)
	b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	if got := b.status(0, 1); got != member.Active {
		t.Errorf("got %v, want %v", got, member.Active)
	}
}

// A member that is silent for HeartbeatTimeout is unreachable. When it is heard again, it is
// active.
func TestASilentMemberIsUnreachableAndActiveWhenHeard(t *testing.T) {
	b := aQuorateLeader(t, 3)
	took := b.awaitStatus(time.Minute, 0, 1, member.Unreachable)
	if took != b.timings.HeartbeatTimeout {
		t.Errorf("got unreachable after %v, want %v", took, b.timings.HeartbeatTimeout)
	}
	b.hand(b.keepAlive(1, b.now))
	if got := b.status(0, 1); got != member.Active {
		t.Errorf("heard again: got %v, want %v", got, member.Active)
	}
}

// An unreachable member that stays silent for TTLTimeout while the leader is quorate becomes
// leaving. Once M voters hold that change, views show the member as removed, but it stays in the
// roster as a leaving voter.
func TestAMemberSilentForTTLTimeoutIsRemovedAndKeepsItsSeat(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	gone := b.others(l)[0]
	b.nodes[l].trace = nil
	b.crash(gone)
	from := b.now
	b.awaitStatus(time.Minute, l, gone, member.Leaving)
	if took := b.now.Sub(from); took > b.timings.TTLTimeout ||
		took < b.timings.TTLTimeout-b.timings.HeartbeatInterval {
		t.Errorf("got leaving after %v, want %v after it was last heard", took, b.timings.TTLTimeout)
	}
	b.awaitStatus(time.Second, l, gone, member.Removed)
	want := []member.Status{member.Unreachable, member.Leaving, member.Removed}
	if got := b.moves(l, gone); !slices.Equal(got, want) {
		t.Errorf("got moves %v, want %v", got, want)
	}
	e, _ := b.nodes[l].durable.Held.Roster.Find(addr(gone))
	if e.Status != member.Leaving || !e.Gone || !e.IsVoter() {
		t.Errorf("got entry %+v, want its seat kept: leaving, gone, a voter", e)
	}
	b.run(b.timings.HeartbeatInterval)
	if got := b.status(b.others(l)[1], gone); got != member.Removed {
		t.Errorf("the other member shows %v, want %v", got, member.Removed)
	}
	// A removed member whose seat was kept is joining when it is heard again, and then active. It
	// keeps its vote throughout.
	for _, n := range b.nodes {
		n.trace = nil
	}
	b.start(gone)
	for end := b.now.Add(time.Second); b.step(end); {
		if e, _ := b.nodes[l].durable.Held.Roster.Find(addr(gone)); !e.IsVoter() {
			t.Fatalf("got entry %+v, want a voter", e)
		}
	}
	want = []member.Status{member.Joining, member.Active}
	for _, viewer := range []int{l, b.others(l)[1]} {
		if got := b.moves(viewer, gone); !slices.Equal(got, want) {
			t.Errorf("back: got moves %v at node %d, want %v", got, viewer, want)
		}
	}
	b.settle(3)
}

// A joining member whose seat was kept becomes removed when it is silent for HeartbeatTimeout or
// sends MemberLeave.
func TestAMemberThatIsBackForAMomentIsRemovedAgain(t *testing.T) {
	for _, silent := range []bool{true, false} {
		b := formed(t, 3, 3)
		l := b.quorate()
		gone := b.others(l)[0]
		b.crash(gone)
		b.awaitStatus(time.Minute, l, gone, member.Removed)
		b.nodes[l].trace = nil
		e, _ := b.nodes[l].durable.Held.Roster.Find(addr(gone))
		id := e.Identity
		id.Incarnation++
		b.handTo(l, message.Message{From: id, To: addr(l), Body: message.JoinClusterRequest{}})
		if got := b.status(l, gone); got != member.Joining {
			t.Fatalf("asked for a place: got %v, want %v", got, member.Joining)
		}
		if !silent {
			b.handTo(l, message.Message{From: id, To: addr(l), Body: message.MemberLeave{}})
		}
		b.run(b.timings.HeartbeatTimeout + b.timings.HeartbeatInterval)
		want := []member.Status{member.Joining, member.Removed}
		if got := b.moves(l, gone); !slices.Equal(got, want) {
			t.Errorf("silent %v: got moves %v, want %v", silent, got, want)
		}
		e, _ = b.nodes[l].durable.Held.Roster.Find(addr(gone))
		if !e.Gone || !e.IsVoter() || e.Resigned == silent {
			t.Errorf("silent %v: got entry %+v, want its seat kept", silent, e)
		}
		b.start(gone)
		b.settle(3)
	}
}

// The leader must have been quorate during all of that time. A pause makes the time start again.
func TestALeaderThatWasNotQuorateWaitsLonger(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	gone, other := b.others(l)[0], b.others(l)[1]
	b.crash(gone)
	from := b.now
	b.run(b.timings.TTLTimeout / 2)
	b.isolate(other)
	b.until(time.Minute, "end of authority", func() bool { return b.quorate() < 0 })
	b.heal()
	b.until(time.Second, "authority again", func() bool { return b.quorate() == l })
	again := b.now
	b.awaitStatus(time.Minute, l, gone, member.Leaving)
	if took := b.now.Sub(again); took != b.timings.TTLTimeout {
		t.Errorf("got leaving %v after authority began again, %v after the silence, want %v",
			took, b.now.Sub(from), b.timings.TTLTimeout)
	}
}

// A member that sends MemberLeave becomes leaving. It returns only under a new incarnation; a late
// message does not bring it back.
func TestAMemberThatLeavesOnPurpose(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	i := b.others(l)[0]
	b.nodes[l].trace = nil
	late := b.mail(0, message.KindLeaderKeepAlive)
	late = slices.DeleteFunc(late, func(f flight) bool { return f.msg.From.Address != addr(i) })
	b.take(b.nodes[i], b.nodes[i].Leave(b.now))
	b.awaitStatus(time.Second, l, i, member.Removed)
	if want := []member.Status{member.Leaving, member.Removed}; !slices.Equal(b.moves(l, i), want) {
		t.Errorf("got moves %v, want %v", b.moves(l, i), want)
	}
	if err := b.nodes[i].stop; !errors.Is(err, statemachine.ErrLeft) {
		t.Errorf("got it stopped by %v, want %v", err, statemachine.ErrLeft)
	}
	b.handTo(l, late[len(late)-1].msg)
	b.run(b.timings.HeartbeatInterval)
	if got := b.status(l, i); got != member.Removed {
		t.Errorf("after a late keep-alive: got %v, want %v", got, member.Removed)
	}
	b.start(i)
	b.settle(3)
}

// The leader changes the set of voters one member at a time. It does so only while M voters of its
// current state hold that state, in its own version.
func TestOneChangeOfVotersAtATime(t *testing.T) {
	b := newBus(t, 5, 1)
	b.start(0, 1, 2)
	b.settle(3)
	b.start(3, 4)
	before := b.nodes[b.quorate()].durable.Held
	for end := b.now.Add(10 * time.Second); b.step(end); {
		l := b.quorate()
		if l < 0 {
			t.Fatalf("at %v: got no leader\n%s", b.since(), b)
		}
		after := b.nodes[l].durable.Held
		changed := differentVoters(before.Roster, after.Roster)
		if changed > 1 {
			t.Fatalf("%v to %v: got %d changes of voters, want one", before.Number, after.Number, changed)
		}
		if changed == 1 {
			if n := b.holders(before); n < member.Quorum(5) {
				t.Fatalf("%v to %v: %d voters held the first, want %d", before.Number, after.Number,
					n, member.Quorum(5))
			}
		}
		before = after
	}
	if !b.settled(5) {
		t.Errorf("got no whole cluster\n%s", b)
	}
}

func differentVoters(a, b member.Roster) int {
	n := 0
	for _, r := range [][2]member.Roster{{a, b}, {b, a}} {
		for _, e := range r[0] {
			if e.IsVoter() && !r[1].IsVoter(e.Voter()) {
				n++
			}
		}
	}
	return n
}

// holders returns the number of voters of s that hold s or a later state of its version.
func (b *bus) holders(s member.State) int {
	n := 0
	for _, node := range b.nodes {
		held := node.durable.Held.Number
		v := member.Voter{Address: node.addr, StoreID: node.durable.StoreID}
		if s.Roster.IsVoter(v) && held.Version == s.Version && !held.Less(s.Number) {
			n++
		}
	}
	return n
}

// A roster holds at most N members. Any further joiner is rejected with "cluster full". It retries,
// and gets a seat as soon as one is free.
func TestAJoinerPastNIsRefusedAndRetries(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	b.add(3)
	mark := len(b.sent)
	b.start(3)
	b.run(10 * b.timings.RetryInterval)
	if v := b.view(3); v.Role != member.Seeking || b.status(l, 3) != member.None {
		t.Errorf("got the fourth of three as %v, %v in the roster", v.Role, b.status(l, 3))
	}
	told := 0
	for _, f := range b.mail(mark, message.KindJoinClusterResponse) {
		if r := f.msg.Body.(message.JoinClusterResponse); r.Reason == message.ReasonClusterFull {
			told++
		}
	}
	if told < 7 {
		t.Errorf("refused with cluster full %d times in ten RetryIntervals, want a retry each", told)
	}
	b.crash(b.others(l)[0])
	took := b.until(2*b.timings.TTLTimeout, "the freed seat", func() bool {
		return b.status(l, 3) == member.Active
	})
	if most := b.timings.TTLTimeout + 2*b.timings.RetryInterval; took > most {
		t.Errorf("got the seat after %v, want at most %v", took, most)
	}
}

// (S) A seat is given away only if the roster is full, a joiner waits for it, the leader is
// quorate, and M of the remaining voters were heard within HeartbeatTimeout. In this test one of
// five seats belongs to a member that left.
func TestASeatIsGivenAwayOnlyWhereItIsSafe(t *testing.T) {
	for _, tc := range []struct {
		name    string
		heard   []int // heard last, in addition to the leader
		after   time.Duration
		settled bool
		want    message.Reason
	}{
		{"M heard", []int{2, 3}, 0, true, message.ReasonNone},
		{"all heard", []int{2, 3, 4}, 0, true, message.ReasonNone},
		{"one short of M", []int{2}, 0, true, message.ReasonClusterFull},
		{"M heard too long ago", []int{2, 3}, lan.HeartbeatTimeout, true, message.ReasonClusterFull},
		{"a change under way", []int{2, 3, 4}, 0, false, message.ReasonClusterFull},
	} {
		b := aLeader(t, 5)
		b.hand(b.keepAlive(1, time.Time{}))
		b.hand(event(1, chosen(4, 0), message.MemberLeave{}))
		for range 2 { // the second round shows that M voters hold the state in which n2 is leaving
			for i := 2; i < 5; i++ {
				b.hand(b.keepAlive(i, b.now))
			}
		}
		b.run(b.timings.HeartbeatTimeout) // no member has been heard recently
		for range 2 {                     // the second round shows that they are active again
			for _, i := range tc.heard {
				b.hand(b.keepAlive(i, b.now))
			}
		}
		b.run(tc.after)
		if !tc.settled {
			b.hand(event(4, chosen(4, 0), message.MemberLeave{}))
		}
		if got := b.status(0, 1); got != member.Removed {
			t.Fatalf("%s: got n2 %v, want %v\n%s", tc.name, got, member.Removed, b)
		}
		out := b.hand(event(5, member.Claim{}, message.JoinClusterRequest{}))
		r := bodies[message.JoinClusterResponse](out.Send)
		if len(r) != 1 || r[0].Reason != tc.want {
			t.Errorf("%s: got %+v, want reason %v\n%s", tc.name, r, tc.want, b)
		}
		if got := b.status(0, 1) == member.None; got != r[0].Accepted {
			t.Errorf("%s: seat given away: got %v, want %v", tc.name, got, r[0].Accepted)
		}
	}
}

// A process that restarts with its store keeps its seat and its vote, and joins again immediately
// under its new incarnation.
func TestARestartedMemberKeepsSeatAndVote(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	i := b.others(l)[0]
	b.nodes[l].trace = nil
	b.crash(i)
	b.run(50 * time.Millisecond)
	b.start(i)
	took := b.settle(3)
	if most := 20 * time.Millisecond; took > most {
		t.Errorf("got it back after %v, want immediately, within %v", took, most)
	}
	e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i))
	if e.Incarnation != 2 || len(b.moves(l, i)) != 0 {
		t.Errorf("got run %d, moves %v, want run 2, active all the time", e.Incarnation, b.moves(l, i))
	}
}

// A member that finds another incarnation of itself in a state asks for a place instead of
// following.
func TestAMemberThatFindsAnotherRunOfItselfJoins(t *testing.T) {
	b := holding(t, 3, state(3, 3, 0, 1))
	b.nodes[0].durable.Incarnation = 4
	b.start(0)
	for r := uint64(1); r < 4; r++ {
		b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, r, 1)}))
	}
	joins := b.mail(0, message.KindJoinClusterRequest)
	if len(joins) != 1 || joins[0].msg.From.Incarnation != 5 || b.view(0).Role != member.Seeking {
		t.Errorf("got joins %v as %v, want one by run 5\n%s", joins, b.view(0).Role, b)
	}
	out := b.hand(event(2, member.Claim{}, message.LeaderElected{State: state(3, 4, 0, 1)}))
	if got, want := kinds(out.Send), []string{"n2: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Errorf("elected by another's proposal: got %q, want %q", got, want)
	}
}

// A process with another store id at a known address is a new member in the same place. One change
// of voters marks its entry as joining, with the new store id and without a vote. Then it becomes
// active. It waits until the process of the old store was not heard for HeartbeatTimeout.
func TestAMemberWithANewStoreTakesItsPlaceAgain(t *testing.T) {
	b := formed(t, 5, 5)
	l := b.quorate()
	i := b.others(l)[0]
	b.crash(i)
	b.run(b.timings.HeartbeatInterval)
	b.nodes[l].trace = nil
	b.nodes[i].durable.Held, b.nodes[i].durable.StoreID = member.State{}, member.StoreID{99}
	b.nodes[i].conf = func(c *statemachine.Config) { c.JoinOnly = true }
	b.start(i)
	took := b.settle(5)
	if least := b.timings.HeartbeatTimeout - 2*b.timings.HeartbeatInterval; took < least ||
		took > b.timings.HeartbeatTimeout {
		t.Errorf("got it back after %v, want %v after it was last heard", took,
			b.timings.HeartbeatTimeout)
	}
	want := []member.Status{member.Unreachable, member.Joining, member.Active}
	if !slices.Equal(b.moves(l, i), want) {
		t.Errorf("got moves %v, want %v", b.moves(l, i), want)
	}
	if e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i)); e.StoreID != (member.StoreID{99}) {
		t.Errorf("got entry %+v, want the new store", e)
	}
	if n := b.count(l, statemachine.Replaced, addr(i)); n != 1 {
		t.Errorf("traced %d times that the place went to another store, want once", n)
	}
}

// count returns how many traces of a kind node i has about a node.
func (b *bus) count(i int, what statemachine.TraceKind, about member.Address) (n int) {
	for _, t := range b.nodes[i].trace {
		if t.Kind == what && t.Peer == about {
			n++
		}
	}
	return n
}

// twins returns a cluster of five, its leader l and a member i. Node n6 is another process at the
// address of i.
func twins(t *testing.T, sameStore bool) (b *bus, l, i int) {
	t.Helper()
	b = formed(t, 5, 5)
	l = b.quorate()
	i = b.others(l)[0]
	twin := b.add(5)
	twin.addr, twin.durable = addr(i), b.nodes[i].durable
	twin.durable.Incarnation = 6
	if !sameStore {
		twin.durable.StoreID[5] = 1
		twin.durable.Held = member.State{}
	}
	b.start(5)
	return b, l, i
}

// Of two processes at one address with copies of one store the later incarnation wins; the other
// stops with ErrAddressInUse.
func TestTheLaterOfTwoRunsAtOneAddressWins(t *testing.T) {
	b, _, i := twins(t, true)
	b.until(b.timings.TTLTimeout, "end of the earlier run", func() bool { return !b.nodes[i].up })
	if got, want := b.nodes[i].stop, statemachine.ErrAddressInUse; !errors.Is(got, want) {
		t.Errorf("got stopped by %v, want %v", got, want)
	}
	b.settle(5)
}

// Of two processes at one address with different stores the member stays, whichever incarnation is
// later. The other process has no place (protocol.md 3, restarts).
func TestOfTwoStoresAtOneAddressTheMemberStays(t *testing.T) {
	b, l, i := twins(t, false)
	before := b.nodes[l].durable.Held.Number
	b.run(3 * b.timings.TTLTimeout)
	e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i))
	if got, want := e.Identity, b.nodes[i].View(b.now).Self; got != want || e.Status != member.Active {
		t.Errorf("got entry %+v, want %v active\n%s", e, want, b)
	}
	if got := b.nodes[l].durable.Held.Number; got != before {
		t.Errorf("the leader made %v after %v, want no change", got, before)
	}
	if v := b.view(5); !b.nodes[i].up || b.view(i).Leader != addr(l) || v.Role != member.Seeking {
		t.Errorf("the member is up: %v, the other process is %v, want the member up and the other %v\n%s",
			b.nodes[i].up, v.Role, member.Seeking, b)
	}
}

// A joining member without a vote that falls silent loses its place.
func TestAJoinerThatFallsSilentLosesItsPlace(t *testing.T) {
	b := joiningOfFive(t)
	from := b.now
	for b.status(0, 4) == member.Joining {
		for i := 1; i < 4; i++ { // the others sustain n1's lease, but n5's joining stays uncommitted
			b.shows(i, number(5, 0))
		}
		b.run(b.timings.HeartbeatInterval)
	}
	if over := b.now.Sub(from) - b.timings.TTLTimeout; over < 0 || over > b.timings.HeartbeatInterval {
		t.Errorf("got its place free %v after TTLTimeout, want immediately", over)
	}
	if got := b.status(0, 4); got != member.None {
		t.Errorf("got n5 %v, want %v", got, member.None)
	}
}

// A member that leaves without a vote, or under a provisional leader, leaves no seat behind.
func TestAMemberThatLeavesWithoutAVoteLeavesNoSeat(t *testing.T) {
	b := joiningOfFive(t)
	b.hand(event(4, chosen(5, 0), message.MemberLeave{}))
	if got := b.status(0, 4); got != member.None {
		t.Errorf("joining: got %v, want %v", got, member.None)
	}
	b = aFounder(t, 5)
	b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	b.hand(event(1, provisional(1, 0), message.MemberLeave{}))
	if got := b.status(0, 1); got != member.None {
		t.Errorf("of a provisional leader: got %v, want %v", got, member.None)
	}
}

// A MemberLeave that is repeated because its answer was lost changes nothing.
func TestAGoodbyeSaidTwiceIsOneRevision(t *testing.T) {
	b := aQuorateLeader(t, 3)
	for i := range 3 {
		b.hand(event(1, chosen(4, 0), message.MemberLeave{}))
		if got := b.view(0).Revision; got != 1 {
			t.Errorf("sent %d times: got revision %d, want 1", i+1, got)
		}
	}
}

// A joiner that repeats its request is queued only once.
func TestAJoinerWaitsOnce(t *testing.T) {
	b := aQuorateLeader(t, 3)
	for range 3 {
		b.hand(event(3, member.Claim{}, message.JoinClusterRequest{}))
	}
	b.hand(event(4, member.Claim{}, message.JoinClusterRequest{}))
	out := b.hand(event(1, chosen(7, 1), message.LeaderRelieve{Winner: chosen(7, 1)}))
	var told []member.Address
	for _, m := range out.Send {
		if m.Body.Kind() == message.KindReJoinCluster {
			told = append(told, m.To)
		}
	}
	if want := []member.Address{addr(1), addr(2), addr(3), addr(4)}; !slices.Equal(told, want) {
		t.Errorf("notified %v, want both that wait among them: %v", told, want)
	}
}

// A follower traces the members whose status changed, and no others.
func TestAFollowerTellsWhichMembersChanged(t *testing.T) {
	b := aFollower(t, 4)
	s := state(4, 3, 2, 1)
	s.Roster[2].Status = member.Unreachable
	joiner := member.Member{Identity: run(4, 1), Status: member.Joining}
	s.Roster = s.Roster.Without(addr(3)).With(joiner)
	out := b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: s}))
	got := make(map[member.Address]member.Status)
	for _, tr := range out.Trace {
		if tr.Kind == statemachine.MemberMoved {
			got[tr.Peer] = tr.Status
		}
	}
	want := map[member.Address]member.Status{
		addr(2): member.Unreachable, addr(3): member.None, addr(4): member.Joining,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got moves %v, want %v", got, want)
	}
}

// joiningOfFive returns n1, which leads version 5 with members n2 to n4 while n5 is joining. No
// member has shown the state that lists n5 yet.
func joiningOfFive(t *testing.T) *bus {
	t.Helper()
	b := aVoter(t, 5)
	b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(4, 5, 0, 0)}))
	b.hand(event(4, member.Claim{}, message.JoinClusterRequest{}))
	if got := b.status(0, 4); got != member.Joining {
		t.Fatalf("got n5 %v, want %v\n%s", got, member.Joining, b)
	}
	return b
}

// shows makes a member of version 5 show a state and echo a stamp made now.
func (b *bus) shows(from int, num member.Number) {
	b.t.Helper()
	b.hand(event(from, chosen(5, 0), message.LeaderKeepAlive{
		Number: num, Echo: message.Stamp{Version: 5, Incarnation: 1, Clock: b.now.UnixNano()},
	}))
}

// A joining member that holds the leader's state does not count as one of the M voters that must
// hold it.
func TestAJoiningMemberDoesNotCommit(t *testing.T) {
	b := joiningOfFive(t)
	b.shows(4, number(5, 1))
	b.shows(1, number(5, 1))
	if got := b.status(0, 4); got != member.Joining {
		t.Errorf("held by two voters of five: got %v, want %v", got, member.Joining)
	}
	b.shows(2, number(5, 1))
	if got := b.status(0, 4); got != member.Active {
		t.Errorf("held by three voters: got %v, want %v", got, member.Active)
	}
}

// A joining member that supports the leader does not count for the lease, because it is not a
// voter.
func TestAJoiningMemberDoesNotExtendTheLease(t *testing.T) {
	b := joiningOfFive(t)
	b.shows(4, number(5, 0))
	b.shows(1, number(5, 0))
	if v, _ := b.nodes[0].Authority(b.now); v != 0 {
		t.Errorf("echoed by one other voter: got authority for %d, want none", v)
	}
	b.shows(2, number(5, 0))
	if v, _ := b.nodes[0].Authority(b.now); v != 5 {
		t.Errorf("echoed by two other voters: got authority for %d, want 5", v)
	}
}

// A joiner that has to wait, for the old store to be silent and then for a commit, gets its place
// only once, as soon as possible, without repeating its request.
func TestAWaitingJoinerGetsItsPlaceOnce(t *testing.T) {
	b := aLeader(t, 5)
	in := event(1, member.Claim{}, message.JoinClusterRequest{})
	in.From = newStore(run(1, 2))
	if out := b.hand(in); !gave(out, message.ReasonAddressHeld) {
		t.Fatalf("got traces %+v, want it to wait", out.Trace)
	}
	b.run(b.timings.HeartbeatTimeout + 1)
	if got := b.status(0, 1); got != member.Unreachable {
		t.Fatalf("got %v, want it to wait for the commit of %v\n%s", got, member.Unreachable, b)
	}
	for range 2 {
		for i := 2; i < 5; i++ {
			b.hand(b.keepAlive(i, b.now))
		}
	}
	accepted := 0
	for _, f := range b.mail(0, message.KindJoinClusterResponse) {
		if f.msg.Body.(message.JoinClusterResponse).Accepted {
			accepted++
		}
	}
	if got := b.status(0, 1); accepted != 1 || got != member.Joining {
		t.Errorf("got %v, accepted %d times, want %v after one", got, accepted, member.Joining)
	}
}

// A member that leaves before it is active asks for no place again when it has lost its place.
func TestAJoiningMemberThatLeavesAsksForNoPlace(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	i, other := b.others(l)[0], b.others(l)[1]
	b.crash(i)
	b.until(b.timings.LeaderTimeout, "silent member", func() bool {
		return b.status(l, i) == member.Unreachable
	})
	b.run(b.timings.HeartbeatInterval)
	b.nodes[i].durable = paxos.Durable{StoreID: member.StoreID{99}}
	b.start(i)
	b.awaitStatus(b.timings.RetryInterval, l, i, member.Joining)
	b.isolate(other) // nothing is committed
	b.until(b.timings.HeartbeatInterval, "joining member", func() bool {
		return b.status(i, i) == member.Joining
	})
	mark := len(b.sent)
	b.take(b.nodes[i], b.nodes[i].Leave(b.now))
	b.run(b.timings.HeartbeatInterval)
	if asked := b.mail(mark, message.KindJoinClusterRequest); len(asked) > 0 || b.nodes[i].up ||
		b.status(l, i) != member.Removed {
		t.Errorf("up %v, asked %v, and the leader shows it as %v, want it stopped and removed\n%s",
			b.nodes[i].up, asked, b.status(l, i), b)
	}
}
