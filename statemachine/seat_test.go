// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for the place of a member at whose address another store asks for it, and for the seat of a
// member that is gone (protocol.md 3, restarts and seats).

// asks makes a process with another store at the address of node i ask n1 for a place, in run 2. It
// returns the answer.
func (b *bus) asks(i int) message.JoinClusterResponse {
	b.t.Helper()
	out := b.hand(impostor(i, 2, member.Claim{}, message.JoinClusterRequest{}))
	for _, m := range out.Send {
		if r, ok := m.Body.(message.JoinClusterResponse); ok && m.To == addr(i) {
			return r
		}
	}
	b.t.Fatalf("got no answer to the other store at n%d\n%s", i+1, b)
	return message.JoinClusterResponse{}
}

// entry returns the entry of node i in the state that n1 holds.
func (b *bus) entry(i int) member.Member {
	e, _ := b.nodes[0].durable.Held.Roster.Find(addr(i))
	return e
}

// The vote of the old store is given up only if the process of the old store was not heard within
// HeartbeatTimeout; until then the joiner waits.
func TestAnotherStoreWaitsUntilTheMemberIsSilent(t *testing.T) {
	b := aQuorateLeader(t, 3)
	silent, mark := b.now, len(b.sent)
	if r := b.asks(1); r.Accepted || r.Reason != message.ReasonAddressHeld {
		t.Fatalf("a member that is heard: got %+v, want %v", r, message.ReasonAddressHeld)
	}
	for b.entry(1).Identity == run(1, 1) {
		b.run(time.Millisecond)
		b.hand(b.keepAlive(2, b.now))
		if b.now.Sub(silent) > 2*b.timings.HeartbeatTimeout {
			t.Fatalf("%v after the member was last heard: got no place for the joiner\n%s",
				b.now.Sub(silent), b)
		}
	}
	took := b.now.Sub(silent)
	if late := took - b.timings.HeartbeatTimeout; late < 0 || late > 2*time.Millisecond {
		t.Errorf("got the place %v after the member was last heard, want %v",
			took, b.timings.HeartbeatTimeout)
	}
	if e := b.entry(1); e.Identity != newStore(run(1, 2)) || e.Status != member.Joining {
		t.Errorf("got entry %+v, want the other store joining", e)
	}
	accepted := 0
	for _, f := range b.mail(mark, message.KindJoinClusterResponse) {
		if f.msg.Body.(message.JoinClusterResponse).Accepted {
			accepted++
		}
	}
	if n := b.count(0, statemachine.Replaced, addr(1)); n != 1 || accepted != 1 {
		t.Errorf("traced %d times that the place went to another store, accepted %d, want one of each",
			n, accepted)
	}
}

// A member that is heard again before HeartbeatTimeout has passed keeps its place, however often
// the other store asks.
func TestAMemberThatIsHeardAgainKeepsItsPlace(t *testing.T) {
	b := aQuorateLeader(t, 3)
	for n := range 100 {
		b.run(b.timings.HeartbeatTimeout - b.timings.HeartbeatInterval)
		b.keepQuorate(3)
		if r := b.asks(1); r.Accepted || r.Reason != message.ReasonAddressHeld {
			t.Fatalf("request %d: got %+v, want %v", n+1, r, message.ReasonAddressHeld)
		}
	}
	if e := b.entry(1); e.Identity != run(1, 1) || e.Status != member.Active {
		t.Errorf("got entry %+v, want the member active", e)
	}
	if n := b.count(0, statemachine.Replaced, addr(1)); n != 0 {
		t.Errorf("traced %d times that the place went to another store, want never", n)
	}
}

// A new leader counts every member as heard when it is elected, so another store waits for
// HeartbeatTimeout from then.
func TestAnotherStoreWaitsAfterAnElectionToo(t *testing.T) {
	b := aLeader(t, 3)
	elected := b.now
	for b.now.Sub(elected) < b.timings.HeartbeatTimeout {
		if r := b.asks(1); r.Reason != message.ReasonAddressHeld {
			t.Fatalf("%v after the election: got %+v, want %v", b.now.Sub(elected), r,
				message.ReasonAddressHeld)
		}
		b.run(50 * time.Millisecond)
		b.hand(b.keepAlive(2, b.now))
	}
	b.hand(b.keepAlive(2, b.now)) // commits that n2 is unreachable
	if e := b.entry(1); e.Identity != newStore(run(1, 2)) {
		t.Errorf("after %v: got entry %+v, want the other store", b.timings.HeartbeatTimeout, e)
	}
}

