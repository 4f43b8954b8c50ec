// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// Each of these runs was written for one planted bug (package mutants) that random runs do
// not find.

// TestLeaderThatAcceptsStepsDown tests protocol.md section 6, step 5. The lease of a leader has
// ended because the echo of one voter is late. The old leader then votes for a new leader. When the
// late echo arrives, it must not give authority to the old leader, because the new leader has
// authority.
func TestLeaderThatAcceptsStepsDown(t *testing.T) {
	c := formed(t, steady(3))
	tm := fast()
	old := c.Leader()
	next, late := (old+1)%3, (old+2)%3
	c.RunFor(10 * tm.HeartbeatInterval)
	c.Hold(late, old, tm.LeaseTimeout+2*tm.HeartbeatInterval)
	c.Cut(old, next)
	c.RunFor(message.LeaseMargin(tm.LeaseTimeout) + tm.HeartbeatInterval/2)
	c.Mend(old, next)
	c.Lose = func(from, to int, k message.Kind) bool {
		return from == next && to == old &&
			k != message.KindLeaderStatusQuery && k != message.KindProposal
	}
	c.RunFor(4 * tm.LeaderTimeout)
	sound(t, c)
	if c.Leader() != next {
		t.Fatalf("n%d does not lead, so the test proves nothing%s", next+1, c.Describe())
	}
}

// TestFormalVoteRegardsSupport tests protocol.md section 6, step 5. A voter promises its
// vote and then supports the old leader again. The formal proposal arrives later, during
// the lease of that leader.
func TestFormalVoteRegardsSupport(t *testing.T) {
	formalAfterSupport(t, func(*Cluster, int) {})
}

// TestFormalVoteWaitsAfterAStart is like TestFormalVoteRegardsSupport, but the voter restarts and
// does not remember the lease.
func TestFormalVoteWaitsAfterAStart(t *testing.T) {
	formalAfterSupport(t, (*Cluster).Restart)
}

func formalAfterSupport(t *testing.T, between func(c *Cluster, voter int)) {
	t.Helper()
	s := steady(3)
	s.Timings.HeartbeatTimeout = s.Timings.LeaderTimeout
	c := formed(t, s)
	tm := s.Timings
	beat := tm.HeartbeatInterval
	old := c.Leader()
	others := []int{(old + 1) % 3, (old + 2) % 3}
	c.RunFor(10 * beat)
	// The old leader is mute until the others notice its loss. It is then reconnected, so that their
	// proposal and its stamps cross.
	for _, o := range others {
		c.CutOneWay(old, o)
	}
	c.RunFor(beat)
	c.Pause(old)
	c.RunFor(beat * 3 / 2)
	c.Resume(old, false)
	c.RunFor(tm.LeaderTimeout - 3*beat)
	for _, o := range others {
		c.net.linkOf(o, old).cuts = 0
	}
	quarrel := c.Now() + 2500*time.Millisecond
	c.Lose = func(_, to int, k message.Kind) bool {
		return k == message.KindVote && c.Now() < quarrel || k == message.KindProposal && to == old
	}
	c.RunFor(quarrel - c.Now() + 1)
	round := uint64(0)
	for i := range 3 {
		round = max(round, c.Durable(i).Promised.Ballot.Round)
	}
	voter := -1
	promised := func() bool {
		for _, i := range others {
			p := c.Durable(i).Promised
			if p.Version == 2 && p.Ballot.Round > round && p.Ballot.Proposer != c.Address(i) {
				voter = i
			}
		}
		return voter >= 0
	}
	if !c.RunUntil(2*tm.LeaderTimeout, promised) {
		t.Fatalf("no voter promised%s", c.Describe())
	}
	proposer := 3 - old - voter
	c.Hold(proposer, voter, 2*beat) // its formal proposal
	c.CutOneWay(proposer, old)
	c.Mend(old, voter)
	if !c.RunUntil(2*beat-time.Millisecond, func() bool { return c.Leader() == old }) {
		t.Fatalf("the old leader has no lease again%s", c.Describe())
	}
	between(c, voter)
	c.Cut(old, voter)
	c.RunFor(4 * tm.LeaderTimeout)
	sound(t, c)
}

