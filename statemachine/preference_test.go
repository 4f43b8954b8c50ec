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

// Tests for traits (protocol.md 3) and for preference (protocol.md 6).

const never = member.NeverLeads

// preferring returns a cluster of seeds, one for each preference. Leaders hand over to more
// preferred members that have been active for the time handOver; 0 disables this.
func preferring(t *testing.T, handOver time.Duration, preferences ...member.Preference) *bus {
	t.Helper()
	b := newBus(t, len(preferences), len(preferences))
	for i, p := range preferences {
		b.nodes[i].conf = func(c *statemachine.Config) {
			c.Traits.Preference, c.HandOverToPreferred = p, handOver
		}
		b.start(i)
	}
	b.settle(len(preferences))
	return b
}

// prefer sets a preference at run time.
func (b *bus) prefer(i int, p member.Preference) {
	b.t.Helper()
	b.take(b.nodes[i], b.nodes[i].Prefer(b.now, p))
}

// The seed with the greatest address founds the cluster, but a more preferred member is its first
// leader. A witness also founds a cluster, but does not lead it.
func TestTheMostPreferredMemberIsElectedInAFounding(t *testing.T) {
	for _, c := range []struct {
		preferences []member.Preference
		want        int
	}{
		{[]member.Preference{0, 0, 0}, 2},
		{[]member.Preference{1, 0, 0}, 0},
		{[]member.Preference{1, 2, never}, 1},
		{[]member.Preference{never, 0, never}, 1},
		{[]member.Preference{0, 0, never}, 0},
	} {
		b := preferring(t, 0, c.preferences...)
		if got := b.quorate(); got != c.want || b.view(got).Version != 1 {
			t.Errorf("%v: n%d leads version %d, want n%d and 1",
				c.preferences, got+1, b.view(got).Version, c.want+1)
		}
	}
}

// After the loss of a leader the most preferred of the running members is elected. This takes no
// longer than an election without preferences and one turn for each stopped member.
func TestTheMostPreferredMemberIsElected(t *testing.T) {
	for _, c := range []struct {
		preferences []member.Preference
		down        []int
		want        int
	}{
		{[]member.Preference{0, 0, 3, 1, 9}, []int{4}, 2},
		{[]member.Preference{0, 0, 3, 1, 9}, []int{4, 2}, 3},
		{[]member.Preference{never, 0, 0, never, 9}, []int{4, 1}, 2},
	} {
		b := preferring(t, 0, c.preferences...)
		for _, i := range c.down {
			b.crash(i)
		}
		took := b.until(time.Minute, "next leader", func() bool {
			n := b.quorate()
			return n >= 0 && b.nodes[n].up
		})
		if got := b.quorate(); got != c.want {
			t.Errorf("%v without %v: n%d leads, want n%d", c.preferences, c.down, got+1, c.want+1)
		}
		turns := time.Duration(len(c.down)) * lan.HeartbeatInterval / 20
		if most := lan.LeaderTimeout + turns + lan.HeartbeatInterval; took > most {
			t.Errorf("%v without %v: a leader after %v, want at most %v",
				c.preferences, c.down, took, most)
		}
	}
}

// A cluster in which only witnesses are up has no leader until another member may lead.
func TestAWitnessNeverLeads(t *testing.T) {
	b := preferring(t, 0, 0, never, never)
	b.crash(0)
	b.run(2 * lan.TTLTimeout)
	if got := b.quorate(); got >= 0 {
		t.Errorf("n%d leads, want no leader: n2 and n3 are witnesses", got+1)
	}
	b.prefer(2, 0)
	b.until(2*lan.LeaderTimeout, "n3 as leader", func() bool { return b.quorate() == 2 })
}

