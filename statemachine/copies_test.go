// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// These tests check protocol.md 3, a restored copy.

// restoreStore starts node i, which is down, with an earlier copy of its store. The node must get
// another store before the old one votes, and its place again.
func (b *bus) restoreStore(i int, earlier paxos.Durable) {
	b.t.Helper()
	n, mark := b.nodes[i], len(b.sent)
	later := n.durable.Incarnation // the clock runs on
	n.durable, n.trace = earlier, nil
	n.durable.Incarnation = later
	n.conf = func(c *statemachine.Config) { c.LastRun = earlier.Incarnation }
	b.start(i)
	n.conf = nil
	b.settle(b.size)
	if b.count(i, statemachine.FoundCopy, addr(i)) != 1 || n.durable.StoreID == earlier.StoreID {
		b.t.Fatalf("n%d still has the restored store\n%s", i+1, b)
	}
	for _, f := range b.sent[mark:] {
		v, votes := f.msg.Body.(message.Vote)
		if votes && v.Granted && f.msg.From.StoreID == earlier.StoreID {
			b.t.Errorf("the restored store voted: %+v", v)
		}
	}
}

// found reports how many other nodes found out that the store of node i was restored.
func (b *bus) found(i int) (n int) {
	for _, o := range b.others(i) {
		n += b.count(o, statemachine.FoundCopy, addr(i))
	}
	return n
}

// The roster lists a run that the store does not remember.
func TestRestoredFromBeforeItsLastRun(t *testing.T) {
	b := formed(t, 3, 3)
	for i := range b.nodes {
		earlier := b.nodes[i].durable
		b.crash(i)
		b.settle(2)
		b.start(i)
		b.settle(3)
		b.crash(i)
		b.run(b.timings.HeartbeatTimeout)
		b.restoreStore(i, earlier)
		if b.found(i) == 0 {
			t.Errorf("no other node has found that n%d was restored\n%s", i+1, b)
		}
	}
}

// A leader does not remember a state that it made in its last run.
func TestLeaderRestoredFromItsLastRun(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	earlier := b.nodes[l].durable
	other := b.others(l)[0]
	b.crash(other)
	b.awaitStatus(b.timings.TTLTimeout, l, other, member.Unreachable)
	b.start(other)
	b.settle(3)
	b.crash(l)
	b.run(b.timings.HeartbeatInterval) // no other node leads yet
	b.restoreStore(l, earlier)
	if b.found(l) == 0 {
		t.Errorf("no other node has found that the leader was restored\n%s", b)
	}
}

// A follower does not remember a state that it acknowledged in its last run to the present leader.
func TestFollowerRestoredFromItsLastRun(t *testing.T) {
	b := formed(t, 3, 3)
	l := b.quorate()
	i, other := b.others(l)[0], b.others(l)[1]
	earlier := b.nodes[i].durable
	b.crash(other)
	b.awaitStatus(b.timings.TTLTimeout, l, other, member.Unreachable)
	b.start(other)
	b.settle(3)
	b.crash(i)
	b.run(b.timings.HeartbeatInterval)
	b.restoreStore(i, earlier)
	if b.count(l, statemachine.FoundCopy, addr(i)) == 0 {
		t.Errorf("the leader has not found that n%d was restored\n%s", i+1, b)
	}
}

// The whole store was copied before the node joined.
func TestRestoredFromBeforeItJoined(t *testing.T) {
	b := newBus(t, 3, 3)
	earlier := b.nodes[0].durable
	earlier.Incarnation++
	b.start(0)
	b.crash(0)
	b.start(0, 1, 2)
	b.settle(3)
	b.crash(0)
	b.settle(2)
	b.restoreStore(0, earlier)
}