// TestVotersThatHoldNothingTakeTheState tests protocol.md section 6, step 3. Two voters accept the
// founding of a third node. They receive no further message from the founder until it asks them to
// vote for version 2. The founder then loses its store. The promises of the voters must not outlive
// the state.
func TestVotersThatHoldNothingTakeTheState(t *testing.T) {
	c := NewCluster(steady(3))
	founder := 2 // the greatest address
	for i := range 3 {
		c.Start(i)
	}
	// All three take part in the founding.
	c.Lose = func(_, _ int, k message.Kind) bool { return k == message.KindProposal }
	if !c.RunUntil(time.Minute, func() bool { return len(c.View(founder).Members) == 3 }) {
		t.Fatalf("they do not meet%s", c.Describe())
	}
	c.Lose = nil
	accepted := func() bool {
		return c.Durable(0).Accepted.ID.Version == 1 && c.Durable(1).Accepted.ID.Version == 1
	}
	if !c.RunUntil(time.Minute, accepted) {
		t.Fatalf("no founding happened%s", c.Describe())
	}
	c.Lose = func(from, to int, k message.Kind) bool {
		return from == founder && k != message.KindProposal && k != message.KindLeaderStatusQuery ||
			to == founder && k == message.KindVote && c.Durable(founder).Held.Version == 1
	}
	promised := func() bool {
		return c.Durable(0).Promised.Version == 2 && c.Durable(1).Promised.Version == 2
	}
	if !c.RunUntil(time.Minute, promised) {
		t.Fatalf("no promise for version 2%s", c.Describe())
	}
	c.Crash(founder)
	c.LoseDisk(founder)
	c.Lose = nil
	c.Start(founder)
	if !c.RunUntil(2*fast().TTLTimeout, func() bool { return c.Leader() >= 0 }) {
		t.Fatalf("L1 at %v: no quorate leader %v after a founder lost its store%s",
			c.Now(), 2*fast().TTLTimeout, c.Describe())
	}
	sound(t, c)
}

// TestProvisionalLeaderStopsNoElection tests protocol.md section 4. A seed that was isolated for a
// long time leads provisionally and does not stand for election. When the seed reaches the other
// voter again, the other voter is elected.
func TestProvisionalLeaderStopsNoElection(t *testing.T) {
	s := steady(3)
	s.Seeds = []int{0}
	c := formed(t, s)
	ttl := s.Timings.TTLTimeout
	if err := c.Transfer(0, 2); err != nil {
		t.Fatal(err)
	}
	if !c.RunUntil(ttl, func() bool { return c.Leader() == 2 && c.Settled() }) {
		t.Fatalf("leadership was not handed over%s", c.Describe())
	}
	// The seed's queries get no answers, so it does not stand for election.
	c.Lose = func(from, _ int, k message.Kind) bool {
		return from == 0 && k == message.KindLeaderStatusQuery
	}
	c.Cut(0, 1)
	c.Crash(2)
	declared := func() bool { return c.View(0).Role == member.Provisional }
	if !c.RunUntil(10*ttl, declared) {
		t.Fatalf("it did not declare itself%s", c.Describe())
	}
	c.Mend(0, 1)
	if !c.RunUntil(2*ttl, func() bool { return c.Leader() == 1 }) {
		t.Fatalf("L1 at %v: no quorate leader %v after two of three met%s",
			c.Now(), 2*ttl, c.Describe())
	}
	sound(t, c)
}

// TestFounderWithoutAVoteShowsItsState tests protocol.md section 4. A founder loses its store after
// the others have accepted its proposal. The founder returns and completes the founding, but the
// others are not notified. So the founder holds a state in which its earlier run has the vote. The
// others hold no state and cannot found a cluster without the founder.
func TestFounderWithoutAVoteShowsItsState(t *testing.T) {
	s := steady(3)
	s.Seeds = []int{1, 2}
	s.Volatile = []int{0, 1, 2} // a seed that lost a durable store would only join
	c := NewCluster(s)
	const founder = 2 // the greatest address
	for i := range 3 {
		c.Start(i)
	}
	accepted := func() bool {
		return c.Durable(0).Accepted.ID.Version == 1 && c.Durable(1).Accepted.ID.Version == 1
	}
	if !c.RunUntil(time.Minute, accepted) {
		t.Fatalf("no founding happened%s", c.Describe())
	}
	c.Lose = func(_, _ int, k message.Kind) bool { return k == message.KindLeaderElected }
	c.Restart(founder)
	held := func() bool { return c.Durable(founder).Held.Version == 1 }
	if !c.RunUntil(time.Minute, held) {
		t.Fatalf("the founding was not completed%s", c.Describe())
	}
	c.Lose = nil
	if !c.RunUntil(3*s.Timings.TTLTimeout, func() bool { return c.Leader() >= 0 }) {
		t.Fatalf("L1 at %v: no quorate leader %v after a founder lost its vote%s",
			c.Now(), 3*s.Timings.TTLTimeout, c.Describe())
	}
	sound(t, c)
}

