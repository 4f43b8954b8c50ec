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

// Tests for "numbers cannot be used up" (protocol.md 3).

// raised returns a join to node l in which every number is the n-th of a rising sequence. The
// sender is the stranger, or a process with another store at a member's address.
func (b *bus) raised(l, n int) message.Message {
	v, step := b.view(l).Version, uint64(1+n*97%(1<<16))
	join := message.JoinClusterRequest{Bound: v + step, Held: number(v+step, step)}
	switch n % 4 {
	case 1:
		join.Held = member.Number{}
	case 2:
		join.Bound = 0
	case 3: // only the run is later
		join = message.JoinClusterRequest{}
	}
	others := b.others(l)
	from := run([]int{stranger, others[0], others[1]}[n%3], 2+uint64(n)<<33)
	if from.Address != addr(stranger) {
		from = newStore(from)
	}
	return message.Message{
		From: from, To: addr(l), Cluster: b.nodes[l].durable.Held.Cluster, Body: join,
	}
}

// A node without a vote never raises the version: neither does a process that joins again and again
// with greater numbers.
func TestJoinsOfOthersRaiseNoVersion(t *testing.T) {
	for name, silent := range map[string]bool{"members heard": false, "a member silent": true} {
		b := formed(t, 5, 5)
		l := b.leads()
		if silent {
			b.crash(b.others(l)[0])
		}
		before := b.view(l).Version
		for n := range 1000 {
			in := b.raised(l, n)
			b.handTo(l, in)
			// The same process shows the same numbers as a member.
			b.handTo(l, message.Message{
				From: in.From, To: addr(l), Cluster: in.Cluster, Claim: b.nodes[l].durable.Held.Claim(),
				Body: message.LeaderKeepAlive{Bound: before + 1 + uint64(n)},
			})
			b.run(b.timings.HeartbeatInterval / 4)
			if v := b.view(l); b.quorate() != l || v.Version != before {
				t.Fatalf("%s, after join %d (%+v): got n%d as the leader of version %d, want n%d of %d\n%s",
					name, n+1, in, b.quorate()+1, v.Version, l+1, before, b)
			}
		}
		if n := b.count(l, statemachine.Raised, addr(stranger)); n != 0 {
			t.Errorf("%s: got %d versions raised by a stranger, want none", name, n)
		}
	}
}

// A joining member that got its place raises no version either, because it has no vote.
func TestAJoiningMemberRaisesNoVersion(t *testing.T) {
	b := joiningOfFive(t)
	k := message.LeaderKeepAlive{Number: number(5, 1), Bound: 6}
	if out := b.hand(event(4, chosen(5, 0), k)); !gave(out, message.ReasonVersionJump) {
		t.Errorf("a keep-alive: got traces %+v, want it refused with %v", out.Trace,
			message.ReasonVersionJump)
	}
	join := message.JoinClusterRequest{Bound: 6}
	if out := b.hand(event(4, member.Claim{}, join)); !gave(out, message.ReasonVersionJump) {
		t.Errorf("a join: got traces %+v, want it refused with %v", out.Trace, message.ReasonVersionJump)
	}
	if sent := b.mail(0, message.KindProposal); len(sent) > 0 {
		t.Errorf("sent %v, want no proposal", sent)
	}
}

// A leader exceeds the version to which a voter is bound at most once in TTLTimeout, and by at most
// 2^16.
func TestAVoterRaisesTheVersionOnceInTTLTimeout(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.leads()
	from := b.nodes[b.others(l)[0]]
	type raise struct {
		at      time.Time
		version uint64
	}
	all := []raise{{version: b.view(l).Version}}
	began := b.now
	for range 1000 {
		b.handTo(l, message.Message{
			From: from.View(b.now).Self, To: addr(l), Cluster: from.durable.Held.Cluster,
			Body: message.JoinClusterRequest{Bound: b.view(l).Version + paxos.MaxVersionJump, Seed: true},
		})
		b.run(b.timings.HeartbeatInterval / 2)
		if b.quorate() != l {
			continue
		}
		if v := b.view(l).Version; v != all[len(all)-1].version {
			all = append(all, raise{b.now, v})
		}
	}
	took := b.now.Sub(began)
	if n, most := len(all)-1, 1+int(took/b.timings.TTLTimeout); n < 2 || n > most {
		t.Fatalf("got the version raised %d times in %v, want 2 to %d\n%s", n, took, most, b)
	}
	for i := 1; i < len(all); i++ {
		if by := all[i].version - all[i-1].version; by != paxos.MaxVersionJump+1 {
			t.Errorf("raise %d: got %d after %d, want one above 2^16 more", i, all[i].version,
				all[i-1].version)
		}
		// The loop above notices a raise up to half an interval late.
		gap, least := all[i].at.Sub(all[i-1].at), b.timings.TTLTimeout-b.timings.HeartbeatInterval
		if i > 1 && gap < least {
			t.Errorf("raise %d came %v after the one before, want at least %v", i, gap,
				b.timings.TTLTimeout)
		}
	}
	if n := b.count(l, statemachine.Raised, from.addr); n != len(all)-1 {
		t.Errorf("traced %d raises, want %d", n, len(all)-1)
	}
	b.settle(3)
}