// None of these is a copy: a store that was restarted many times before its run got a place, a
// state that lags behind, a store of an earlier release, and another store.
func TestOtherStoresAreNotTakenForCopies(t *testing.T) {
	roster := state(3, 4, 1, 0).Roster // n2 is in its run 5
	e, _ := roster.Find(addr(1))
	e.Incarnation = 5
	for name, tc := range map[string]struct {
		runs message.Runs
		held member.Number
		want bool
	}{
		"its last run has its place":            {message.Runs{Last: 5, First: 9}, number(4, 1), false},
		"later runs have not joined":            {message.Runs{Last: 7, First: 9}, number(4, 1), false},
		"it began with the run that has joined": {message.Runs{Last: 3, First: 5}, number(4, 1), false},
		"it holds an earlier state":             {message.Runs{Last: 5, First: 9}, number(3, 0), false},
		"an earlier release":                    {message.Runs{}, number(3, 0), false},
		"a new store":                           {message.Runs{First: 9}, number(4, 1), false},
		"it has forgotten a run":                {message.Runs{Last: 4, First: 9}, number(4, 1), true},
	} {
		b := holding(t, 3, member.State{
			Number: number(4, 1), Cluster: ourCluster, Leader: addr(2), Roster: roster.With(e),
		})
		b.start(0)
		in := event(1, member.Claim{}, message.LeaderQuery{
			Held: member.State{Number: tc.held}, Runs: tc.runs,
		})
		in.From.Incarnation = 9
		if out := b.hand(in); traced(out, statemachine.FoundCopy) != tc.want {
			t.Errorf("%s: got %t, want %t", name, !tc.want, tc.want)
		}
	}
}

// A node finds in a state that its own store was restored, before it takes the state or votes.
func TestOwnCopyIsFoundInAState(t *testing.T) {
	later := state(3, 9, 0, 1)
	e, _ := later.Roster.Find(addr(0))
	e.Incarnation = 5
	later.Roster = later.Roster.With(e)
	made := state(3, 9, 1, 0) // by the first run of this node
	ballot := func(version uint64) paxos.ID {
		return paxos.ID{Version: version, Ballot: paxos.Ballot{
			Round: 1, Proposer: addr(1), StoreID: run(1, 1).StoreID, Incarnation: 1,
		}}
	}
	pre := message.Proposal{Stage: message.Pre, ID: ballot(10), Held: later.Number, State: later}
	formal := message.Proposal{
		Stage: message.Formal, ID: ballot(9), Held: number(8, 0), Base: number(8, 0), State: later,
	}
	for name, body := range map[string]message.Body{
		"a pre proposal":         pre,
		"a formal proposal":      formal,
		"a state":                message.ClusterAlignment{State: later},
		"a state that it made":   message.Vote{Stage: message.Pre, State: made},
		"the state of an answer": message.Vote{Stage: message.Pre, State: later},
		"the choice of a leader": message.LeaderElected{State: later},
	} {
		b := holding(t, 3, state(3, 3, 0, 1))
		b.nodes[0].durable.Incarnation = 7
		b.nodes[0].conf = func(c *statemachine.Config) { c.LastRun = 3 }
		b.start(0)
		b.run(b.timings.LeaseTimeout + 1)
		out := b.hand(event(1, chosen(9, 1), body))
		if votes := bodies[message.Vote](out.Send); len(votes) > 0 && votes[0].Granted {
			t.Errorf("%s: the restored store votes", name)
		}
		if d := b.nodes[0].durable; d.StoreID == run(0, 1).StoreID || !d.Held.IsZero() || d.Floor != 8 {
			t.Errorf("%s: got %+v, want an empty store with floor 8", name, d)
		}
	}
}

// A store that is empty gives itself up if any process remembers more, but takes a floor only from
// the address of a seed.
func TestAnEmptyStoreTakesAFloorFromSeedsOnly(t *testing.T) {
	for from, want := range map[int]uint64{1: 8, 5: 0} {
		b := newBus(t, 3, 3)
		b.nodes[0].durable.Incarnation = 7
		b.nodes[0].conf = func(c *statemachine.Config) { c.LastRun = 3 }
		b.start(0)
		before := b.nodes[0].durable
		b.hand(event(from, member.Claim{}, message.JoinClusterResponse{
			Reason: message.ReasonRestored, Known: 9,
		}))
		d := b.nodes[0].durable
		if d.StoreID == before.StoreID || d.Floor != want {
			t.Errorf("after a refusal by n%d got %+v, want another store with floor %d", from+1, d, want)
		}
	}
}