// The newest state is held only by a witness, which leads provisionally. A voter of that state that
// holds nothing gets it and is elected, also if it was not shown the state before it followed.
func TestAWitnessHandsItsStateToAVoter(t *testing.T) {
	for _, lost := range []bool{false, true} {
		b := newBus(t, 3, 3)
		b.nodes[0].durable.Held = state(3, 3, 0, 2)
		b.nodes[0].conf = func(c *statemachine.Config) { c.Traits.Preference = never }
		b.start(0)
		b.until(5*lan.TTLTimeout, "provisional leader", func() bool {
			return b.view(0).Role == member.Provisional
		})
		if lost {
			b.cut = func(m message.Message) bool {
				return m.From.Address == addr(0) && m.Body.Kind() == message.KindLeaderQuery
			}
		}
		b.start(1)
		if lost {
			b.until(lan.TTLTimeout, "follower", func() bool { return b.view(1).Role == member.Following })
			b.heal()
		}
		took := b.until(lan.TTLTimeout, "n2 as leader", func() bool { return b.quorate() == 1 })
		if most := lan.RetryInterval + 10*lan.HeartbeatInterval; took > most {
			t.Errorf("n2 leads after %v, want at most %v", took, most)
		}
		if v := b.view(1).Version; v != 4 {
			t.Errorf("n2 leads version %d, want 4", v)
		}
	}
}

// The newest state is held only by witnesses. The only other voter holds an earlier one, in which
// it has no vote yet, so it cannot stand. It gets the newest state from them, whether it follows
// one, looks for a leader, or leads provisionally itself.
func TestWitnessesHandTheirStateToAVoterThatHoldsLess(t *testing.T) {
	for _, order := range [][]int{{1, 2, 0}, {0, 1, 2}} {
		b := newBus(t, 3, 3)
		earlier := state(3, 3, 1, 2)
		earlier.Roster[0].Status = member.Joining
		b.nodes[0].durable.Held = earlier
		for _, i := range []int{1, 2} {
			b.nodes[i].durable.Held = state(3, 3, 2, 2)
			b.nodes[i].conf = func(c *statemachine.Config) { c.Traits.Preference = never }
		}
		b.start(order[0])
		b.until(5*lan.TTLTimeout, "provisional leader", func() bool {
			return b.view(order[0]).Role == member.Provisional
		})
		b.start(order[1], order[2])
		b.until(lan.TTLTimeout, "n1 as leader", func() bool { return b.quorate() == 0 })
	}
}

// A node without a vote follows a provisional leader, a witness that also holds the earlier state.
// So it must ask the other members for the newer one.
func TestAVoterWithoutAVoteAsksForIt(t *testing.T) {
	b := newBus(t, 3, 3)
	earlier := state(3, 3, 1, 1)
	earlier.Roster[0].Status = member.Joining
	b.nodes[0].durable.Held, b.nodes[2].durable.Held = earlier, earlier
	b.nodes[1].durable.Held = state(3, 3, 2, 1)
	for _, i := range []int{1, 2} {
		b.nodes[i].conf = func(c *statemachine.Config) { c.Traits.Preference = never }
	}
	b.cut = func(m message.Message) bool { // the link of n1 and n2
		return m.From.Address != addr(2) && m.To != addr(2)
	}
	b.start(0, 1, 2)
	b.until(5*lan.TTLTimeout, "followers", func() bool {
		return b.view(0).Role == member.Following && b.view(1).Role == member.Following
	})
	b.heal()
	b.until(2*lan.RetryInterval, "n1 as leader", func() bool { return b.quorate() == 0 })
}

// A node takes a newer state in which it has a vote if it has none in the state that it holds, and
// if a voter of that state shows it. It shows its own state to such a voter.
func TestStatesWithAVoteAreShownAndTaken(t *testing.T) {
	earlier, newer := state(3, 3, 1, 2), state(3, 3, 2, 2)
	earlier.Roster[0].Status = member.Joining
	later := earlier
	later.Number = newer.Number
	stranger := run(1, 1)
	stranger.StoreID[1]++
	for name, tc := range map[string]struct {
		held, shown member.State
		from        member.Identity
		takes       bool
	}{
		"a newer state":                {earlier, newer, run(1, 1), true},
		"an earlier one":               {newer, earlier, run(1, 1), false},
		"no newer vote":                {state(3, 3, 1, 2), newer, run(1, 1), false},
		"no vote in it":                {earlier, later, run(1, 1), false},
		"a newer state of no voter":    {earlier, newer, stranger, false},
		"a state, where none was held": {member.State{}, newer, stranger, true},
	} {
		b := newBus(t, 3, 3)
		b.nodes[0].durable.Held = tc.held
		b.start(0)
		in := event(1, member.Claim{}, message.LeaderQuery{ID: 1, Held: tc.shown})
		in.From = tc.from
		b.hand(in)
		want := tc.held.Number
		if tc.takes {
			want = tc.shown.Number
		}
		if got := b.nodes[0].durable.Held.Number; got != want {
			t.Errorf("%s: holds %v, want %v", name, got, want)
		}
	}
	b := newBus(t, 3, 3)
	b.nodes[0].durable.Held = newer
	b.start(0)
	earlier.Roster[0].Status, earlier.Roster[1].Status = member.Active, member.Joining
	for name, tc := range map[string]struct {
		held  member.State
		shows bool
	}{
		"nothing":              {member.State{}, true},
		"no vote":              {earlier, true},
		"an earlier vote":      {state(3, 3, 1, 2), false},
		"the same state":       {newer, false},
		"a state without vote": {state(1, 3, 3, 0), false}, // newer
	} {
		out := b.hand(event(1, member.Claim{}, message.LeaderQuery{ID: 1, Held: tc.held}))
		if got := len(bodies[message.LeaderQuery](out.Send)) > 0; got != tc.shows {
			t.Errorf("asked by a voter that holds %s: shows its state: %t, want %t", name, got, tc.shows)
		}
	}
}

