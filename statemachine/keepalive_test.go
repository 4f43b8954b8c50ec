// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Tests for keep-alives, health and restarts (protocol.md 5) and for the transfer of states
// (protocol.md 2).

// Every HeartbeatInterval a leader sends an unsolicited LeaderKeepAliveAck, and the follower
// answers: two messages per member and no more.
func TestALeaderAcksUnaskedAndEachAnswersOnce(t *testing.T) {
	b := formed(t, 5, 5)
	mark := len(b.sent)
	const intervals = 10
	b.run(intervals * b.timings.HeartbeatInterval)
	want := map[message.Kind]int{
		message.KindLeaderKeepAliveAck: 4 * intervals,
		message.KindLeaderKeepAlive:    4 * intervals,
	}
	got := make(map[message.Kind]int)
	for i, f := range b.sent[mark:] {
		got[f.msg.Body.Kind()]++
		k, ok := f.msg.Body.(message.LeaderKeepAlive)
		if taken := f.at.Add(-b.latency).UnixNano(); ok && k.Echo.Clock != taken {
			t.Errorf("event %d: got stamp %d echoed, want that of the ack just taken, %d",
				i, k.Echo.Clock, taken)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got events %v in %d intervals, want %v", got, intervals, want)
	}
}

// A follower that gets no acks sends a keep-alive one and a half intervals after its last one.
func TestAFollowerWithoutAcksSendsAKeepAlive(t *testing.T) {
	b := supporter(t)
	b.run(b.timings.LeaderTimeout - 1)
	got := b.mail(0, message.KindLeaderKeepAlive)
	// The first keep-alive shows the state, and the second echoes the first stamp. Both keep-alives
	// are sent immediately.
	gap := b.timings.HeartbeatInterval * 3 / 2
	if want := 2 + int(b.timings.LeaderTimeout/gap); len(got) != want {
		t.Errorf("got %d keep-alives within LeaderTimeout, want %d", len(got), want)
	}
	held := state(3, 3, 1, 1)
	for i, f := range got {
		k := f.msg.Body.(message.LeaderKeepAlive)
		if f.msg.To != addr(1) || k.Number != held.Number || k.Digest != held.Digest() {
			t.Errorf("keep-alive %d to %v shows %v %x, want %v %x to n2",
				i, f.msg.To, k.Number, k.Digest, held.Number, held.Digest())
		}
		if i >= 2 && f.at.Sub(got[i-1].at) != gap {
			t.Errorf("keep-alive %d: got %v after the last, want %v", i, f.at.Sub(got[i-1].at), gap)
		}
	}
}

// A follower answers an ack whose stamp is three quarters of an interval newer than the last stamp
// that the follower echoed.
func TestAnAckIsAnsweredOnceAnInterval(t *testing.T) {
	b := aFollower(t, 3)
	b.hand(event(1, chosen(3, 1), b.ack(b.now.UnixNano())))
	least := b.timings.HeartbeatInterval / 4 * 3
	for i, tc := range []struct {
		after time.Duration
		want  int
	}{{least - 1, 0}, {1, 1}, {0, 0}, {least - 1, 0}, {1, 1}} {
		b.run(tc.after)
		out := b.hand(event(1, chosen(3, 1), b.ack(b.now.UnixNano())))
		if got := len(bodies[message.LeaderKeepAlive](out.Send)); got != tc.want {
			t.Errorf("ack %d, %v later: got %d answers, want %d", i, tc.after, got, tc.want)
		}
	}
}

// A keep-alive that repeats an old stamp does not delay the answer to the next ack. Acks that
// arrive together after a stall are all answered, because each of them can extend the lease.
func TestANewStampIsEchoedImmediately(t *testing.T) {
	b := aFollower(t, 3)
	began, interval := b.now, b.timings.HeartbeatInterval
	b.hand(event(1, chosen(3, 1), b.ack(began.UnixNano())))
	b.run(interval * 3 / 2)
	if got := b.echo(); got.Clock != began.UnixNano() {
		t.Fatalf("the unasked keep-alive echoes %v, want the old stamp", got)
	}
	for i := range 3 {
		stamp := began.Add(time.Duration(i+1) * interval).UnixNano()
		out := b.hand(event(1, chosen(3, 1), b.ack(stamp)))
		got := bodies[message.LeaderKeepAlive](out.Send)
		if len(got) != 1 || got[0].Echo.Clock != stamp {
			t.Errorf("ack %d: got answers %+v, want one that echoes %d", i, got, stamp)
		}
	}
}

// A keep-alive that echoes a new stamp is itself an answer. Any other keep-alive is answered with
// an ack.
func TestAKeepAliveWithoutANewEchoIsAnswered(t *testing.T) {
	b := aQuorateLeader(t, 3)
	b.run(b.timings.HeartbeatInterval / 2)
	for i, tc := range []struct {
		echo time.Time
		want int
	}{{b.now, 0}, {b.now, 1}, {b.now.Add(-1), 1}, {time.Time{}, 1}} {
		out := b.hand(b.keepAlive(1, tc.echo))
		if got := len(bodies[message.LeaderKeepAliveAck](out.Send)); got != tc.want {
			t.Errorf("keep-alive %d: got %d acks, want %d", i, got, tc.want)
		}
	}
}

// If the digest or the number differs, the leader sends a ClusterAlignment.
func TestADifferingDigestBringsTheState(t *testing.T) {
	b := aQuorateLeader(t, 3)
	in := b.keepAlive(1, b.now)
	for _, tc := range []struct {
		name   string
		change func(*message.LeaderKeepAlive)
		want   int
	}{
		{"the same digest", func(*message.LeaderKeepAlive) {}, 0},
		{"another digest", func(k *message.LeaderKeepAlive) { k.Digest++ }, 1},
		{"an earlier revision", func(k *message.LeaderKeepAlive) { k.Number = number(3, 9) }, 1},
	} {
		b.run(b.timings.HeartbeatInterval)
		k := in.Body.(message.LeaderKeepAlive)
		tc.change(&k)
		out := b.hand(event(1, chosen(4, 0), k))
		got := bodies[message.ClusterAlignment](out.Send)
		if len(got) != tc.want {
			t.Errorf("%s: got %d alignments, want %d", tc.name, len(got), tc.want)
		}
		if len(got) > 0 && got[0].State.Number != number(4, 0) {
			t.Errorf("%s: got state %v, want 4.0", tc.name, got[0].State.Number)
		}
	}
}

// Keep-alives that a slow network kept back arrive all at the same time. They bring one state, even
// if they show an earlier version (seed 9300196).
func TestQueuedKeepAlivesBringOneState(t *testing.T) {
	b := aQuorateLeader(t, 3)
	b.run(b.timings.HeartbeatInterval)
	k := b.keepAlive(1, b.now).Body.(message.LeaderKeepAlive)
	got := 0
	for i := range 100 {
		k.Number = number(3, uint64(i))
		out := b.hand(event(1, chosen(3, 0), k))
		got += len(bodies[message.ClusterAlignment](out.Send))
	}
	if got != 1 {
		t.Errorf("100 keep-alives of an earlier version bring %d states, want 1", got)
	}
}

// Alignments and keep-alives must never trigger each other at network speed.
func TestAlignmentAndKeepAliveNeverChaseEachOther(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	// n1 shows a wrong digest in every keep-alive, no matter which state it is sent.
	b.cut = func(m message.Message) bool {
		k, ok := m.Body.(message.LeaderKeepAlive)
		if ok && m.From.Address == addr(0) {
			k.Digest++
			m.Body = k
			b.wire = append(b.wire, flight{b.now.Add(b.latency), m})
			return true
		}
		return false
	}
	mark := len(b.sent)
	const intervals = 50
	b.run(intervals * b.timings.HeartbeatInterval)
	for _, kind := range []message.Kind{message.KindClusterAlignment, message.KindLeaderKeepAlive} {
		n := 0
		for _, f := range b.mail(mark, kind) {
			if f.msg.From.Address == addr(0) || f.msg.To == addr(0) {
				n++
			}
		}
		if n > 2*intervals {
			t.Errorf("got %d of %v in %d intervals, want at most two an interval", n, kind, intervals)
		}
	}
	if got := b.quorate(); got != l {
		t.Errorf("got leader %d, want %d still", got, l)
	}
}

// A leader is healthy while it is quorate, or if it was chosen less than LeaderTimeout ago. Its
// acks show whether it is healthy.
func TestALeaderIsHealthyWhileQuorateOrJustChosen(t *testing.T) {
	for _, tc := range []struct {
		name             string
		at               func(*testing.T) *bus
		after            time.Duration
		healthy, quorate bool
	}{
		{"just chosen", leader, 0, true, false},
		{"chosen almost LeaderTimeout ago", leader, lan.LeaderTimeout - 1, true, false},
		{"quorate", quorate, 0, true, true},
		{"chosen long ago, lease over", longQuorate, lan.LeaseTimeout, false, false},
	} {
		b := tc.at(t)
		b.run(tc.after)
		ask := message.LeaderStatusQuery{ID: 5}
		r := bodies[message.LeaderStatusQueryResponse](b.hand(event(2, member.Claim{}, ask)).Send)
		if len(r) != 1 || r[0].Healthy != tc.healthy {
			t.Errorf("%s: got answers %+v, want healthy %v", tc.name, r, tc.healthy)
		}
		acks := bodies[message.LeaderKeepAliveAck](b.hand(b.keepAlive(2, time.Time{})).Send)
		if len(acks) == 0 || acks[0].Healthy != tc.healthy || acks[0].Quorate != tc.quorate {
			t.Errorf("%s: got acks %+v, want healthy %v, quorate %v", tc.name, acks, tc.healthy, tc.quorate)
		}
	}
}

// longQuorate returns a leader that has been quorate for longer than LeaderTimeout.
func longQuorate(t *testing.T) *bus {
	t.Helper()
	b := aQuorateLeader(t, 3)
	for end := b.now.Add(2 * b.timings.LeaderTimeout); b.now.Before(end); {
		b.run(b.timings.HeartbeatInterval)
		b.keepQuorate(3)
	}
	return b
}

// A follower considers its leader healthy if a healthy ack, or the first state of the leader's
// version, arrived within LeaderTimeout. An unhealthy ack does not count.
func TestAFollowerMissesItsLeaderAfterLeaderTimeout(t *testing.T) {
	for _, tc := range []struct {
		name string
		ack  func(*message.LeaderKeepAliveAck)
		want time.Duration // after the ack; the ack arrived half a LeaderTimeout after the state
	}{
		{"a healthy ack", func(*message.LeaderKeepAliveAck) {}, lan.LeaderTimeout},
		{"one without a stamp", func(a *message.LeaderKeepAliveAck) {
			a.Stamp = message.Stamp{}
		}, lan.LeaderTimeout},
		{"an unhealthy ack", func(a *message.LeaderKeepAliveAck) {
			a.Healthy = false
		}, lan.LeaderTimeout / 2},
	} {
		b := aFollower(t, 3)
		b.run(b.timings.LeaderTimeout / 2)
		ack := b.ack(1)
		tc.ack(&ack)
		b.hand(event(1, chosen(3, 1), ack))
		took := b.until(time.Minute, "suspicion", func() bool { return b.view(0).Leader.IsZero() })
		if took != tc.want {
			t.Errorf("%s: got the leader missed after %v, want %v", tc.name, took, tc.want)
		}
	}
}

// A follower that follows the same version again does not consider its leader healthy for longer.
func TestFollowingTheSameVersionAgainRestartsNothing(t *testing.T) {
	b := aFollower(t, 3)
	b.until(time.Minute, "suspicion", func() bool { return b.view(0).Leader.IsZero() })
	b.run(b.timings.HeartbeatInterval)
	// The leader accepts it again but is not healthy.
	b.hand(event(1, chosen(3, 1), message.SeedKeepAlive{}))
	b.hand(event(1, chosen(3, 1), message.JoinClusterResponse{Accepted: true}))
	if v := b.view(0); v.Leader != addr(1) {
		t.Fatalf("got no follower of n2\n%s", b)
	}
	ask := message.LeaderStatusQuery{ID: 5}
	r := bodies[message.LeaderStatusQueryResponse](b.hand(event(2, member.Claim{}, ask)).Send)
	if len(r) != 1 || r[0].Healthy {
		t.Errorf("follows n2 again: got answers %+v, want not healthy", r)
	}
}

// A leader that only one bridging member can reach does not keep the others from electing another
// leader.
func TestABridgingMemberDoesNotKeepTheOthersFromElecting(t *testing.T) {
	b := formed(t, 5, 5)
	old := b.quorate()
	bridge := b.others(old)[0]
	b.cut = func(m message.Message) bool {
		from, to := m.From.Address, m.To
		return from == addr(old) && to != addr(bridge) || to == addr(old) && from != addr(bridge)
	}
	took := b.until(3*b.timings.LeaderTimeout, "another leader", func() bool {
		l := b.quorate()
		return l >= 0 && l != old
	})
	t.Logf("elected after %v", took)
	b.heal()
	b.settle(5)
}

// Every HeartbeatInterval the leader also sends its claim to every seed and member that has sent it
// nothing as a follower within HeartbeatTimeout. So no group of nodes stays isolated.
func TestALeaderSendsItsClaimToSeedsAndSilentMembers(t *testing.T) {
	b := newBus(t, 4, 2) // n1 and n2 are seeds; n5 is a seed but not a member
	b.seeds = append(b.seeds, addr(4))
	for _, n := range b.nodes {
		n.durable.Held = state(4, 3, 0, 1)
	}
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(4, 4, 0, 0)}))
	mark := len(b.sent)
	count := make(map[member.Address]int)
	const intervals = 10
	for range intervals {
		b.hand(b.keepAlive(1, b.now)) // n1 always hears n2 and n3, but never n4
		b.hand(b.keepAlive(2, b.now))
		b.run(b.timings.HeartbeatInterval)
	}
	for _, f := range b.mail(mark, message.KindSeedKeepAlive) {
		count[f.msg.To]++
		if f.msg.Claim != chosen(4, 0) {
			t.Errorf("got claim %v, want that of n1 for version 4", f.msg.Claim)
		}
	}
	want := map[member.Address]int{addr(1): 0, addr(2): 0, addr(3): intervals, addr(4): intervals}
	for a, n := range want {
		if got := count[a]; got < n-1 || got > n {
			t.Errorf("%v: got %d claims in %d intervals, want %d", a, got, intervals, n)
		}
	}
}