// A provisional leader, too, gives the place of a member that it hears to no other store.
func TestAProvisionalLeaderKeepsThePlaceOfAMember(t *testing.T) {
	b := aFounder(t, 5)
	b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	if r := b.asks(1); r.Reason != message.ReasonAddressHeld {
		t.Errorf("got %+v, want %v", r, message.ReasonAddressHeld)
	}
	b.run(b.timings.HeartbeatTimeout + b.timings.HeartbeatInterval)
	s, _ := b.view(0).Member(addr(1))
	if s.Identity != newStore(run(1, 2)) || s.Status != member.Active {
		t.Errorf("after %v: got %+v, want the other store active\n%s", b.timings.HeartbeatTimeout, s, b)
	}
}

// While a store that lost its vote to another store still claims its address, within TTLTimeout,
// the leader gives up no second vote for another store: the addresses lead to wrong processes.
func TestNoSecondVoteIsGivenUpWhileTheFirstStoreClaimsItsAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		claimant member.StoreID // claims the address of n2; zero for none
		waits    bool
	}{
		"the store that lost its vote": {run(1, 1).StoreID, true},
		"another store":                {member.StoreID{99}, false},
		"nobody":                       {member.StoreID{}, false},
	} {
		b := aQuorateLeader(t, 5)
		b.silence(1, 5, true)
		if r := b.asks(1); !r.Accepted {
			t.Fatalf("%s: got %+v, want the place of n2 given away\n%s", name, r, b)
		}
		b.run(b.timings.HeartbeatInterval)
		b.silence(2, 5, true)
		if !tc.claimant.IsZero() {
			b.take(b.nodes[0], b.nodes[0].AskPeer(b.now, addr(1), tc.claimant))
		}
		claimed, want := b.now, message.ReasonNone
		if tc.waits {
			want = message.ReasonQuorumAtStake
		}
		if r := b.asks(2); r.Reason != want || r.Accepted == tc.waits {
			t.Errorf("%s claims the address of n2, and another store that of n3: got %+v, want %v",
				name, r, want)
		}
		for tc.waits && b.entry(2).Identity == run(2, 1) && b.now.Sub(claimed) < time.Minute {
			b.run(b.timings.HeartbeatInterval)
			b.hand(b.keepAlive(3, b.now))
			b.hand(b.keepAlive(4, b.now))
			b.asks(2)
		}
		took, late := b.now.Sub(claimed), 2*b.timings.HeartbeatInterval
		if tc.waits && (took < b.timings.TTLTimeout || took > b.timings.TTLTimeout+late) {
			t.Errorf("%s: got the place of n3 given away %v after the claim, want %v", name, took,
				b.timings.TTLTimeout)
		}
	}
}

// The rule protects the other votes: the store that lost its place may get it again.
func TestAStoreThatLostItsVoteGetsItsOwnPlaceAgain(t *testing.T) {
	b := aQuorateLeader(t, 5)
	b.silence(1, 5, true)
	b.asks(1)
	e := b.entry(1)
	for range 2 { // the other store becomes a voter
		for _, id := range []member.Identity{e.Identity, run(2, 1), run(3, 1), run(4, 1)} {
			in := b.keepAlive(1, b.now)
			in.From = id
			b.hand(in)
		}
	}
	if e = b.entry(1); !e.IsVoter() {
		t.Fatalf("got entry %+v, want a voter\n%s", e, b)
	}
	b.silence(1, 5, true)
	b.take(b.nodes[0], b.nodes[0].AskPeer(b.now, addr(1), run(1, 1).StoreID))
	b.hand(ofRun(1, 3, member.Claim{}, message.JoinClusterRequest{}))
	if e := b.entry(1); e.Identity != run(1, 3) {
		t.Errorf("got entry %+v, want the first store in its place again\n%s", e, b)
	}
}

// keptFor returns a cluster of three whose machines keep seats for the given time, its leader l,
// and a member i that has just been removed. n4 waits for a seat. left is when i was last heard.
func keptFor(t *testing.T, d time.Duration, onPurpose bool) (b *bus, l, i int, left time.Time) {
	t.Helper()
	b = newBus(t, 3, 3)
	b.add(3)
	for _, n := range b.nodes {
		n.conf = func(c *statemachine.Config) { c.SeatTimeout = d }
	}
	b.start(0, 1, 2)
	b.settle(3)
	l = b.quorate()
	i = b.others(l)[0]
	b.run(time.Second)
	left = b.now
	if onPurpose {
		b.take(b.nodes[i], b.nodes[i].Leave(b.now))
	} else {
		b.crash(i)
	}
	b.start(3)
	b.until(2*b.timings.TTLTimeout, "removed member", func() bool {
		return b.status(l, i) == member.Removed
	})
	return b, l, i, left
}