// A run gives its store up only if a voter refuses it, and not once it has its place.
func TestStrangersEndNoStore(t *testing.T) {
	refusal := func(i int) message.Message {
		return event(i, member.Claim{}, message.JoinClusterResponse{
			Reason: message.ReasonRestored, Known: 4,
		})
	}
	stranger := refusal(1)
	stranger.From = newStore(stranger.From)
	stale := event(1, member.Claim{}, message.JoinClusterResponse{
		Reason: message.ReasonRestored, Known: 2,
	})
	for name, tc := range map[string]struct {
		b    *bus
		in   message.Message
		ends bool
	}{
		"a voter":                        {aVoter(t, 3), refusal(1), true},
		"another store":                  {aVoter(t, 3), stranger, false},
		"no member":                      {aVoter(t, 3), refusal(5), false},
		"a leader with another store":    {askForPlace(t, false, 1), stranger, true},
		"a leader that a voter named":    {askForPlace(t, false, 5), refusal(5), true},
		"a leader that a stranger named": {askForPlace(t, true, 5), refusal(5), false},
		"a voter with less":              {aVoter(t, 3), stale, false},
		"a voter, to a follower":         {aFollower(t, 3), refusal(1), false},
		"a voter, to a leader":           {aQuorateLeader(t, 3), refusal(1), false},
		"a voter, to a former member":    {formerMember(t), refusal(1), false},
		"an accepted voter":              {anAccepting(t), refusal(1), true},
		"a store of no voter":            {anAccepting(t), stranger, false},
		"a store, to one that promised":  {aPromising(t), stranger, true},
		"a voter of another cluster": {aVoter(t, 3),
			ofCluster(1, member.Claim{}, refusal(1).Body)(nil), false},
	} {
		before := tc.b.nodes[0].durable
		tc.b.hand(tc.in)
		d := tc.b.nodes[0].durable
		if ends := d.StoreID != before.StoreID; ends != tc.ends {
			t.Errorf("%s: the store was given up: %t, want %t", name, ends, tc.ends)
		}
		if tc.ends && (!d.Held.IsZero() || d.Floor != 3 || d.Incarnation <= before.Incarnation) {
			t.Errorf("%s: got %+v, want an empty store with floor 3", name, d)
		}
	}
}

// askForPlace returns node n1, which asks for a place the leader that a voter has named or, if
// isReplaced is true, another store at its address, after it had no leader for so long that it
// trusts that store.
func askForPlace(t *testing.T, isReplaced bool, leader int) *bus {
	t.Helper()
	b := aVoter(t, 3)
	b.run(b.timings.TTLTimeout)
	in := event(2, chosen(4, leader), message.SeedKeepAlive{})
	if isReplaced {
		in.From = newStore(in.From)
	}
	b.hand(in)
	if got := last[message.JoinClusterRequest](b); got.Name == "" {
		t.Fatalf("n1 asks no leader\n%s", b)
	}
	return b
}

// anAccepting returns a node that holds nothing and accepted the state of a founding.
func anAccepting(t *testing.T) *bus {
	t.Helper()
	return startFounding(t, state(3, 1, 0, 1))
}

// aPromising returns a node that holds nothing and only promised in a founding.
func aPromising(t *testing.T) *bus {
	t.Helper()
	return startFounding(t, member.State{})
}

func startFounding(t *testing.T, accepted member.State) *bus {
	t.Helper()
	b := holding(t, 3, member.State{})
	d := &b.nodes[0].durable
	d.Promised = paxos.ID{Version: 1, Ballot: paxos.Ballot{Round: 1, Proposer: addr(1)}}
	if !accepted.IsZero() {
		d.Accepted = paxos.Accepted{ID: d.Promised, State: accepted}
	}
	b.nodes[0].conf = func(c *statemachine.Config) { c.LastRun = 1 }
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	return b
}