// For LeaseTimeout after its start, a node votes only for the leader of its held state, if that
// leader was another node.
func TestARestartedNodeVotesForNoOtherDuringLeaseTimeout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leader int // leader of the held state
		memory bool
		after  time.Duration
		votes  []int // the nodes among n2 and n3 for which n1 votes
	}{
		{"immediately", 1, false, 0, []int{1}},
		{"just before the end", 1, false, lan.LeaseTimeout - 1, []int{1}},
		{"then", 1, false, lan.LeaseTimeout, []int{1, 2}},
		{"itself led", 0, false, 0, []int{1, 2}},
		{"a memory store, immediately", 1, true, 0, nil},
		{"a memory store that led", 0, true, 0, nil},
		{"a memory store, then", 1, true, lan.LeaseTimeout, []int{1, 2}},
	} {
		for _, candidate := range []int{1, 2} {
			b := holding(t, 3, state(3, 3, 0, tc.leader))
			b.nodes[0].conf = func(c *statemachine.Config) { c.Volatile = tc.memory }
			b.start(0)
			b.run(tc.after)
			want := slices.Contains(tc.votes, candidate)
			granted, why := b.helps(candidate, 4)
			if granted != want || !granted && why != message.ReasonStartWait {
				t.Errorf("%s: n%d asks: got granted %v, %v, want %v",
					tc.name, candidate+1, granted, why, want)
			}
		}
	}
}

