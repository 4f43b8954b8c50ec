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

// Tests for support, echoes and the lease (protocol.md 5).

// helps reports whether n1 would now help node i to lead. It delivers a formal proposal, whose
// outcome depends only on support, promise and state.
func (b *bus) helps(i int, version uint64) (bool, message.Reason) {
	b.t.Helper()
	p := formal(i, version, state(b.size, version, 0, i))
	p.Base = b.nodes[0].Durable().Held.Number
	votes := bodies[message.Vote](b.hand(event(i, member.Claim{}, p)).Send)
	if len(votes) != 1 {
		b.t.Fatalf("got %d votes of n1, want one\n%s", len(votes), b)
	}
	return votes[0].Granted, votes[0].Reason
}

// When a follower takes a stamped ack of a chosen leader, it supports that leader for LeaseTimeout
// from then on, whatever its view shows.
func TestAStampedAckMakesSupportForLeaseTimeout(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {lan.LeaseTimeout - 1, false}, {lan.LeaseTimeout, true}} {
		b := aVoter(t, 3) // a node whose wait after the start is over
		b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
		b.hand(event(1, chosen(3, 1), b.ack(1)))
		b.run(tc.after)
		granted, why := b.helps(2, 4)
		if granted != tc.want || !granted && why != message.ReasonSupports {
			t.Errorf("%v after the ack: got granted %v, %v, want %v", tc.after, granted, why, tc.want)
		}
	}
}

// The node may help the leader that it supports.
func TestAFollowerHelpsTheLeaderThatItSupports(t *testing.T) {
	b := supporter(t)
	if granted, why := b.helps(1, 4); !granted {
		t.Errorf("got refused: %v, want granted", why)
	}
}

// Unhealthy acks create support too.
func TestUnhealthyAcksMakeSupport(t *testing.T) {
	b := aFollower(t, 3)
	ack := b.ack(1)
	ack.Healthy, ack.Quorate = false, false
	b.hand(event(1, chosen(3, 1), ack))
	if granted, why := b.helps(2, 4); granted || why != message.ReasonSupports {
		t.Errorf("got granted %v, %v, want refused: %v", granted, why, message.ReasonSupports)
	}
}

// An ack without a stamp creates no support.
func TestAnAckWithoutAStampMakesNoSupport(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
	ack := b.ack(1)
	ack.Stamp = message.Stamp{}
	if out := b.hand(event(1, chosen(3, 1), ack)); len(out.Trace) != 0 {
		t.Errorf("got traces %+v, want none: it is an ordinary ack", out.Trace)
	}
	if granted, why := b.helps(2, 4); !granted {
		t.Errorf("got refused: %v, want granted", why)
	}
}

// ReJoinCluster or MemberLeave of exactly that leader, version and incarnation ends support early.
// So does any message of a later incarnation of the same store id.
func TestSupportEndsEarlyOnlyByThatLeadership(t *testing.T) {
	later := func(m message.Message, more uint64) message.Message {
		m.From.Incarnation += more
		return m
	}
	rejoin := func(from int, c member.Claim) message.Message {
		return event(from, member.Claim{}, message.ReJoinCluster{GivenUp: c})
	}
	leave := func(c member.Claim) message.Message {
		return event(1, member.Claim{}, message.MemberLeave{GivenUp: c})
	}
	otherStore := event(1, member.Claim{}, message.LeaderQuery{})
	otherStore.From = newStore(run(1, 2))
	for _, tc := range []struct {
		name string
		in   message.Message
		want bool
	}{
		{"it steps down", rejoin(1, chosen(3, 1)), true},
		{"it leaves", leave(chosen(3, 1)), true},
		{"a later run of it asks", later(event(1, member.Claim{}, message.LeaderQuery{}), 1), true},
		{"it gives up an earlier version", rejoin(1, chosen(2, 1)), false},
		{"it leaves an earlier version", leave(chosen(2, 1)), false},
		{"it gives up what was provisional", rejoin(1, provisional(3, 1)), false},
		{"sent by another node", rejoin(2, chosen(3, 1)), false},
		{"sent by its later run, about that run", later(rejoin(1, chosen(3, 1)), 1), true},
		{"another store at its address asks", otherStore, false},
		{"its header has no claim", event(1, member.Claim{}, message.SeedKeepAliveAck{}), false},
		{"a voter misses it", event(2, member.Claim{}, message.LeaderStatusQuery{ID: 1}), false},
	} {
		b := supporter(t)
		b.hand(tc.in)
		out := b.hand(event(2, member.Claim{}, pre(2, 4)))
		if ended := !gave(out, message.ReasonSupports); ended != tc.want {
			t.Errorf("%s: support ended: got %v, want %v", tc.name, ended, tc.want)
		}
	}
}