// A node that holds a state neither follows another run that leads its version nor takes a state of
// it, so that it still shows its own.
func TestAVersionHasOneLeader(t *testing.T) {
	s := state(3, 3, 5, 1)
	s.Roster = s.Roster.With(member.Member{Identity: run(1, 2), Seed: true, Status: member.Active})
	for _, body := range []message.Body{
		message.JoinClusterResponse{Accepted: true}, message.ClusterAlignment{State: s},
	} {
		b := aVoter(t, 3)
		in := event(1, chosen(3, 1), body)
		in.From = run(1, 2)
		out := b.hand(in)
		if !gave(out, message.ReasonOtherLeader) || b.nodes[0].durable.Held.Revision != 0 ||
			b.view(0).Role == member.Following {
			t.Errorf("%T: got traces %+v\n%s", body, out.Trace, b)
		}
	}
}

// A run that had its place keeps its store. It no longer shows runs, so that it gets a place again.
func TestFormerMemberIsNotRefused(t *testing.T) {
	b := formerMember(t)
	before := b.nodes[0].durable
	refusal := message.JoinClusterResponse{Reason: message.ReasonRestored, Known: 4}
	b.hand(event(1, member.Claim{}, refusal))
	b.run(4 * b.timings.RetryInterval)
	if b.nodes[0].durable.StoreID != before.StoreID {
		t.Errorf("the store was given up\n%s", b)
	}
	if q := last[message.LeaderQuery](b); q.Runs.First != 0 {
		t.Errorf("got %+v, want no runs", q)
	}
}

// formerMember returns a follower of n2 after n3 was elected on a state that does not list its run.
func formerMember(t *testing.T) *bus {
	t.Helper()
	b := aFollower(t, 3)
	s := state(3, 4, 0, 2)
	s.Roster = s.Roster.With(member.Member{Identity: run(0, 0), Seed: true, Status: member.Active})
	b.hand(event(2, chosen(4, 2), message.ClusterAlignment{State: s}))
	return b
}

// A leader that has authority sees a state of its version or a later one that another run leads: it
// notifies all members and exceeds that version. If the version is later, it waits for a
// LeaseTimeout, since its clock may have stood still.
func TestLaterStateIsReported(t *testing.T) {
	b := aQuorateLeader(t, 3)
	query := event(2, member.Claim{}, message.LeaderQuery{Held: state(3, 4, 0, 2)})
	checkLaterState(t, b, b.hand(query), 6)

	b = aQuorateLeader(t, 3)
	query = event(2, member.Claim{}, message.LeaderQuery{Held: state(3, 9, 3, 2)})
	if out := b.hand(query); traced(out, statemachine.FoundLater) {
		t.Error("the state was reported immediately")
	}
	for end := b.now.Add(b.timings.LeaseTimeout); b.now.Before(end); {
		b.run(b.timings.HeartbeatInterval)
		b.keepQuorate(3)
	}
	checkLaterState(t, b, b.hand(query), 10)
}

// Neither a leader that has authority nor its followers take a later state from a late vote: the
// leader would be replaced without a report.
func TestLaterStateOfAVoteIsReported(t *testing.T) {
	b := aQuorateLeader(t, 3)
	vote := event(2, member.Claim{}, message.Vote{Stage: message.Pre, State: state(3, 9, 3, 2)})
	b.hand(vote)
	if d := b.nodes[0].durable; d.Held.Version != 4 || b.view(0).Role != member.Leading {
		t.Errorf("got %v\n%s", d.Held.Number, b)
	}
	for end := b.now.Add(b.timings.LeaseTimeout); b.now.Before(end); {
		b.run(b.timings.HeartbeatInterval)
		b.keepQuorate(3)
	}
	checkLaterState(t, b, b.hand(vote), 10)

	b = aFollower(t, 3)
	b.hand(vote)
	if d := b.nodes[0].durable; d.Held.Version != 3 {
		t.Errorf("a follower took %v\n%s", d.Held.Number, b)
	}
}