// The newest state is held only by a node that lost its store and vote, and that leads
// provisionally: it finished the founding of its earlier run, and its messages were lost. The
// voters get the state and elect a leader.
func TestAFounderWithoutAVoteHandsItsStateToTheVoters(t *testing.T) {
	b := newBus(t, 3, 3)
	b.nodes[0].durable.Held = state(3, 3, 0, 2)
	b.nodes[0].durable.StoreID[1]++
	b.start(0)
	b.until(5*lan.TTLTimeout, "provisional leader", func() bool {
		return b.view(0).Role == member.Provisional
	})
	b.start(1, 2)
	b.until(lan.TTLTimeout, "a voter as leader", func() bool { return b.quorate() > 0 })
}

// A leader that becomes a witness hands over; without a successor it continues to lead.
func TestALeaderThatBecomesAWitnessHandsOver(t *testing.T) {
	b := preferring(t, 0, 0, 0, 5)
	b.prefer(2, never)
	took := b.until(time.Second, "next leader", func() bool {
		n := b.quorate()
		return n >= 0 && n != 2
	})
	if most := 9 * b.latency; took > most {
		t.Errorf("got the next leader after %v, want at most %v", took, most)
	}
	b = preferring(t, 0, 0, never, never)
	b.prefer(0, never)
	b.run(lan.TTLTimeout)
	if got := b.quorate(); got != 0 {
		t.Errorf("n%d leads, want n1: there is no successor", got+1)
	}
	b.prefer(1, 0)
	b.until(lan.LeaderTimeout, "n2 as leader", func() bool { return b.quorate() == 1 })
}

// Transfer refuses a witness.
func TestAWitnessIsNoSuccessor(t *testing.T) {
	b := preferring(t, 0, never, never, 0)
	b.run(lan.HeartbeatTimeout)
	for _, to := range []member.Address{addr(0), {}} {
		out, err := b.nodes[2].Transfer(b.now, to)
		if b.take(b.nodes[2], out); !errors.Is(err, statemachine.ErrNotActive) {
			t.Errorf("transfer to %v: got %v, want %v", to, err, statemachine.ErrNotActive)
		}
	}
}

// Prefer undoes Drain.
func TestPreferUndoesDrain(t *testing.T) {
	b := preferring(t, 0, 0, 0, 0)
	b.take(b.nodes[2], b.nodes[2].Drain(b.now))
	b.until(time.Second, "next leader", func() bool { n := b.quorate(); return n >= 0 && n != 2 })
	b.run(lan.HeartbeatTimeout)
	l := b.quorate()
	if out, err := b.nodes[l].Transfer(b.now, addr(2)); !errors.Is(err, statemachine.ErrNotActive) {
		t.Errorf("transfer to a drained member: got %v, %q", err, kinds(out.Send))
	}
	b.prefer(2, 0)
	b.run(2 * lan.HeartbeatInterval)
	out, err := b.nodes[l].Transfer(b.now, addr(2))
	if b.take(b.nodes[l], out); err != nil {
		t.Fatalf("transfer after Prefer: %v", err)
	}
	b.until(time.Second, "n3 as leader", func() bool { return b.quorate() == 2 })
}