// TestLapseBeforeAnEchoIsNoticed tests protocol.md section 5 (end of the lease). The leader is
// paused while its lease ends. The late echo of the only other voter then reaches the leader before
// its timer fires. Another member was silent during all that time. The leader must not remove this
// member, because its authority was interrupted.
func TestLapseBeforeAnEchoIsNoticed(t *testing.T) {
	c := formed(t, steady(3))
	tm := fast()
	leader := c.Leader()
	voter, silent := (leader+1)%3, (leader+2)%3
	c.Crash(silent)
	c.RunFor(20 * tm.HeartbeatInterval)
	margin := message.LeaseMargin(tm.LeaseTimeout)
	c.Hold(voter, leader, margin+tm.HeartbeatInterval/5)
	c.RunFor(margin - tm.HeartbeatInterval*3/2)
	c.Pause(leader)
	c.RunFor(2 * tm.HeartbeatInterval)
	c.Resume(leader, false)
	c.RunFor(tm.TTLTimeout + margin)
	sound(t, c)
	if c.Leader() != leader {
		t.Fatalf("n%d no longer leads, so the test proves nothing%s", leader+1, c.Describe())
	}
}

// TestOnlyItsOwnLeaderFreesAFollower tests protocol.md section 5 (support). A leader that lost its
// lease regains the lease from echoes that a follower sent before the follower considered the
// leader lost. The follower then receives a late message about the hand-over of an earlier leader.
// This message must not release the follower, which would otherwise help to elect a second leader.
func TestOnlyItsOwnLeaderFreesAFollower(t *testing.T) {
	s := steady(3)
	s.Link.Unordered = true
	s.Timings.HeartbeatTimeout = s.Timings.LeaderTimeout // how long a leader sends stamps without acks
	c := formed(t, s)
	tm := s.Timings
	before := c.Leader()
	leader, follower := (before+1)%3, (before+2)%3
	farewell := c.Now() + 30*time.Second
	c.Hold(before, follower, farewell-c.Now())
	if err := c.Transfer(before, leader); err != nil {
		t.Fatal(err)
	}
	c.net.linkOf(before, follower).clogged = 0 // the next messages overtake the delayed one
	if !c.RunUntil(10*time.Second, func() bool { return c.Leader() == leader && c.Settled() }) {
		t.Fatalf("leadership was not handed over%s", c.Describe())
	}
	// The follower hears its leader, which has no lease, until it misses a healthy leader. Just before
	// that, the follower's echoes arrive, and the leader falls silent.
	heard := farewell - tm.HeartbeatInterval/5 // when the echoes arrive
	c.RunFor(heard - tm.LeaderTimeout - message.LeaseMargin(tm.LeaseTimeout) +
		tm.HeartbeatInterval*7/5 - c.Now())
	c.CutOneWay(leader, before)
	c.Hold(follower, leader, heard-c.Now())
	c.RunFor(heard - c.Now() - time.Millisecond)
	if c.Leader() == leader {
		t.Fatalf("the leader still has its lease%s", c.Describe())
	}
	c.CutOneWay(leader, follower)
	c.RunFor(5 * time.Millisecond)
	if c.Leader() != leader {
		t.Fatalf("the leader has no lease again%s", c.Describe())
	}
	c.CutOneWay(follower, leader)
	c.RunFor(tm.LeaseTimeout)
	sound(t, c)
}