// The wait ends early if the leader of the held state gives up exactly that leadership, by
// ReJoinCluster or MemberLeave with its version and incarnation.
func TestTheWaitAfterAStartEndsWithTheLeadershipThatItIsFor(t *testing.T) {
	from := func(m message.Message, change func(*member.Identity)) message.Message {
		change(&m.From)
		return m
	}
	leave := func(from int, c member.Claim) message.Message {
		return event(from, member.Claim{}, message.MemberLeave{GivenUp: c})
	}
	rejoin := func(from int, c member.Claim) message.Message {
		return event(from, member.Claim{}, message.ReJoinCluster{GivenUp: c})
	}
	for _, tc := range []struct {
		name   string
		in     message.Message
		memory bool
		want   bool
	}{
		{"it hands over", leave(1, chosen(3, 1)), false, true},
		{"it steps down", rejoin(1, chosen(3, 1)), false, true},
		{"it gave up an earlier version", leave(1, chosen(2, 1)), false, false},
		{"it gave up a later version", leave(1, chosen(4, 1)), false, false},
		{"it gave up what was provisional", leave(1, provisional(3, 1)), false, false},
		{"another gave that version up", leave(2, chosen(3, 2)), false, false},
		{"sent by another node", leave(2, chosen(3, 1)), false, false},
		{"sent by its later run", from(leave(1, chosen(3, 1)), func(id *member.Identity) {
			id.Incarnation++
		}), false, false},
		{"sent by another store at its address", from(leave(1, chosen(3, 1)), func(id *member.Identity) {
			*id = newStore(*id)
		}), false, false},
		{"a member leaves", event(1, member.Claim{}, message.MemberLeave{}), false, false},
		{"it hands over, and this is a memory store", leave(1, chosen(3, 1)), true, false},
	} {
		b := holding(t, 3, state(3, 3, 0, 1))
		b.nodes[0].conf = func(c *statemachine.Config) { c.Volatile = tc.memory }
		b.start(0)
		out := b.hand(tc.in)
		if at := b.nodes[0].VotesAt(); !at.After(b.now) != tc.want || tc.want && !out.Changed {
			t.Errorf("%s: it votes %v later, changed %v, want the wait ended: %v",
				tc.name, at.Sub(b.now), out.Changed, tc.want)
		}
		granted, why := b.helps(2, 4)
		if granted != tc.want || !granted && why != message.ReasonStartWait {
			t.Errorf("%s: got granted %v, %v, want %v", tc.name, granted, why, tc.want)
		}
	}
}