// Without HandOverToPreferred a leader stays when a more preferred member returns.
func TestALeaderIsNotReplacedUnasked(t *testing.T) {
	b := preferring(t, 0, 0, 1, 2)
	b.crash(2)
	b.until(time.Minute, "n2 as leader", func() bool { return b.quorate() == 1 })
	b.start(2)
	b.settle(3)
	b.run(2 * lan.TTLTimeout)
	if got := b.quorate(); got != 1 {
		t.Errorf("n%d leads, want n2", got+1)
	}
}

// With HandOverToPreferred a leader hands over to a more preferred member after that member has
// been active for this time without a break. A member that keeps failing does not become leader.
func TestALeaderHandsOverToAPreferredMember(t *testing.T) {
	const wait = 5 * time.Second
	b := preferring(t, wait, 0, 1, 2)
	b.crash(2)
	b.until(time.Minute, "n2 as leader", func() bool { return b.quorate() == 1 })
	for range 3 {
		b.start(2)
		b.settle(3)
		b.run(wait / 2)
		if got := b.quorate(); got != 1 {
			t.Fatalf("n%d leads, want n2: n3 was not active for %v", got+1, wait)
		}
		b.crash(2)
		b.run(2 * lan.HeartbeatTimeout)
	}
	b.start(2)
	b.settle(3)
	took := b.until(2*wait, "n3 as leader", func() bool { return b.quorate() == 2 })
	if took < wait-lan.HeartbeatTimeout || took > wait+lan.HeartbeatInterval {
		t.Errorf("n3 leads after %v, want %v", took, wait)
	}
	mark := len(b.sent)
	b.run(4 * wait)
	if n := len(b.mail(mark, message.KindMemberLeave)); n > 0 || b.quorate() != 2 {
		t.Errorf("n%d leads after %d messages MemberLeave, want n3 and none", b.quorate()+1, n)
	}
}

// A leader does not hand over to a preferred member that has missed a heartbeat: it may have died
// (seed 9501617).
func TestALeaderDoesNotHandOverToASilentMember(t *testing.T) {
	const wait = 5 * time.Second
	b := preferring(t, wait, 0, 1, 2)
	b.crash(2)
	b.until(time.Minute, "n2 as leader", func() bool { return b.quorate() == 1 })
	b.start(2)
	b.settle(3)
	b.run(wait - 3*lan.HeartbeatInterval)
	b.crash(2)
	b.run(2 * lan.HeartbeatTimeout)
	if got := b.quorate(); got != 1 {
		t.Errorf("n%d leads, want n2", got+1)
	}
}

// The time for which a preferred member has been active starts again when it is heard again, even
// if the same run was only cut off for a while.
func TestASilentMemberIsNotPreferredAtOnce(t *testing.T) {
	const wait = 5 * time.Second
	b := preferring(t, wait, 0, 1, 2)
	b.run(2 * wait) // a shorter leadership would make n3 wait for longer
	b.crash(2)
	b.until(time.Minute, "n2 as leader", func() bool { return b.quorate() == 1 })
	b.start(2)
	b.settle(3)
	b.run(wait - lan.LeaderTimeout)
	b.isolate(2)
	b.awaitStatus(lan.LeaderTimeout, 1, 2, member.Unreachable)
	b.cut = nil
	took := b.until(2*wait, "n3 as leader", func() bool { return b.quorate() == 2 })
	if took < wait || took > wait+3*lan.HeartbeatInterval {
		t.Errorf("n3 leads %v after it was heard again, want about %v", took, wait)
	}
}