// The seat of a member that left or was lost is kept for it for SeatTimeout, counted by the leader
// from the last message of the member.
func TestASeatIsKeptForSeatTimeout(t *testing.T) {
	for _, onPurpose := range []bool{false, true} {
		b, l, _, left := keptFor(t, time.Minute, onPurpose)
		b.until(2*time.Minute, "seat of n4", func() bool { return b.status(l, 3) == member.Active })
		took := b.now.Sub(left)
		if least := time.Minute - b.timings.HeartbeatInterval; took < least ||
			took > time.Minute+2*b.timings.RetryInterval {
			t.Errorf("left on purpose %v: got the seat %v after its last message, want %v",
				onPurpose, took, time.Minute)
		}
	}
}

// While a joiner waits for a seat that is kept, the leader traces this once a minute, with the
// member and the time that is left.
func TestAKeptSeatIsTraced(t *testing.T) {
	b, l, i, left := keptFor(t, time.Hour, false)
	var traced []time.Time
	b.nodes[l].trace = nil
	b.until(5*time.Minute, "three traces", func() bool {
		for _, trace := range b.nodes[l].trace {
			if trace.Kind != statemachine.SeatKept {
				continue
			}
			traced = append(traced, b.now)
			want := left.Add(time.Hour).Sub(b.now)
			if off := (trace.Left - want).Abs(); trace.Peer != addr(i) || off > time.Second {
				t.Errorf("traced %+v, want n%d and %v", trace, i+1, want)
			}
		}
		b.nodes[l].trace = nil
		return len(traced) == 3
	})
	if took := traced[2].Sub(traced[0]); took < 2*time.Minute {
		t.Errorf("three traces within %v, want two minutes at least", took)
	}
}

// Its member returns to a seat that is kept, with its vote.
func TestAMemberReturnsToTheSeatThatIsKept(t *testing.T) {
	for _, onPurpose := range []bool{false, true} {
		b, l, i, _ := keptFor(t, time.Minute, onPurpose)
		b.run(20 * time.Second)
		b.start(i)
		b.awaitStatus(time.Second, l, i, member.Active)
		b.run(2 * time.Minute)
		e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i))
		if got := b.status(l, 3); !e.IsVoter() || got != member.None {
			t.Errorf("left on purpose %v: got entry %+v, n4 %v, want it a voter, n4 without a place",
				onPurpose, e, got)
		}
	}
}

// A new leader counts SeatTimeout from its own election, because it does not know when the member
// was last heard.
func TestANewLeaderCountsSeatTimeoutAgain(t *testing.T) {
	b, l, _, left := keptFor(t, time.Minute, false)
	b.run(30 * time.Second)
	out, err := b.nodes[l].Transfer(b.now, member.Address{})
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[l], out)
	b.until(time.Second, "next leader", func() bool { q := b.quorate(); return q >= 0 && q != l })
	l, elected := b.quorate(), b.now
	b.until(2*time.Minute, "seat of n4", func() bool { return b.status(l, 3) == member.Active })
	took := b.now.Sub(elected)
	if least := time.Minute - b.timings.HeartbeatInterval; took < least ||
		took > time.Minute+2*b.timings.RetryInterval {
		t.Errorf("got the seat %v after the election, %v after the last message, want %v after the first",
			took, b.now.Sub(left), time.Minute)
	}
}

// An operator may remove a seat earlier.
func TestAnOperatorRemovesASeatThatIsKept(t *testing.T) {
	for _, onPurpose := range []bool{false, true} {
		b, l, i, _ := keptFor(t, 24*time.Hour, onPurpose)
		b.run(b.timings.TTLTimeout)
		if got := b.status(l, i); got != member.Removed {
			t.Fatalf("left on purpose %v: got %v, want its seat kept", onPurpose, got)
		}
		b.isolate(3) // the joiner would get the place
		out, _, err := b.nodes[l].ReleaseSeats(b.now, 2)
		if err != nil {
			t.Fatal(err)
		}
		b.take(b.nodes[l], out)
		if e, ok := b.nodes[l].durable.Held.Roster.Find(addr(i)); ok {
			t.Errorf("left on purpose %v: requested: got entry %+v, want none", onPurpose, e)
		}
	}
}

// loseAnotherStore lets another store take the place of node i at leader l and then leave or fall
// silent before it has a vote. It returns when the leader has noticed.
func (b *bus) loseAnotherStore(l, i int, leaves bool) time.Time {
	b.t.Helper()
	e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i))
	other := message.Message{From: newStore(e.Identity), To: addr(l)}
	other.From.Incarnation += 1000 // later than any run of the member
	other.Body = message.JoinClusterRequest{}
	b.deliver(other)
	b.until(b.timings.HeartbeatTimeout, "place of the other store", func() bool {
		return b.status(l, i) == member.Joining
	})
	if leaves {
		other.Claim, other.Body = b.claim(l), message.MemberLeave{}
		b.deliver(other)
	}
	b.until(2*b.timings.TTLTimeout, "loss of the other store", func() bool {
		return b.status(l, i) != member.Joining
	})
	return b.now
}