// checkLaterState checks that a leader reports a later state and proposes the next version.
func checkLaterState(t *testing.T, b *bus, out statemachine.Output, next uint64) {
	t.Helper()
	var told []string
	for _, m := range out.Send {
		if r, ok := m.Body.(message.JoinClusterResponse); ok && r.Reason == message.ReasonLaterState {
			told = append(told, m.To.Host)
		}
	}
	if !traced(out, statemachine.FoundLater) || !slices.Equal(told, []string{"n2", "n3"}) {
		t.Errorf("got traces %+v, and told %v", out.Trace, told)
	}
	if p := last[message.Proposal](b); p.ID.Version != next {
		t.Errorf("got a proposal for version %d, want %d", p.ID.Version, next)
	}
}

// A member shows a revision that its leader has not made: an earlier run of the leader made it.
func TestLaterRevisionIsReported(t *testing.T) {
	b := aQuorateLeader(t, 3)
	in := event(1, chosen(4, 0), message.LeaderKeepAlive{Number: number(4, 7)})
	if out := b.hand(in); !traced(out, statemachine.FoundLater) {
		t.Errorf("got traces %+v, want the later state", out.Trace)
	}
}

// The holder of the later state and the other members report it once.
func TestMembersReportALaterState(t *testing.T) {
	for want, known := range map[member.Address]uint64{addr(0): 3, {}: 9} {
		b := aVoter(t, 3)
		in := event(1, chosen(2, 1), message.JoinClusterResponse{
			Reason: message.ReasonLaterState, Known: known,
		})
		for range 2 {
			b.hand(in)
		}
		if n := b.count(0, statemachine.FoundLater, want); n != 1 {
			t.Errorf("known %d: got %d reports of %v, want 1", known, n, want)
		}
		in.From = newStore(in.From)
		in.Body = message.JoinClusterResponse{Reason: message.ReasonLaterState, Known: 20}
		if out := b.hand(in); traced(out, statemachine.FoundLater) {
			t.Error("a stranger was believed")
		}
	}
}

// TestCopyProvesNoEnd checks that nothing but the copy is learned from a restored store: the run of
// the leader that the copy is of may still be running. A follower continues to support it.
func TestCopyProvesNoEnd(t *testing.T) {
	b := aFollower(t, 3)
	e, _ := b.nodes[0].durable.Held.Roster.Find(addr(1))
	in := event(1, member.Claim{}, message.LeaderQuery{
		ID: 1, Runs: message.Runs{Last: e.Incarnation - 1, First: e.Incarnation + 50},
	})
	in.From.Incarnation = e.Incarnation + 50
	if out := b.hand(in); !gave(out, message.ReasonRestored) {
		t.Errorf("the copy is not refused\n%s", b)
	}
	if v := b.view(0); v.Role != member.Following || v.Leader != addr(1) {
		t.Errorf("got %v of %v, want a follower of n2", v.Role, v.Leader)
	}
}

// TestStrangersShowNoCopy checks that a process without a vote cannot end a store with a forged
// state, also while the node has had no leader for so long that it takes states of any process.
func TestStrangersShowNoCopy(t *testing.T) {
	held := state(3, 3, 0, 1)
	b := holding(t, 3, held)
	b.nodes[0].conf = func(c *statemachine.Config) { c.LastRun = 3 }
	b.nodes[0].durable.Incarnation = 8
	b.start(0)
	b.run(b.timings.LeaseTimeout + b.timings.TTLTimeout + 1)
	e, _ := held.Roster.Find(addr(0))
	e.Incarnation = 5
	held.Roster = held.Roster.With(e)
	store := b.nodes[0].durable.StoreID
	for _, version := range []uint64{1, 9} {
		held.Version = version
		in := event(6, member.Claim{}, message.LeaderElected{State: held})
		in.From = newStore(run(6, 1))
		b.hand(in)
		if b.nodes[0].durable.StoreID != store {
			t.Fatalf("a stranger's state of version %d ended the store\n%s", version, b)
		}
	}
}