// A keep-alive that follows an earlier leadership of this node is answered with the better claim
// (section 2).
func TestAKeepAliveToAFormerLeaderIsAnswered(t *testing.T) {
	b := aFollower(t, 3)
	for _, c := range []member.Claim{chosen(2, 0), provisional(9, 0)} {
		out := b.hand(event(2, c, message.LeaderKeepAlive{}))
		r := bodies[message.ReJoinCluster](out.Send)
		want := message.ReJoinCluster{GivenUp: c, Winner: chosen(3, 1)}
		if len(r) != 1 || r[0] != want {
			t.Errorf("claim %v: got %+v, want %+v", c, r, want)
		}
	}
	// n1 may have been chosen for a later version without knowing it yet.
	out := b.hand(event(2, chosen(4, 0), message.LeaderKeepAlive{}))
	if len(out.Send) != 0 {
		t.Errorf("a version that n1 does not know: got %q, want no answer", kinds(out.Send))
	}
}

// A MemberStatusUpdate applies only to the revision before it. Otherwise the follower requests an
// alignment, once per gap (section 2).
func TestAnUpdateIsAppliedOnTheRevisionBeforeIt(t *testing.T) {
	b := aFollower(t, 3)
	entry := state(3, 3, 1, 1).Roster[2]
	entry.Status = member.Unreachable
	update := func(r uint64) statemachine.Output {
		u := message.MemberStatusUpdate{Number: number(3, r), Member: entry}
		return b.hand(event(1, chosen(3, 1), u))
	}
	for i, tc := range []struct {
		revision uint64
		asks     int
	}{{4, 1}, {4, 0}, {3, 0}, {5, 1}} {
		if got := len(bodies[message.LeaderKeepAlive](update(tc.revision).Send)); got != tc.asks {
			t.Errorf("update %d, to revision %d on 1: got %d keep-alives immediately, want %d",
				i, tc.revision, got, tc.asks)
		}
	}
	if got := b.status(0, 2); got != member.Active {
		t.Fatalf("got n3 %v after updates that do not fit, want %v", got, member.Active)
	}
	update(2)
	if v := b.view(0); v.Revision != 2 || b.status(0, 2) != member.Unreachable {
		t.Errorf("got revision %d, n3 %v, want 2 and %v", v.Revision, b.status(0, 2), member.Unreachable)
	}
	if got := b.nodes[0].durable.Held.Number; got != number(3, 2) {
		t.Errorf("got %v saved, want 3.2", got)
	}
}