// A leader that gave up, stepped down or restarted never leads that version again, so a later
// stamp of that leadership creates no support.
func TestALateAckOfALeadershipThatEndedMakesNoSupport(t *testing.T) {
	b := supporter(t)
	b.hand(event(1, member.Claim{}, message.ReJoinCluster{GivenUp: chosen(3, 1)}))
	b.hand(event(1, chosen(3, 1), b.ack(2)))
	if out := b.hand(event(2, member.Claim{}, pre(2, 4))); gave(out, message.ReasonSupports) {
		t.Errorf("got support of a leadership that was given up\n%s", b)
	}
}

// A leader stamps only acks to members that showed its own version.
func TestALeaderStampsOnlyForMembersOfItsVersion(t *testing.T) {
	for _, tc := range []struct {
		name  string
		claim member.Claim
		num   member.Number
		want  bool
	}{
		{"its state", chosen(4, 0), number(4, 0), true},
		{"an earlier version", chosen(4, 0), number(3, 0), false},
		{"its version, under an earlier claim", chosen(3, 0), number(4, 0), false},
	} {
		b := aLeader(t, 3)
		out := b.hand(event(1, tc.claim, message.LeaderKeepAlive{Number: tc.num}))
		acks := bodies[message.LeaderKeepAliveAck](out.Send)
		if len(acks) != 1 || acks[0].Stamp.IsZero() == tc.want {
			t.Errorf("%s: got acks %+v, want stamped %v", tc.name, acks, tc.want)
		}
		if want := (message.Stamp{Version: 4, Incarnation: 1, Clock: b.now.UnixNano()}); tc.want &&
			acks[0].Stamp != want {
			t.Errorf("%s: got stamp %+v, want %+v", tc.name, acks[0].Stamp, want)
		}
	}
}

// echo returns the echo in the next keep-alive of n1.
func (b *bus) echo() message.Stamp {
	b.t.Helper()
	mark := len(b.sent)
	b.until(2*b.timings.HeartbeatInterval, "keep-alive of n1", func() bool {
		return slices.ContainsFunc(b.mail(mark, message.KindLeaderKeepAlive), func(f flight) bool {
			return f.msg.From.Address == addr(0)
		})
	})
	return last[message.LeaderKeepAlive](b).Echo
}

// A follower echoes the greatest stamp of its current leader, version and incarnation.
func TestAFollowerEchoesTheGreatestStamp(t *testing.T) {
	b := aFollower(t, 3)
	for _, tc := range []struct{ clock, want int64 }{{5, 5}, {9, 9}, {7, 9}, {12, 12}} {
		b.hand(event(1, chosen(3, 1), b.ack(tc.clock)))
		if got := b.echo(); got != (message.Stamp{Version: 3, Incarnation: 1, Clock: tc.want}) {
			t.Errorf("after an ack stamped %d: got echo %+v, want clock %d", tc.clock, got, tc.want)
		}
	}
}

// A follower echoes the first stamp immediately and others with its next keep-alive (section 2).
func TestTheFirstStampIsEchoedAtOnce(t *testing.T) {
	b := aFollower(t, 3)
	for i, want := range []int{1, 0, 0} {
		out := b.hand(event(1, chosen(3, 1), b.ack(int64(i+1))))
		if got := len(bodies[message.LeaderKeepAlive](out.Send)); got != want {
			t.Errorf("ack %d: got %d keep-alives immediately, want %d", i+1, got, want)
		}
	}
}

// A follower forgets the stamp when the leader, its version or its incarnation changes.
func TestAFollowerForgetsTheEchoWithTheLeadership(t *testing.T) {
	next := state(3, 4, 0, 2)
	again := state(3, 4, 0, 1)
	again.Roster[1].Incarnation = 2
	for name, in := range map[string]message.Message{
		"another leader":  event(2, member.Claim{}, message.LeaderElected{State: next}),
		"another version": event(1, member.Claim{}, message.LeaderElected{State: state(3, 4, 0, 1)}),
		"another run":     event(2, member.Claim{}, message.LeaderElected{State: again}),
	} {
		b := supporter(t)
		b.hand(in)
		if got := b.echo(); !got.IsZero() {
			t.Errorf("%s: got echo %+v, want none", name, got)
		}
	}
}