// A seat stays if another store takes it and is lost before it has a vote: no other address gets it
// within SeatTimeout, and its member returns to it.
func TestASeatIsKeptWhenAnotherStoreThatTookItIsLost(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		b, l, i, _ := keptFor(t, time.Minute, false)
		lost := b.loseAnotherStore(l, i, leaves)
		if got := b.status(l, i); got != member.Removed {
			t.Errorf("leaves %v: views show the seat as %v, want removed", leaves, got)
		}
		b.until(2*time.Minute, "seat of n4", func() bool { return b.status(l, 3) == member.Active })
		if took := b.now.Sub(lost); took < time.Minute || took > time.Minute+2*b.timings.RetryInterval {
			t.Errorf("leaves %v: n4 got the seat after %v, want %v", leaves, took, time.Minute)
		}

		b, l, i, _ = keptFor(t, time.Hour, false)
		b.loseAnotherStore(l, i, leaves)
		b.loseAnotherStore(l, i, leaves)
		b.run(b.timings.TTLTimeout)
		b.start(i)
		b.awaitStatus(time.Second, l, i, member.Active)
		e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i))
		if e.Gone || e.Identity != b.nodes[i].View(b.now).Self {
			t.Errorf("leaves %v: the member returned, got entry %+v", leaves, e)
		}

		b, l, i, _ = keptFor(t, time.Hour, false)
		b.loseAnotherStore(l, i, leaves)
		b.run(b.timings.HeartbeatInterval) // the members save that state
		b.isolate(3)
		if out, _, err := b.nodes[l].ReleaseSeats(b.now, 2); err != nil {
			t.Error(err)
		} else {
			b.take(b.nodes[l], out)
		}
		if e, ok := b.nodes[l].durable.Held.Roster.Find(addr(i)); ok {
			t.Errorf("leaves %v: requested by an operator: got entry %+v, want none", leaves, e)
		}
	}
}

// The run that lost its vote returns to such a seat too, without a restart. That is not traced as
// the loss of a place to another store.
func TestARunThatWasCutOffReturnsToASeatWithoutAStore(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	i := b.others(l)[0]
	self := b.nodes[i].View(b.now).Self
	b.isolate(i)
	b.until(b.timings.LeaderTimeout, "silent member", func() bool {
		return b.status(l, i) == member.Unreachable
	})
	b.run(b.timings.HeartbeatInterval)
	b.loseAnotherStore(l, i, true)
	b.heal()
	b.awaitStatus(b.timings.TTLTimeout, l, i, member.Active)
	e, _ := b.nodes[l].durable.Held.Roster.Find(addr(i))
	if e.Gone || e.Identity != self || !b.nodes[i].up {
		t.Errorf("the run returned: got entry %+v, stopped by %v, want %v", e, b.nodes[i].stop, self)
	}
	if n := b.count(l, statemachine.Replaced, addr(i)); n != 1 {
		t.Errorf("traced %d times that the place went to another store, want once", n)
	}
}

// A release is done when the roster has the given number of entries, or when no seat is left to
// remove because a joiner got it, and the members hold that state.
func TestAReleaseEndsWhenAJoinerGotTheSeat(t *testing.T) {
	for name, joins := range map[string]bool{"removed": false, "given to a joiner": true} {
		b, l, i, _ := keptFor(t, time.Minute, false)
		if joins {
			b.until(2*time.Minute, "seat of n4", func() bool { return b.status(l, 3) == member.Active })
		} else {
			b.crash(3)
			b.run(3 * b.timings.RetryInterval) // the leader forgets that n4 waits
		}
		var done bool
		b.until(b.timings.TTLTimeout, "end of the release", func() bool {
			out, d, err := b.nodes[l].ReleaseSeats(b.now, 2)
			if err != nil {
				t.Fatal(err)
			}
			b.take(b.nodes[l], out)
			done = d
			return d
		})
		roster := b.nodes[l].durable.Held.Roster
		if _, kept := roster.Find(addr(i)); kept || !done || (len(roster) == 3) != joins {
			t.Errorf("the seat was %s: done %v with roster %v, want it done without n%d", name, done,
				roster, i+1)
		}
		for _, j := range b.others(l) {
			if held := b.nodes[j].durable.Held; b.nodes[j].up && len(held.Roster) != len(roster) {
				t.Errorf("the seat was %s: n%d holds %v, want the state of the leader", name, j+1,
					held.Roster)
			}
		}
	}
}