// A leader does not hand over to a preferred member that reaches it but no other voter: that
// member would get no authority. It hands over when the links are back.
func TestALeaderDoesNotHandOverToAMemberWithoutAMajority(t *testing.T) {
	b := preferring(t, lan.LeaderTimeout, 5, 0, 0, 0, 0)
	b.until(time.Minute, "n1 as leader", func() bool { return b.quorate() == 0 })
	only := member.Address{}
	b.cut = func(m message.Message) bool {
		n1 := addr(0)
		return m.From.Address == n1 && m.To != only || m.To == n1 && m.From.Address != only
	}
	b.until(time.Minute, "another leader", func() bool { return b.quorate() > 0 })
	l := b.quorate()
	only = addr(l)
	b.run(10 * lan.LeaderTimeout)
	version, reached := b.view(l).Version, b.status(l, 0)
	const most = time.Minute
	for end := b.now.Add(most); b.now.Before(end); b.run(lan.HeartbeatInterval / 2) {
		if got := b.quorate(); got != l {
			t.Fatalf("n%d leads, want n%d all the time\n%s", got+1, l+1, b)
		}
	}
	if got := b.view(l).Version; got != version || reached != member.Active {
		t.Errorf("n1 is %v, and there were %d elections within %v, want active and none",
			reached, got-version, most)
	}
	b.cut = nil
	took := b.until(time.Minute, "n1 as leader", func() bool { return b.quorate() == 0 })
	if most := 4 * lan.HeartbeatInterval; took > most {
		t.Errorf("n1 leads %v after the cut ended, want at most %v", took, most)
	}
}

// A preferred leader that gives up soon each time is preferred again after twice as long each time,
// and after a long leadership as soon as any other.
func TestAPreferredLeaderThatFailsIsPreferredLessOften(t *testing.T) {
	const wait = 2 * time.Second
	b := preferring(t, wait, 1, 0, 0)
	givesUp := func() {
		out, err := b.nodes[0].Transfer(b.now, member.Address{})
		if err != nil {
			t.Fatal(err)
		}
		b.take(b.nodes[0], out)
		b.until(lan.LeaderTimeout, "another leader", func() bool { return b.quorate() > 0 })
	}
	leads := func() time.Duration {
		return b.until(time.Hour, "n1 as leader", func() bool { return b.quorate() == 0 })
	}
	leads()
	longest := 30 * lan.TTLTimeout
	pause := wait
	for range 12 {
		givesUp()
		pause = min(2*pause, longest)
		l := b.quorate()
		if last := b.nodes[l].trace[len(b.nodes[l].trace)-1]; !slices.ContainsFunc(b.nodes[l].trace,
			func(t statemachine.Trace) bool {
				return t.Kind == statemachine.Postponed && t.Peer == addr(0) && t.Left == pause
			}) {
			t.Errorf("n%d: got no trace of a pause of %v, the last is %+v", l+1, pause, last)
		}
		if took := leads(); took < pause-lan.HeartbeatInterval || took > pause+lan.HeartbeatInterval {
			t.Errorf("n1 leads again after %v, want %v", took, pause)
		}
		b.settle(3)
	}
	b.run(longest)
	givesUp()
	if took := leads(); took > wait+lan.HeartbeatInterval {
		t.Errorf("n1 leads again after %v, want %v: it led for %v", took, wait, longest)
	}
}

// A leader asks a preferred member for proof that it hears M voters. A member of an earlier release
// does not say how many it hears.
func TestALeaderOffersToHandOver(t *testing.T) {
	for _, tc := range []struct {
		reaches int
		offers  bool
		hands   bool
	}{
		{reaches: 0, hands: true},
		{reaches: 2, offers: true},
		{reaches: 3, hands: true},
	} {
		b := holding(t, 5, state(5, 3, 0, 1))
		b.nodes[0].conf = func(c *statemachine.Config) { c.HandOverToPreferred = lan.LeaderTimeout }
		b.start(0)
		b.run(lan.LeaseTimeout + 1)
		s := state(5, 4, 0, 0)
		s.Roster[4].Preference = 1
		b.hand(event(1, member.Claim{}, message.LeaderElected{State: s}))
		mark := len(b.sent)
		for range 12 {
			for i := 1; i < 5; i++ {
				k := b.keepAlive(i, b.now)
				alive := k.Body.(message.LeaderKeepAlive)
				alive.Reaches = tc.reaches
				k.Body = alive
				b.hand(k)
			}
			b.run(lan.HeartbeatInterval)
		}
		offers := false
		for _, f := range b.mail(mark, message.KindLeaderKeepAliveAck) {
			ack := f.msg.Body.(message.LeaderKeepAliveAck)
			if ack.Offers && f.msg.To != addr(4) {
				t.Fatalf("%d voters heard: got an offer to %v, which is not preferred", tc.reaches, f.msg.To)
			}
			offers = offers || ack.Offers
		}
		hands := len(b.mail(mark, message.KindMemberLeave)) > 0
		if offers != tc.offers || hands != tc.hands {
			t.Errorf("%d voters heard: got an offer %v and a hand-over %v, want %v and %v",
				tc.reaches, offers, hands, tc.offers, tc.hands)
		}
	}
}