// A lease ends 0.9 x LeaseTimeout after the M-th newest stamp echoed by the voters of the current
// state. The leader counts itself.
func TestTheLeaseEndsAfterTheMthNewestEcho(t *testing.T) {
	margin := message.LeaseMargin(lan.LeaseTimeout)
	for _, tc := range []struct {
		name   string
		size   int
		echoes []time.Duration // age of the stamp of each of n2, n3, ...; negative for no stamp
		want   time.Duration   // remaining time; 0 for no lease
	}{
		{"N=2", 2, []time.Duration{30}, margin - 30},
		{"N=3, one echo", 3, []time.Duration{30, -1}, margin - 30},
		{"N=3, two echoes", 3, []time.Duration{30, 20}, margin - 20},
		{"N=3, none", 3, []time.Duration{-1, -1}, 0},
		{"N=4, one is not enough", 4, []time.Duration{30, -1, -1}, 0},
		{"N=4, the second newest", 4, []time.Duration{30, 20, 10}, margin - 20},
		{"N=5, one is not enough", 5, []time.Duration{30, -1, -1, -1}, 0},
		{"N=5, two", 5, []time.Duration{30, -1, 10, -1}, margin - 30},
		{"N=5, four", 5, []time.Duration{40, 10, 30, 20}, margin - 20},
		{"N=3, too old", 3, []time.Duration{margin, -1}, 0},
		{"N=3, just not too old", 3, []time.Duration{margin - 1, -1}, 1},
	} {
		b := aLeader(t, tc.size)
		for i, ago := range tc.echoes {
			if ago >= 0 {
				b.hand(b.keepAlive(i+1, b.now.Add(-ago)))
			}
		}
		version, until := b.nodes[0].Authority(b.now)
		if tc.want == 0 {
			if version != 0 {
				t.Errorf("%s: got authority until %v from now, want none", tc.name, until.Sub(b.now))
			}
			continue
		}
		if version != 4 || until.Sub(b.now) != tc.want {
			t.Errorf("%s: got version %d until %v from now, want 4 until %v",
				tc.name, version, until.Sub(b.now), tc.want)
		}
	}
}

// A member without a stamp to echo sends an ordinary keep-alive.
func TestAKeepAliveWithoutAnEchoIsNoRefusal(t *testing.T) {
	b := aLeader(t, 3)
	if out := b.hand(b.keepAlive(1, time.Time{})); len(out.Trace) != 0 {
		t.Errorf("got traces %+v, want none", out.Trace)
	}
}

// An older echo that arrives late has no effect.
func TestALateEchoHasNoEffect(t *testing.T) {
	b := aLeader(t, 3)
	b.hand(b.keepAlive(1, b.now))
	_, before := b.nodes[0].Authority(b.now)
	b.hand(b.keepAlive(1, b.now.Add(-time.Millisecond)))
	if _, after := b.nodes[0].Authority(b.now); !after.Equal(before) {
		t.Errorf("got a lease until %v, want %v still", after, before)
	}
}

// The leader counts an echo only for the address, store id and incarnation in its current state.
func TestEchoesOfOthersDoNotCount(t *testing.T) {
	change := map[string]func(*message.Message){
		"another store": func(m *message.Message) { m.From = newStore(m.From) },
		"another run":   func(m *message.Message) { m.From.Incarnation++ },
		"a stranger":    func(m *message.Message) { m.From = run(7, 1) },
		"of another version": func(m *message.Message) {
			k := m.Body.(message.LeaderKeepAlive)
			k.Echo.Version = 3
			m.Body = k
		},
		"of another run of the leader": func(m *message.Message) {
			k := m.Body.(message.LeaderKeepAlive)
			k.Echo.Incarnation = 2
			m.Body = k
		},
	}
	for name, f := range change {
		b := aLeader(t, 3)
		in := b.keepAlive(1, b.now)
		f(&in)
		b.hand(in)
		if v, _ := b.nodes[0].Authority(b.now); v != 0 {
			t.Errorf("an echo of %s: got authority, want none", name)
		}
	}
}