// TestOnlyTheHeldLeadershipEndsTheWaitAfterAStart tests protocol.md section 5 (restart). A voter
// restarts, cut off from the leader that it has just acknowledged. It then receives a late message
// about the hand-over of the leader of version 1. This message must not end the voter's wait, which
// is for the lease of a later version. Otherwise the voter elects another leader during that lease.
func TestOnlyTheHeldLeadershipEndsTheWaitAfterAStart(t *testing.T) {
	for _, handsBack := range []bool{false, true} { // so that the late message is from the same leader
		s := steady(3)
		s.Link.Unordered = true
		c := formed(t, s)
		tm := s.Timings
		first := c.Leader()
		leader, rival, voter := (first+1)%3, first, (first+2)%3
		farewell := c.Now() + 30*time.Second
		c.Hold(first, voter, farewell-c.Now())
		handsOver(t, c, leader)
		c.net.linkOf(first, voter).clogged = 0 // the next messages overtake the delayed one
		if handsBack {
			c.RunFor(tm.HeartbeatInterval)
			handsOver(t, c, first)
			leader, rival = rival, leader
		}
		if !c.RunUntil(10*time.Second, c.Settled) {
			t.Fatalf("leadership was not handed over%s", c.Describe())
		}
		c.RunFor(farewell - 2*tm.LeaderTimeout - c.Now())
		c.Cut(leader, rival)
		c.RunFor(farewell - c.Now() - 2*time.Millisecond)
		if c.Leader() != leader {
			t.Fatalf("n%d does not lead, so the test proves nothing%s", leader+1, c.Describe())
		}
		c.Restart(voter)
		c.Cut(leader, voter)
		c.RunFor(message.LeaseMargin(tm.LeaseTimeout))
		sound(t, c)
		// One of the others eventually becomes the leader.
		replaced := func() bool { return c.Leader() == rival || c.Leader() == voter }
		if !c.RunUntil(2*tm.LeaderTimeout, replaced) {
			t.Fatalf("no leader of the other two%s", c.Describe())
		}
		sound(t, c)
	}
}

// TestAForgottenClusterStaysForgotten tests protocol.md section 3 (another cluster). Four of five
// nodes lose their cluster and found another one, with a leader at the same address. The fifth node
// was cut off. Its state has the same version as the state of the new leader, but a later revision.
// The node must stay outside. Otherwise the next election would adopt its state as the newest,
// although the voters of that state are gone.
func TestAForgottenClusterStaysForgotten(t *testing.T) {
	s := steady(5)
	s.Seeds = []int{0, 1, 2}
	c := formed(t, s)
	for range 3 { // revisions
		c.Crash(0)
		c.RunFor(2 * s.Timings.HeartbeatTimeout)
		c.Start(0)
		c.RunFor(s.Timings.LeaderTimeout)
	}
	sound(t, c)
	old := c.Durable(4).Held
	for i := range c.procs {
		c.Crash(i)
		if i != 4 {
			c.procs[i].store = paxos.Durable{}
		}
	}
	// The checker expects one cluster, but a second one begins here.
	check := newChecker(s.Size, c.check.seeds, len(c.procs))
	c.check, c.register = check, register{}
	for i := range 4 {
		c.Start(i)
	}
	c.RunFor(s.Timings.TTLTimeout)
	leader := c.Leader()
	if leader < 0 {
		t.Fatalf("no other cluster%s", c.Describe())
	}
	if now := c.Durable(leader).Held; now.Leader != old.Leader || now.Version != old.Version ||
		!now.Number.Less(old.Number) {
		t.Fatalf("it holds %v of %v, want less than %v of the same leader %v",
			now.Number, now.Leader, old.Number, old.Leader)
	}
	id := c.Durable(leader).Held.Cluster
	c.Start(4)
	c.RunFor(2 * s.Timings.TTLTimeout)
	sound(t, c)
	if _, joined := c.View(leader).Member(c.Address(4)); joined {
		t.Errorf("I11 at %v: n5 of cluster %v has a seat in cluster %v", c.Now(), old.Cluster, id)
	}
	c.Crash(leader)
	if !c.RunUntil(2*s.Timings.TTLTimeout, func() bool { return c.Leader() >= 0 }) {
		t.Fatalf("L1 at %v: no other leader%s", c.Now(), c.Describe())
	}
	sound(t, c)
	if got := c.Durable(c.Leader()).Held.Cluster; got != id {
		t.Errorf("I11 at %v: the next leader is of cluster %v, want %v", c.Now(), got, id)
	}
}