// A change of traits reaches every view, and remains when the leader that published it is lost.
// Members stop announcing traits when every view shows them.
func TestTraitsReachEveryView(t *testing.T) {
	b := preferring(t, 0, 0, 0, 0)
	want := member.Traits{Preference: 7, Labels: "zone=a\n"}
	shown := func(of int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(b.nodes, func(n *node) bool {
				m, _ := n.View(b.now).Member(addr(of))
				return n.up && m.Traits != want
			})
		}
	}
	for i := range b.nodes {
		b.prefer(i, want.Preference)
		b.take(b.nodes[i], b.nodes[i].SetLabels(b.now, want.Labels))
		b.until(3*lan.HeartbeatInterval, "traits in every view", shown(i))
	}
	mark := len(b.sent)
	b.run(lan.TTLTimeout)
	if sent := b.mail(mark, message.KindMemberTraits); len(sent) > 0 {
		t.Errorf("sent %d announcements although every view shows the traits", len(sent))
	}
	b.crash(b.quorate())
	b.until(time.Minute, "next leader", func() bool { return b.quorate() >= 0 })
	b.run(lan.HeartbeatTimeout)
	if !shown(0)() || !shown(1)() {
		t.Errorf("the next leader lost the traits\n%s", b)
	}
}

// A restarted member has the traits of its configuration, and views show these traits.
func TestARestartReturnsToTheConfiguration(t *testing.T) {
	b := preferring(t, 0, 0, 1, 2)
	b.prefer(0, never)
	b.run(3 * lan.HeartbeatInterval)
	b.crash(0)
	b.start(0)
	b.settle(3)
	if m, _ := b.view(2).Member(addr(0)); m.Preference != 0 {
		t.Errorf("n1 is shown with the preference %v, want 0", m.Preference)
	}
}

// A member that keeps announcing different traits causes at most one revision per state interval.
// Announcements of another run are dropped.
func TestHostileAnnouncementsAreBounded(t *testing.T) {
	b := aQuorateLeader(t, 3)
	before := b.nodes[0].durable.Held.Revision
	const rounds = 100
	for i := range rounds {
		e := event(1, chosen(4, 0), message.MemberTraits{
			Traits: member.Traits{Preference: member.Preference(i)},
		})
		b.hand(e)
		e.From = run(1, 99)
		if out := b.hand(e); !gave(out, message.ReasonUnknownMember) {
			t.Fatalf("an announcement of another run: got %+v, want it dropped", out.Trace)
		}
		b.keepQuorate(3)
		b.run(lan.HeartbeatInterval / 10)
	}
	most := uint64(rounds/5 + 1) // ten announcements take two state intervals
	if got := b.nodes[0].durable.Held.Revision - before; got == 0 || got > most {
		t.Errorf("got %d revisions for %d announcements, want at most %d", got, rounds, most)
	}
}

// All successors that a leader asks for proof refuse to lead, and too few other voters grant. It
// does not ask the same ones again without a pause.
func TestSuccessorsThatRefuseAreNotAskedAtNetworkSpeed(t *testing.T) {
	const size = 9
	b := aLeader(t, size)
	b.keepQuorate(size)
	out, err := b.nodes[0].Transfer(b.now, member.Address{})
	if err != nil {
		t.Fatal(err)
	}
	b.take(b.nodes[0], out)
	proposals, end := 0, b.now.Add(time.Second)
	for seen := (message.Proposal{}).ID; b.now.Before(end); {
		p := last[message.Proposal](b)
		if p.ID == seen {
			b.step(end)
			continue
		}
		proposals, seen, b.now = proposals+1, p.ID, b.now.Add(time.Millisecond)
		for i := 1; i < size && p.ID == last[message.Proposal](b).ID; i++ {
			v := yes(p)
			if v.Unable = i <= message.MaxSuccessors; !v.Unable {
				v = no(p, message.ReasonStartWait)
			}
			b.hand(event(i, member.Claim{}, v))
		}
	}
	if proposals < 2 || proposals > 30 {
		t.Errorf("%d proposals within a second, want 2 to 30", proposals)
	}
}