// The limit holds for all voters together, and for a node through all of its leaderships.
func TestAllVotersTogetherRaiseTheVersionOnce(t *testing.T) {
	b := aQuorateLeader(t, 3)
	bound := func(from int, version uint64) bool {
		t.Helper()
		v := b.view(0).Version
		k := message.LeaderKeepAlive{Number: number(v, 0), Bound: version}
		out := b.hand(event(from, chosen(v, 0), k))
		if refused := gave(out, message.ReasonVersionJump); refused == traced(out, statemachine.Raised) {
			t.Fatalf("got traces %+v, want either a refusal or a raise", out.Trace)
		}
		return traced(out, statemachine.Raised)
	}
	if bound(1, 4+paxos.MaxVersionJump+1) {
		t.Error("n2 raised the version by more than 2^16")
	}
	if !bound(1, 6) {
		t.Error("n2, bound to 6: version 4 was not raised")
	}
	if bound(2, 9) {
		t.Error("n3, bound to 9: raised the version a moment after n2")
	}
	b.wins(b.lastProposal()) // pre
	b.wins(b.lastProposal()) // formal
	if v := b.view(0); v.Role != member.Leading || v.Version != 7 {
		t.Fatalf("got %v of version %d, want the leader of 7\n%s", v.Role, v.Version, b)
	}
	if bound(2, 9) {
		t.Error("n3, bound to 9: raised version 7 a moment after n2 raised 4")
	}
}

func (b *bus) lastProposal() message.Proposal {
	b.t.Helper()
	return last[message.Proposal](b)
}

// No node votes for a version above member.MaxVersion or takes a state of one. A leader raises no
// version so far.
func TestNoVersionExceedsTheGreatestToken(t *testing.T) {
	const most = member.MaxVersion
	for version, granted := range map[uint64]bool{most: true, most + 1: false} {
		p := pre(2, version)
		p.Held = number(version-1, 7)
		b := aVoter(t, 3)
		out := b.hand(event(2, member.Claim{}, p))
		if v := bodies[message.Vote](out.Send); len(v) != 1 || v[0].Granted != granted {
			t.Errorf("pre proposal for %d: got votes %+v, want granted %v", version, v, granted)
		}
		p = formal(2, version, state(3, version, 0, 2))
		p.Held, p.Base = number(version-1, 7), number(version-1, 7)
		b = aVoter(t, 3)
		b.hand(event(2, member.Claim{}, p))
		if got := b.nodes[0].durable.Bound(); (got == version) != granted {
			t.Errorf("formal proposal for %d: bound to %d, want granted %v", version, got, granted)
		}
		b = aVoter(t, 3)
		b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(3, version, 0, 1)}))
		if got := b.nodes[0].durable.Held.Version; (got == version) != granted {
			t.Errorf("state of version %d: holds version %d, want taken %v", version, got, granted)
		}
		b = softFollower(t)
		b.hand(event(1, provisional(version, 1), message.SeedKeepAlive{}))
		b.hand(event(1, provisional(version, 1), message.JoinClusterResponse{Accepted: true}))
		b.hand(event(1, provisional(version, 1),
			message.ClusterAlignment{State: state(3, version, 1, 1)}))
		if got := b.view(0).Version; (got == version) != granted {
			t.Errorf("provisional state of version %d: shows %d, want shown %v", version, got, granted)
		}
	}
	for bound, wanted := range map[uint64]bool{most - 1: true, most: false} {
		b := aVoter(t, 3)
		b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(3, most-9, 0, 0)}))
		out := b.hand(event(1, chosen(most-9, 0), message.LeaderKeepAlive{Bound: bound}))
		if got := traced(out, statemachine.Raised); got != wanted {
			t.Errorf("a voter bound to %d: version raised %v, want %v, traces %+v", bound, got, wanted,
				out.Trace)
		}
	}
}

// A node accepts no formal proposal in whose state it has no vote, since its vote would not count.
// So it is not bound, and a leader that never learns of the proposal keeps it.
func TestANodeWithoutAVoteIsNotBound(t *testing.T) {
	joining := func(s member.State) member.State {
		s.Roster = slices.Clone(s.Roster)
		s.Roster[0].Status = member.Joining
		return s
	}
	b := holding(t, 4, joining(state(4, 3, 0, 1)))
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	p := formal(2, 5, joining(state(4, 5, 0, 2)))
	p.Base = number(3, 0)
	v := bodies[message.Vote](b.hand(event(2, member.Claim{}, p)).Send)
	if len(v) != 1 || v[0].Granted || v[0].Reason != message.ReasonNotVoter {
		t.Errorf("got votes %+v, want one refused with %v", v, message.ReasonNotVoter)
	}
	if got := b.nodes[0].durable.Bound(); got != 0 {
		t.Errorf("bound to %d, want none", got)
	}
	b.hand(event(1, chosen(4, 1), message.ClusterAlignment{State: joining(state(4, 4, 0, 1))}))
	if view := b.view(0); view.Leader != addr(1) || view.Version != 4 {
		t.Errorf("follows %v of version %d, want n2 of 4\n%s", view.Leader, view.Version, b)
	}
	// With a vote in the state it accepts the proposal and is bound.
	b = aVoter(t, 3)
	b.hand(event(2, member.Claim{}, formal(2, 5, state(3, 5, 0, 2))))
	if got := b.nodes[0].durable.Bound(); got != 5 {
		t.Errorf("with a vote: bound to %d, want 5", got)
	}
}