// TestTheWaitAfterAStartEndsForTheLeaderHeldOnly tests protocol.md section 5 (restart). A seed was
// isolated for so long that it leads provisionally. A voter restarts just after it has extended the
// leader's lease. The voter is cut off from the leader and follows the seed. It must still wait
// before it votes for the seed.
func TestTheWaitAfterAStartEndsForTheLeaderHeldOnly(t *testing.T) {
	c := formed(t, steady(3))
	tm := fast()
	leader := c.Leader()
	alone, voter := (leader+1)%3, (leader+2)%3
	c.Isolate(alone)
	provisional := func() bool { return c.View(alone).Role == member.Provisional }
	if !c.RunUntil(5*tm.TTLTimeout, provisional) {
		t.Fatalf("n%d does not declare itself%s", alone+1, c.Describe())
	}
	c.Cut(leader, voter)
	c.Restart(voter)
	c.Mend(alone, voter)
	c.RunFor(tm.RetryInterval)
	if got, want := c.View(voter).Leader, c.Address(alone); got != want || c.Leader() != leader {
		t.Fatalf("n%d shows the leader %v, want %v while n%d has authority%s",
			voter+1, got, want, leader+1, c.Describe())
	}
	next := func() bool { return c.Leader() == alone || c.Leader() == voter }
	elected := c.RunUntil(4*tm.LeaderTimeout, next)
	sound(t, c)
	if !elected {
		t.Fatalf("neither n%d nor n%d is elected after the wait%s", alone+1, voter+1, c.Describe())
	}
}

// TestProvisionalStatesAreNotHeld tests protocol.md section 5 (commit). A seed leads provisionally
// and is then chosen for the same version in the same run. So its provisional state 1.2 and its
// chosen state 1.2 have the same number. A late keep-alive acknowledges the provisional state; the
// leader must not count it as an acknowledgement of the chosen state.
func TestProvisionalStatesAreNotHeld(t *testing.T) {
	var late item
	s := steady(3)
	s.Record = func(r Record) {
		b, ok := r.Message.Body.(message.LeaderKeepAlive)
		if ok && r.Kind == Sent && !r.Message.Claim.Chosen && b.Number.Revision > 0 {
			late = item{msg: r.Message, from: r.Process}
		}
	}
	c := formed(t, s)
	leader := c.Leader()
	shown, _ := late.msg.Body.(message.LeaderKeepAlive)
	if next := c.Durable(leader).Held.Number; shown.Number.Version != next.Version ||
		shown.Number.Revision <= next.Revision || late.msg.To != c.Address(leader) {
		t.Fatalf("%v was shown to %v, want more than %v shown to %v",
			shown.Number, late.msg.To, next, c.Address(leader))
	}
	for i := range 3 {
		if i != leader {
			c.CutOneWay(leader, i)
		}
	}
	c.take(leader, "k")
	late.to, late.conn = leader, c.net.linkOf(late.from, leader).conn
	c.queue.push(c.now, late)
	c.RunFor(s.Timings.HeartbeatInterval)
	sound(t, c)
	if token := c.Holds(leader, "k"); !token.IsZero() {
		t.Errorf("n%d trusts a record by %v, which no other member holds%s",
			leader+1, token, c.Describe())
	}
}

// TestARunThatJoinsAgainDropsItsProposal tests protocol.md section 3 (restarts). A voter makes a
// proposal. A leader then refuses it a seat, because the leader already knows its incarnation. The
// voter joins again with a higher incarnation. Votes for the earlier proposal arrive afterwards;
// they must have no effect.
func TestARunThatJoinsAgainDropsItsProposal(t *testing.T) {
	c := formed(t, steady(3))
	l := c.Leader()
	leader := c.procs[l].identity()
	c.Crash(l)
	who := -1
	c.onTrace = func(p int, trace statemachine.Trace) {
		if trace.Kind == statemachine.Proposing && who < 0 {
			who = p
		}
	}
	c.RunUntil(4*c.setup.Timings.LeaderTimeout, func() bool { return who >= 0 })
	if who < 0 {
		t.Fatalf("no proposal%s", c.Describe())
	}
	p := c.procs[who]
	before := p.identity()
	held := p.store.Held
	later := member.Claim{Chosen: true, Version: held.Version + 2, Leader: leader.Address}
	for _, body := range []message.Body{
		message.SeedKeepAlive{}, // makes the voter request a seat from the sender
		message.JoinClusterResponse{
			Reason: message.ReasonOldIncarnation, Known: before.Incarnation,
		},
	} {
		c.settleStep(p, p.machine.Step(p.clock.at(c.now), message.Message{
			From: leader, To: before.Address, Claim: later, Cluster: held.Cluster, Body: body,
		}))
	}
	if now := p.identity(); now.Incarnation != before.Incarnation+1 {
		t.Fatalf("run %d is now %d, want the next one", before.Incarnation, now.Incarnation)
	}
	c.RunFor(2 * c.setup.Timings.LeaderTimeout)
	if v := c.Violation(); v != nil {
		t.Fatalf("I1 at %v: a ballot of the run before gets another value: %v", c.Now(), v)
	}
}