// Only the first state of a version makes its leader count as healthy; later revisions do not.
func TestLaterRevisionsShowNoHealth(t *testing.T) {
	b := aFollower(t, 3)
	b.run(b.timings.LeaderTimeout / 2)
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 2, 1)}))
	took := b.until(time.Minute, "suspicion", func() bool { return b.view(0).Leader.IsZero() })
	if want := b.timings.LeaderTimeout / 2; took != want {
		t.Errorf("got the leader missed %v after a revision, want %v", took, want)
	}
}

// The first state of a version may arrive long after the leader accepted the node. The node
// considers the leader healthy from the arrival of that state.
func TestTheFirstStateOfAVersionShowsHealth(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(2, chosen(4, 2), message.SeedKeepAlive{}))
	b.hand(event(2, chosen(4, 2), message.JoinClusterResponse{Accepted: true}))
	b.run(b.timings.LeaderTimeout - 1)
	b.hand(event(2, chosen(4, 2), message.ClusterAlignment{State: state(3, 4, 1, 2)}))
	took := b.until(time.Minute, "suspicion", func() bool { return b.view(0).Leader.IsZero() })
	if took != b.timings.LeaderTimeout {
		t.Errorf("got the leader missed %v after its state came, want %v", took, b.timings.LeaderTimeout)
	}
}

// A node follows a better leader whose state has not arrived yet. It still takes a state of an
// intermediate version, but keeps following the better leader.
func TestAStateInBetweenDoesNotChangeTheLeader(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(2, chosen(6, 2), message.SeedKeepAlive{}))
	b.hand(event(2, chosen(6, 2), message.JoinClusterResponse{Accepted: true}))
	out := b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(3, 5, 0, 1)}))
	if got := b.nodes[0].durable.Held.Number; got != number(5, 0) || len(out.Send) != 0 {
		t.Errorf("got %v held, sent %q, want 5.0 and no word to its leader", got, kinds(out.Send))
	}
	b.hand(event(2, chosen(6, 2), message.ClusterAlignment{State: state(3, 6, 0, 2)}))
	if n := len(b.mail(0, message.KindJoinClusterRequest)); n != 1 || b.view(0).Leader != addr(2) {
		t.Errorf("got leader %v after %d joins, want n3 after one", b.view(0).Leader, n)
	}
}