// Authority ends before anything else happens.
func TestAuthorityEndsWithTheLease(t *testing.T) {
	b := aQuorateLeader(t, 3)
	end := b.now.Add(message.LeaseMargin(b.timings.LeaseTimeout))
	if v, _ := b.nodes[0].Authority(end.Add(-1)); v != 4 {
		t.Errorf("just before the end: got version %d, want 4", v)
	}
	if v, _ := b.nodes[0].Authority(end); v != 0 {
		t.Errorf("at the end, nothing called: got version %d, want none", v)
	}
	if d := b.nodes[0].Deadline(); d.After(end) {
		t.Errorf("got the next deadline %v after the end of the lease", d.Sub(end))
	}
	b.run(end.Sub(b.now))
	out := b.nodes[0].Advance(end)
	b.take(b.nodes[0], out)
	if !traced(out, statemachine.LostAuthority) || !out.Changed {
		t.Errorf("got traces %+v, changed %v, want the loss shown", out.Trace, out.Changed)
	}
}

// A leader without a lease keeps its role, and is quorate again once it gets fresh echoes.
func TestALeaderWithoutALeaseLeadsOnInName(t *testing.T) {
	b := aQuorateLeader(t, 3)
	b.run(b.timings.LeaseTimeout)
	if v := b.view(0); v.Role != member.Leading || v.Quorate {
		t.Fatalf("got role %v, quorate %v, want a leader in name", v.Role, v.Quorate)
	}
	out := b.hand(b.keepAlive(1, b.now))
	if v, _ := b.nodes[0].Authority(b.now); v != 4 || !traced(out, statemachine.GainedAuthority) {
		t.Errorf("after a fresh echo: got version %d, traces %+v, want 4 again", v, out.Trace)
	}
}

// A leader without a lease for LeaderTimeout steps down: it sends ReJoinCluster without a winner
// and stands for election (section 6).
func TestALeaderWithoutALeaseForLeaderTimeoutStepsDown(t *testing.T) {
	b := aQuorateLeader(t, 3)
	margin := message.LeaseMargin(b.timings.LeaseTimeout)
	mark := len(b.sent)
	took := b.until(time.Minute, "step-down", func() bool { return b.view(0).Role != member.Leading })
	if want := margin + b.timings.LeaderTimeout; took != want {
		t.Errorf("got it after %v, want %v", took, want)
	}
	var told []member.Address
	for _, f := range b.mail(mark, message.KindReJoinCluster) {
		if r := f.msg.Body.(message.ReJoinCluster); r.GivenUp != chosen(4, 0) || !r.Winner.IsZero() {
			t.Errorf("got %+v, want version 4 given up without a winner", r)
		}
		told = append(told, f.msg.To)
	}
	if want := []member.Address{addr(1), addr(2)}; !slices.Equal(told, want) {
		t.Errorf("notified %v, want %v", told, want)
	}
	if n := len(b.mail(mark, message.KindLeaderStatusQuery)); n != 2 {
		t.Errorf("got %d queries immediately, want both other voters asked", n)
	}
	if n := len(b.mail(mark, message.KindJoinClusterRequest)); n != 0 {
		t.Errorf("got %d joins without a winner, want none", n)
	}
	// It never leads that version again.
	b.hand(b.keepAlive(1, b.now))
	if v := b.view(0); v.Role == member.Leading {
		t.Errorf("a keep-alive of version 4 made it leader again\n%s", b)
	}
}

// Authority ends before anything else happens: an echo that arrives after the end of a lease
// starts a new lease.
func TestALeaseThatEndedUnnoticedHasEnded(t *testing.T) {
	b := aLeader(t, 3)
	echoed := b.now
	b.hand(b.keepAlive(1, echoed))
	b.now = echoed.Add(message.LeaseMargin(lan.LeaseTimeout))
	out := b.nodes[0].Step(b.now, b.keepAlive(2, echoed.Add(time.Millisecond)))
	var got []statemachine.TraceKind
	for _, tr := range out.Trace {
		if tr.Kind == statemachine.LostAuthority || tr.Kind == statemachine.GainedAuthority {
			got = append(got, tr.Kind)
		}
	}
	want := []statemachine.TraceKind{statemachine.LostAuthority, statemachine.GainedAuthority}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// QuorateUntil is when the view stops being quorate without another message, on a leader and on a
// follower. It is zero on a node whose view is not quorate.
func TestQuorateUntilIsTheEndOfAQuorateView(t *testing.T) {
	for name, b := range map[string]*bus{"leader": aQuorateLeader(t, 3), "follower": supporter(t)} {
		m := b.nodes[0].Machine
		until := m.QuorateUntil(b.now)
		if !m.View(until.Add(-1)).Quorate || m.View(until).Quorate {
			t.Errorf("%s: got %v after now, want the end of the quorate view", name, until.Sub(b.now))
		}
		if after := m.QuorateUntil(until); !after.IsZero() {
			t.Errorf("%s: got %v without a quorate view, want zero", name, after)
		}
	}
}