// A joiner whose run is more than 2^43 above that of the leader is refused. A run at that limit is
// not.
func TestAJoinerIsAtMostSoFarAboveTheLeader(t *testing.T) {
	for above, reason := range map[uint64]message.Reason{
		1 << 43: message.ReasonNone, 1<<43 + 1: message.ReasonRunJump,
	} {
		b := newBus(t, 3, 3)
		b.nodes[0].durable.Held = state(2, 3, 0, 1)
		b.start(0)
		b.run(b.timings.LeaseTimeout + 1)
		b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(2, 4, 0, 0)}))
		out := b.hand(ofRun(2, 1+above, member.Claim{}, message.JoinClusterRequest{}))
		r := bodies[message.JoinClusterResponse](out.Send)
		if len(r) != 1 || r[0].Reason != reason || r[0].Accepted != (reason == message.ReasonNone) {
			t.Errorf("%d above the leader: got %+v, want %v", above, r, reason)
		}
	}
}

// Each joiner can still exceed the run that has its address, by up to 2^10: another store takes the
// place of a run at the limit, and so does the next run of the same store.
func TestAJoinerExceedsTheRunThatHasItsAddress(t *testing.T) {
	const limit, between = 1 + 1<<43, 1 << 10 // the run of the leader is 1
	for name, tc := range map[string]struct {
		next     member.Identity
		accepted bool
	}{
		"the next run of its store": {run(2, limit+1), true},
		"a later run of its store":  {run(2, limit+between), true},
		"an impossible run of it":   {run(2, limit+between+1), false},
		"another store":             {newStore(run(2, limit+1)), true},
		"another store, later":      {newStore(run(2, limit+between)), true},
		"another store, impossible": {newStore(run(2, limit+between+1)), false},
	} {
		b := newBus(t, 3, 3)
		b.nodes[0].durable.Held = state(2, 3, 0, 1)
		b.start(0)
		b.run(b.timings.LeaseTimeout + 1)
		b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(2, 4, 0, 0)}))
		b.hand(ofRun(2, limit, member.Claim{}, message.JoinClusterRequest{}))
		if e := b.entry(2); e.Incarnation != limit {
			t.Fatalf("got entry %+v, want run %d\n%s", e, uint64(limit), b)
		}
		for range b.timings.HeartbeatTimeout / b.timings.HeartbeatInterval { // n3 becomes silent
			b.run(b.timings.HeartbeatInterval)
			b.hand(b.keepAlive(1, b.now))
			b.hand(b.keepAlive(1, b.now))
		}
		in := event(2, member.Claim{}, message.JoinClusterRequest{})
		in.From = tc.next
		r := bodies[message.JoinClusterResponse](b.hand(in).Send)
		if len(r) != 1 || r[0].Accepted != tc.accepted {
			t.Errorf("%s: got %+v, want accepted %v\n%s", name, r, tc.accepted, b)
		}
	}
}

// A seat without a store keeps the number of the run that was lost there, so that a run that had to
// exceed it can still join. An earlier run can too, because no store has the place.
func TestAJoinerExceedsTheRunThatASeatLost(t *testing.T) {
	const limit, between = 1 + 1<<43, 1 << 10 // the run of the leader is 1
	for name, tc := range map[string]struct {
		next     member.Identity
		accepted bool
	}{
		"the run that lost its vote":   {run(2, 1), true},
		"a run that exceeded the lost": {run(2, limit+1), true},
		"another store":                {newStore(run(2, limit+between)), true},
		"another store, impossible":    {newStore(run(2, limit+between+1)), false},
	} {
		b := aQuorateLeader(t, 3)
		b.silence(2, 3, true)
		lost := impostor(2, limit, member.Claim{}, message.JoinClusterRequest{})
		lost.From.StoreID[2]++
		b.hand(lost)
		lost.Claim, lost.Body = chosen(4, 0), message.MemberLeave{}
		b.hand(lost)
		if e := b.entry(2); e.Shown() != member.Removed || e.Incarnation != limit {
			t.Fatalf("got entry %+v, want a seat without a store, of run %d\n%s", e, uint64(limit), b)
		}
		in := event(2, member.Claim{}, message.JoinClusterRequest{})
		in.From = tc.next
		r := bodies[message.JoinClusterResponse](b.hand(in).Send)
		if len(r) != 1 || r[0].Accepted != tc.accepted {
			t.Errorf("%s: got %+v, want accepted %v\n%s", name, r, tc.accepted, b)
		}
	}
}
