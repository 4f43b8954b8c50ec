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

// Tests for protocol.md 4 up to the founding, one for each sentence.

// A node that holds a state asks all seeds and the members of its roster simultaneously. A node
// that holds nothing asks the seed with the greatest address; if there are at most five seeds,
// each of them asks all others simultaneously.
func TestQueriesOfTheFirstRound(t *testing.T) {
	for _, tc := range []struct {
		name       string
		size, seed int // number of nodes, and how many of them are seeds
		node       int
		held       member.State
		want       []int
	}{
		{"not a seed, holding nothing", 5, 2, 3, member.State{}, []int{1}},
		{"holding a roster", 5, 2, 3, state(5, 3, 1, 0), []int{0, 1, 2, 4}},
		{"a seed of five", 5, 5, 1, member.State{}, []int{0, 2, 3, 4}},
		{"a seed of six", 6, 6, 1, member.State{}, []int{5}},
		{"the greatest of six", 6, 6, 5, member.State{}, []int{4}},
		{"a seed of six, holding a roster", 6, 6, 1, state(5, 3, 1, 0), []int{0, 2, 3, 4, 5}},
	} {
		b := newBus(t, tc.size, tc.seed)
		b.nodes[tc.node].durable.Held = tc.held
		b.start(tc.node)
		var want []member.Address
		for _, i := range tc.want {
			want = append(want, addr(i))
		}
		if got := b.asked(0); !slices.Equal(got, want) {
			t.Errorf("%s: got %v asked, want %v", tc.name, got, want)
		}
	}
}

// asked returns the nodes to which queries were sent after the given mark.
func (b *bus) asked(mark int) []member.Address {
	var out []member.Address
	for _, f := range b.mail(mark, message.KindLeaderQuery) {
		out = append(out, f.msg.To)
	}
	return out
}

// If no answer arrives, a node asks one more seed after half a RetryInterval. From the second round
// on it asks the greatest seed and, simultaneously, further seeds, which are different each time.
func TestAsksOtherSeedsInTurns(t *testing.T) {
	for _, answered := range []bool{false, true} {
		b := newBus(t, 10, 9)
		b.start(9)
		if answered {
			in := b.answer(8, member.Claim{}, member.Number{})
			in.To = addr(9)
			b.handTo(9, in)
		}
		b.run(b.timings.RetryInterval/2 + 1)
		want := []member.Address{addr(8), addr(7)}
		if answered {
			want = want[:1]
		}
		if got := b.asked(0); !slices.Equal(got, want) {
			t.Errorf("answered %t: got %v asked in the first round, want %v", answered, got, want)
		}
		mark := len(b.sent)
		b.run(b.timings.RetryInterval * 3 / 4)
		if got := b.asked(mark); len(got) < 2 || got[0] != addr(8) || got[1] == addr(8) {
			t.Errorf("answered %t: got %v asked in the second round, want n9 and another", answered, got)
		}
		b.run(5 * b.timings.RetryInterval)
		asked := map[member.Address]bool{}
		for _, a := range b.asked(0) {
			asked[a] = true
		}
		if len(asked) != 9 {
			t.Errorf("answered %t: got %d seeds asked in the end, want all 9", answered, len(asked))
		}
	}
}

// In a cluster of many seeds, a seed declares itself even if no other seed answers. It does so
// after it has asked all others for a RetryInterval. It begins to ask half a RetryInterval after
// its first query. For each greater seed except one, it waits another half of a RetryInterval.
func TestOfManySeedsTheGreatestDeclareThemselvesFirst(t *testing.T) {
	for seed, halves := range map[int]int{8: 1, 7: 1, 6: 2, 5: 3, 0: 8} {
		b := newBus(t, 9, 9)
		b.start(seed)
		took := b.until(time.Minute, "provisional leader", func() bool {
			return b.view(seed).Role == member.Provisional
		})
		retry := b.timings.RetryInterval
		// Jitter may delay the next round, or the middle of it, by this much.
		least := retry + retry/2*time.Duration(halves)
		if took < least || took > least+retry/2+retry/4 {
			t.Errorf("n%d: got it after %v, want %v", seed+1, took, least)
		}
		asked := map[member.Address]bool{}
		for _, f := range b.mail(0, message.KindLeaderQuery) {
			if f.at.Sub(epoch) <= took-retry {
				asked[f.msg.To] = true
			}
		}
		if len(asked) != 8 {
			t.Errorf("n%d: got %d seeds asked a RetryInterval before, want all 8", seed+1, len(asked))
		}
	}
}

// In a cluster of many seeds, a seed does not ask all others while a greater seed answers.
func TestOfManySeedsOneThatHeardAGreaterAsksFew(t *testing.T) {
	b := newBus(t, 9, 9)
	b.start(7)
	for range 8 {
		in := b.answer(8, member.Claim{}, member.Number{})
		in.To = addr(7)
		b.handTo(7, in)
		b.run(b.timings.RetryInterval / 2)
	}
	if n := len(b.asked(0)); n > 12 {
		t.Errorf("got %d queries in 4 RetryIntervals, want a few a round", n)
	}
	if v := b.view(7); v.Role != member.Seeking {
		t.Errorf("got role %v, want it to leave that to n9", v.Role)
	}
}

// A provisional leader sends its claim to the node with the greatest address and to one other node,
// a different one each time. For every four nodes that received the claim in this way, it sends the
// claim to one more node (section 5).
func TestProvisionalLeaderTellsAFewAtATime(t *testing.T) {
	b := newBus(t, 9, 9)
	b.start(8)
	b.until(time.Second, "provisional leader", func() bool {
		return b.view(8).Role == member.Provisional
	})
	b.run(6*b.timings.HeartbeatInterval + 1)
	claims := b.mail(0, message.KindSeedKeepAlive)
	told := map[member.Address]int{}
	at := map[time.Duration]int{}
	for _, f := range claims {
		told[f.msg.To]++
		at[f.at.Sub(claims[0].at)]++
	}
	for i, want := range []int{2, 2, 2, 2, 3, 3, 4} {
		if got := at[time.Duration(i)*b.timings.HeartbeatInterval]; got != want {
			t.Errorf("interval %d: got %d notified, want %d", i+1, got, want)
		}
	}
	if len(told) != 8 || told[addr(7)] != 7 {
		t.Errorf("notified %v, want n8 each time and all 8", told)
	}
}

// A provisional leader sends changes to its members as its whole state, at most twice per
// HeartbeatInterval, and immediately when its roster is full.
func TestProvisionalLeaderTellsOfChangesTwiceAnInterval(t *testing.T) {
	b := aFounder(t, 9)
	told := func() (n int) { return len(b.mail(0, message.KindClusterAlignment)) }
	for i := 1; i <= 3; i++ {
		b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	}
	if told() != 1 {
		t.Errorf("got %d states sent when three joined together, want the first", told())
	}
	b.hand(event(1, provisional(1, 0), message.LeaderKeepAlive{Number: number(1, 1)}))
	b.run(b.timings.HeartbeatInterval/2 - 1)
	if told() != 1 {
		t.Errorf("got %d notified before half an interval was over, want 1", told())
	}
	b.run(2)
	if told() != 4 {
		t.Errorf("got %d notified then, want all three", told())
	}
	for i := 4; i <= 7; i++ {
		b.hand(event(i, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	}
	if told() != 4 {
		t.Errorf("got %d states sent when more joined, want none yet", told()-4)
	}
	b.hand(event(8, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	if told() != 12 {
		t.Errorf("got %d notified when the roster was full, want all 8", told()-4)
	}
}

// A provisional leader sends only whole states. A member drops every update from a provisional
// leader, and holds no state.
func TestAnUpdateOfAProvisionalLeaderIsDropped(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	c := provisional(1, 2)
	s := state(3, 1, 1, 2)
	b.hand(event(2, c, message.JoinClusterResponse{Accepted: true}))
	b.hand(event(2, c, message.ClusterAlignment{State: s}))
	if v := b.view(0); v.Role != member.Following || v.Revision != s.Revision {
		t.Fatalf("got %v at revision %d, want a follower at %d\n%s", v.Role, v.Revision, s.Revision, b)
	}
	gone := s.Roster[1]
	gone.Status = member.Unreachable
	update := message.MemberStatusUpdate{Number: s.Next(nil).Number, Member: gone}
	out := b.hand(event(2, c, update))
	if v := b.view(0); v.Revision != s.Revision || !b.nodes[0].durable.Held.IsZero() {
		t.Errorf("got revision %d, held %v, want %d and nothing held",
			v.Revision, b.nodes[0].durable.Held.Number, s.Revision)
	}
	if !traced(out, statemachine.Dropped) {
		t.Errorf("got traces %+v, want it dropped", out.Trace)
	}
}

// After a failed round a node waits for RetryInterval with jitter and starts again, until it is
// stopped.
func TestFailedSearchStartsAgainAfterRetryIntervalWithJitter(t *testing.T) {
	b := newBus(t, 3, 1)
	b.start(2)
	b.run(100 * b.timings.RetryInterval)
	rounds := b.mail(0, message.KindLeaderQuery)
	if len(rounds) < 75 {
		t.Errorf("got %d rounds in 100 RetryIntervals, want at least 75", len(rounds))
	}
	seen := make(map[time.Duration]bool)
	for i := 1; i < len(rounds); i++ {
		gap := rounds[i].at.Sub(rounds[i-1].at)
		if gap < b.timings.RetryInterval || gap > b.timings.RetryInterval*5/4 {
			t.Errorf("round %d: got %v after the last, want %v and up to a quarter more",
				i, gap, b.timings.RetryInterval)
		}
		seen[gap] = true
	}
	if len(seen) < 10 {
		t.Errorf("got %d different pauses, want jitter", len(seen))
	}
}

// answer returns the response to the newest query of n1.
func (b *bus) answer(from int, c member.Claim, held member.Number) message.Message {
	b.t.Helper()
	return event(from, c, message.LeaderResponse{ID: last[message.LeaderQuery](b).ID, Held: held})
}

// A node joins the leader with the best claim.
func TestJoinsTheLeaderOfTheBestClaim(t *testing.T) {
	claims := []member.Claim{provisional(1, 3), provisional(9, 4), chosen(2, 1), chosen(3, 2)}
	for i, best := range claims {
		b := newBus(t, 5, 5)
		b.start(0)
		// The order does not matter: a worse claim that arrives later changes nothing.
		for _, c := range append(slices.Clone(claims[:i+1]), claims[:i]...) {
			b.hand(b.answer(1, c, member.Number{}))
		}
		joins := b.mail(0, message.KindJoinClusterRequest)
		if len(joins) == 0 || joins[len(joins)-1].msg.To != best.Leader {
			t.Errorf("claims %v: got joins %v, want the last at %v", claims[:i+1], joins, best.Leader)
		}
		if len(joins) > i+1 {
			t.Errorf("claims %v: got %d joins, want one for each better claim", claims[:i+1], len(joins))
		}
	}
}

// A rejection with "not leader" names the leader to try next.
func TestRejectNamesTheLeaderToTryNext(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	b.hand(b.answer(1, chosen(3, 1), number(3, 0)))
	no := message.JoinClusterResponse{Reason: message.ReasonNotLeader}
	out := b.hand(event(1, chosen(4, 2), no))
	if got, want := kinds(out.Send), []string{"n3: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Errorf("rejected with the claim of n3: got %q, want %q", got, want)
	}
	out = b.hand(event(2, member.Claim{}, no))
	if len(out.Send) != 0 {
		t.Errorf("rejected without a claim: got %q, want a wait", kinds(out.Send))
	}
	b.untilSent(b.timings.RetryInterval*5/4+1, message.KindLeaderQuery)
}

// If no seed knows a leader, the seed with the greatest address among those that answered declares
// itself. The others retry.
func TestGreatestLeaderlessSeedDeclaresItself(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0, 1, 2)
	b.settle(3)
	for i, n := range b.nodes {
		declared := slices.ContainsFunc(n.trace, func(t statemachine.Trace) bool {
			return t.Kind == statemachine.BecameProvisional
		})
		if want := i == 2; declared != want {
			t.Errorf("n%d declared itself: got %v, want %v", i+1, declared, want)
		}
	}
}

// A seed also declares itself if no other seed answers within RetryInterval. It becomes
// provisional leader of version 1.
func TestSeedDeclaresItselfWhenNoOtherSeedAnswers(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	took := b.until(time.Minute, "provisional leader", func() bool {
		return b.view(0).Role == member.Provisional
	})
	if took != b.timings.RetryInterval {
		t.Errorf("got it after %v, want %v", took, b.timings.RetryInterval)
	}
	if v := b.view(0); v.Version != 1 || v.Leader != addr(0) || v.Quorate {
		t.Errorf("got version %d led by %v, quorate %v, want version 1 led by n1, no authority",
			v.Version, v.Leader, v.Quorate)
	}
	b.run(time.Minute)
	if b.quorate() >= 0 {
		t.Error("a seed alone of three got authority")
	}
}

// A seed declares itself if it has had no leader for TTLTimeout.
func TestSeedLeaderlessForTTLTimeoutDeclaresItself(t *testing.T) {
	b := newBus(t, 3, 3)
	for _, i := range []int{1, 2} { // the greater seeds, which may not declare themselves
		b.nodes[i].conf = func(c *statemachine.Config) { c.JoinOnly = true }
	}
	b.start(0, 1, 2)
	took := b.until(time.Minute, "provisional leader", func() bool {
		return b.view(0).Role == member.Provisional
	})
	if took != b.timings.TTLTimeout {
		t.Errorf("got it after %v, want %v", took, b.timings.TTLTimeout)
	}
}

// A node that is not a seed never declares itself, nor does a seed with JoinOnly.
func TestOthersNeverDeclareThemselves(t *testing.T) {
	b := newBus(t, 3, 2)
	b.nodes[1].conf = func(c *statemachine.Config) { c.JoinOnly = true }
	b.start(1, 2)
	b.run(10 * b.timings.TTLTimeout)
	for i := 1; i < 3; i++ {
		if v := b.view(i); v.Role != member.Seeking {
			t.Errorf("n%d: got role %v, want %v", i+1, v.Role, member.Seeking)
		}
	}
}

// A seed that holds a roster declares itself only after 3 x TTLTimeout, in the version after the
// held version.
func TestSeedWithARosterDeclaresItselfAfterThreeTTLTimeouts(t *testing.T) {
	b := holding(t, 3, state(3, 3, 5, 1))
	b.start(0)
	took := b.until(time.Hour, "provisional leader", func() bool {
		return b.view(0).Role == member.Provisional
	})
	if want := 3 * b.timings.TTLTimeout; took != want {
		t.Errorf("got it after %v, want %v", took, want)
	}
	if v := b.view(0); v.Version != 4 || len(v.Members) != 3 {
		t.Errorf("got version %d with %d members, want 4 with the roster of 3", v.Version, len(v.Members))
	}
	if got := b.nodes[0].durable.Held.Number; got != number(3, 5) {
		t.Errorf("got %v held, want 3.5 still: what is provisional is never held", got)
	}
}

// A provisional leader that holds a roster starts from it and admits only its members.
func TestProvisionalLeaderWithARosterAdmitsItsMembers(t *testing.T) {
	b := provisionalWithRoster(t)
	if got := b.status(0, 1); got != member.Unreachable {
		t.Errorf("a member not heard yet: got %v, want %v", got, member.Unreachable)
	}
	out := b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Held: number(3, 0)}))
	if r := bodies[message.JoinClusterResponse](out.Send); len(r) != 1 || !r[0].Accepted {
		t.Errorf("a member joins: got %+v, want accepted", r)
	}
	if got := b.status(0, 1); got != member.Active {
		t.Errorf("a member that joined: got %v, want %v", got, member.Active)
	}
}

// A provisional leader that holds no roster keeps a place for every configured seed.
func TestProvisionalLeaderKeepsAPlaceForEverySeed(t *testing.T) {
	b := newBus(t, 4, 3)
	b.start(0)
	b.run(b.timings.RetryInterval + 1)
	join := message.JoinClusterRequest{}
	for _, tc := range []struct {
		from int
		want bool
	}{{3, true}, {4, false}, {1, true}, {5, false}, {2, true}} {
		out := b.hand(event(tc.from, member.Claim{}, join))
		r := bodies[message.JoinClusterResponse](out.Send)
		if len(r) != 1 || r[0].Accepted != tc.want {
			t.Errorf("n%d joins: got %+v, want accepted %v", tc.from+1, r, tc.want)
		}
	}
}

// A provisional leader is never healthy: it gets no support and stops no election.
func TestProvisionalLeaderIsNeverHealthy(t *testing.T) {
	b := aFounder(t, 5)
	b.hand(event(1, member.Claim{}, message.JoinClusterRequest{Seed: true}))
	ping := message.LeaderKeepAlive{Number: number(1, 1)}
	ack := bodies[message.LeaderKeepAliveAck](b.hand(event(1, provisional(1, 0), ping)).Send)
	if len(ack) != 1 || ack[0].Healthy || ack[0].Quorate || !ack[0].Stamp.IsZero() {
		t.Errorf("got acks %+v, want one without stamp, not healthy, not quorate", ack)
	}
	for _, i := range []int{0, 1} { // a follower and the leader
		c := newBus(t, 5, 5)
		c.start(0, 1)
		c.until(time.Minute, "follower of a provisional leader", func() bool {
			return c.view(0).Role == member.Following && c.view(1).Role == member.Provisional
		})
		q := message.Message{From: run(4, 1), To: addr(i), Body: message.LeaderStatusQuery{ID: 7}}
		r := bodies[message.LeaderStatusQueryResponse](c.handTo(i, q).Send)
		if len(r) != 1 || r[0].Healthy || r[0].ID != 7 {
			t.Errorf("query to n%d: got %+v, want one answer, not healthy", i+1, r)
		}
	}
}

// Nodes that follow a provisional leader continue to ask and to propose among the voters that they
// know.
func TestFollowersOfAProvisionalLeaderGoOnAsking(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(2, provisional(9, 2), message.SeedKeepAlive{}))
	b.hand(event(2, provisional(9, 2), message.JoinClusterResponse{Accepted: true}))
	b.hand(event(2, provisional(9, 2), message.ClusterAlignment{State: state(3, 9, 1, 2)}))
	if v := b.view(0); v.Role != member.Following || v.Leader != addr(2) {
		t.Fatalf("got no follower of the provisional leader\n%s", b)
	}
	mark := len(b.sent)
	b.run(b.timings.LeaderTimeout / 2)
	if len(b.mail(mark, message.KindLeaderStatusQuery)) == 0 {
		t.Errorf("got no question to the voters while following a provisional leader\n%s", b)
	}
	b.proposes(3)
}

// A node that was answered "no leader" learns of a leader as soon as there is one, without asking
// again.
func TestAskersLearnOfALeaderLater(t *testing.T) {
	b := newBus(t, 3, 2)
	b.start(0)
	b.run(b.timings.RetryInterval / 2)
	b.hand(event(2, member.Claim{}, message.LeaderQuery{ID: 42}))
	mark := len(b.sent)
	b.run(b.timings.RetryInterval/2 + 1)
	told := b.mail(mark, message.KindLeaderResponse)
	if len(told) != 1 || told[0].msg.To != addr(2) || told[0].msg.Claim != provisional(1, 0) {
		t.Errorf("got %v, want one response to n3 with the claim of n1", told)
	}
}

// A founder that lost its store can complete its founding, but is not a voter of the founded state.
// Its queries show that state, and a voter without a state takes it from them (protocol.md 4).
func TestQuestionForALeaderShowsTheHeldState(t *testing.T) {
	others := state(3, 1, 2, 2)
	others.Roster = others.Roster[1:]
	for _, c := range []struct {
		name  string
		shown member.State
		took  bool
	}{
		{"it has a vote there", state(3, 1, 2, 2), true},
		{"it has none", others, false},
		{"its leader is no member", state(3, 1, 2, 4), false},
	} {
		b := newBus(t, 3, 1)
		b.start(0)
		b.run(b.timings.RetryInterval + 1)
		if v := b.view(0); v.Role != member.Provisional {
			t.Fatalf("%s: got %v before the question, want provisional\n%s", c.name, v.Role, b)
		}
		out := b.hand(event(2, member.Claim{}, message.LeaderQuery{ID: 42, Held: c.shown}))
		if took := b.nodes[0].durable.Held.Digest() == c.shown.Digest(); took != c.took {
			t.Errorf("%s: took the state shown: %t, want %t\n%s", c.name, took, c.took, b)
		}
		if c.took && !slices.Contains(kinds(out.Send), "n3: LeaderResponse") {
			t.Errorf("%s: got %q, want an answer as well", c.name, kinds(out.Send))
		}
	}
	b := newBus(t, 3, 2)
	b.start(0)
	held := state(3, 2, 0, 1)
	b.hand(event(2, member.Claim{}, message.LeaderQuery{ID: 42, Held: held}))
	mark := len(b.sent)
	b.run(2 * b.timings.RetryInterval)
	for _, s := range b.mail(mark, message.KindLeaderQuery) {
		if q := s.msg.Body.(message.LeaderQuery); q.Held.Digest() != held.Digest() {
			t.Errorf("its own question shows %+v, want what it holds", q.Held)
		}
	}
	if len(b.mail(mark, message.KindLeaderQuery)) == 0 {
		t.Errorf("got no query\n%s", b)
	}
}

// A rejection names the known incarnation. A node with a new store id joins again with a greater
// incarnation. Otherwise a clock that was set back would lock the node out (protocol.md 3).
func TestNewStoreJoinsAboveTheIncarnationThatIsKnown(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	b.hand(b.answer(1, chosen(3, 1), number(3, 0)))
	known := message.JoinClusterResponse{Reason: message.ReasonOldIncarnation, Known: 41}
	out := b.hand(event(1, chosen(3, 1), known))
	if got, want := kinds(out.Send), []string{"n2: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if got := out.Send[0].From.Incarnation; got != 42 || b.nodes[0].durable.Incarnation != 42 {
		t.Errorf("joins as run %d, saved %d, want 42", got, b.nodes[0].durable.Incarnation)
	}
	// An answer with an absurd incarnation has no effect, because it would use up the available
	// numbers.
	known.Known = 1 << 62
	if out := b.hand(event(1, chosen(3, 1), known)); len(out.Send) != 0 {
		t.Errorf("reject with an absurd incarnation: got %q, want nothing", kinds(out.Send))
	}
	// Many answers must not raise it without a limit either, even if each of them could be true.
	for range 9 {
		known.Known = b.nodes[0].durable.Incarnation + 1<<43
		b.hand(event(1, chosen(3, 1), known))
	}
	if got := b.nodes[0].durable.Incarnation; got > 1<<44+1 {
		t.Errorf("after nine rejects: got run %d, want one that a later store can exceed", got)
	}
}

// A false leader raised the run of a store that holds nothing so far that the true leader refuses
// it. The node joins with another store, once.
func TestARaisedRunJoinsWithAnotherStore(t *testing.T) {
	b := newBus(t, 3, 3)
	const clock = 1 << 40
	b.nodes[0].durable.Incarnation, b.nodes[0].durable.Floor = clock-1, 2
	b.nodes[0].conf = func(c *statemachine.Config) { c.Clock = clock }
	b.start(0)
	refuse := func(by int, answer message.JoinClusterResponse) {
		t.Helper()
		b.hand(b.answer(by, chosen(3, by), number(3, 0)))
		b.hand(event(by, chosen(3, by), answer))
	}
	jump := message.JoinClusterResponse{Reason: message.ReasonRunJump}
	first := b.nodes[0].durable.StoreID
	if refuse(2, jump); b.nodes[0].durable.StoreID != first {
		t.Error("a run that was not raised got another store")
	}
	b.untilSent(2*b.timings.RetryInterval, message.KindLeaderQuery)
	refuse(2, message.JoinClusterResponse{
		Reason: message.ReasonOldIncarnation, Known: clock + 3<<42,
	})
	if got := b.nodes[0].durable.Incarnation; got != clock+3<<42+1 {
		t.Fatalf("got run %d, want the one above the known run", got)
	}
	b.untilSent(2*b.timings.RetryInterval, message.KindLeaderQuery)
	refuse(1, jump)
	got := b.nodes[0].durable
	if got.StoreID == first || got.Incarnation > clock+1 || got.Floor != 2 {
		t.Errorf("got %+v, want another store with the floor, and the run of the clock", got)
	}
	b.untilSent(2*b.timings.RetryInterval, message.KindLeaderQuery)
	if refuse(1, jump); b.nodes[0].durable.StoreID != got.StoreID {
		t.Error("a run that was not raised got another store again")
	}
}

// A leader that refused is not asked again in that round, even if other nodes name it. Otherwise
// refusals and joins could trigger each other at network speed (section 2).
func TestARefusalIsNotAnsweredByAnotherJoin(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	b.hand(b.answer(1, provisional(1, 1), member.Number{}))
	refused := message.JoinClusterResponse{Reason: message.ReasonHoldsState}
	for range 3 { // the network may duplicate the refusal
		if out := b.hand(event(1, provisional(1, 1), refused)); len(out.Send) != 0 {
			t.Errorf("refused: got %q, want a wait", kinds(out.Send))
		}
	}
	if out := b.hand(b.answer(2, provisional(1, 1), member.Number{})); len(out.Send) != 0 {
		t.Errorf("named by another: got %q, want a wait", kinds(out.Send))
	}
	b.untilSent(b.timings.RetryInterval*5/4+1, message.KindLeaderQuery)
	out := b.hand(b.answer(1, provisional(1, 1), member.Number{}))
	if got, want := kinds(out.Send), []string{"n2: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Errorf("in the next round: got %q, want %q", got, want)
	}
}

// A leader that replied that the joiner must wait may accept it later, although the joiner does not
// know the leader otherwise, and is not asked again meanwhile.
func TestAJoinerThatMustWaitIsAcceptedLater(t *testing.T) {
	for reason, waits := range map[message.Reason]bool{
		message.ReasonNotSettled: true, message.ReasonClusterFull: true,
		message.ReasonQuorumAtStake: true, message.ReasonAddressHeld: true,
		message.ReasonRunJump: false, message.ReasonVersionJump: false, message.ReasonNotMember: false,
	} {
		b := aVoter(t, 3)
		b.hand(event(1, chosen(5, 7), message.SeedKeepAlive{})) // n2 names n8, which n1 does not know
		b.hand(event(7, chosen(5, 7), message.JoinClusterResponse{Reason: reason}))
		b.run(b.timings.HeartbeatInterval)
		out := b.hand(event(7, chosen(5, 7), message.SeedKeepAlive{}))
		if joins := bodies[message.JoinClusterRequest](out.Send); len(joins) != 0 {
			t.Errorf("refused with %v, claims itself again: got %q, want no request", reason,
				kinds(out.Send))
		}
		b.hand(event(7, chosen(5, 7), message.JoinClusterResponse{Accepted: true}))
		if follows := b.count(0, statemachine.Follows, addr(7)) > 0; follows != waits {
			t.Errorf("refused with %v, then accepted: follows n8: got %v, want %v\n%s", reason, follows,
				waits, b)
		}
	}
}

// A run that had a place stops with ErrAddressInUse if a leader refuses it because a later run has
// that place (protocol.md 3).
func TestARunWhosePlaceALaterOneHasStops(t *testing.T) {
	for known, want := range map[uint64]error{
		2: statemachine.ErrAddressInUse,
		1: nil, // another store has that number, or the answer is late
	} {
		b := supporter(t)
		b.hand(event(1, member.Claim{}, message.ReJoinCluster{GivenUp: chosen(3, 1)}))
		b.hand(event(1, chosen(4, 1), message.SeedKeepAlive{}))
		out := b.hand(event(1, chosen(4, 1), message.JoinClusterResponse{
			Reason: message.ReasonOldIncarnation, Known: known,
		}))
		if !errors.Is(out.Stop, want) {
			t.Errorf("reject of run 1 for run %d: got %v, want %v", known, out.Stop, want)
		}
		joins := len(out.Send) == 1 && out.Send[0].From.Incarnation == 2
		if want == nil && !joins {
			t.Errorf("reject with its own number: got %+v, want a join as run 2", out.Send)
		}
	}
}

// A member that is not in a provisional leader's state asks for a place.
func TestAFollowerWithoutAPlaceJoinsAgain(t *testing.T) {
	b := softFollower(t)
	s := state(3, 9, 2, 1)
	s.Roster = s.Roster.Without(addr(0))
	out := b.hand(event(1, provisional(9, 1), message.ClusterAlignment{State: s}))
	if got, want := kinds(out.Send), []string{"n2: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Once its chosen leader has removed a node, the node has no chosen leader. After TTLTimeout it
// trusts the processes at the addresses that it knows (protocol.md 3), because the stores there may
// have been replaced.
func TestARemovedMemberHearsKnownAddressesAfterTTLTimeout(t *testing.T) {
	b := aFollower(t, 3)
	s := state(3, 3, 2, 1)
	s.Roster = s.Roster.Without(addr(0))
	out := b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: s}))
	if got, want := kinds(out.Send), []string{"n2: JoinClusterRequest"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	moved := event(8, chosen(4, 8), message.SeedKeepAlive{})
	replaced := event(2, chosen(4, 8), message.SeedKeepAlive{})
	replaced.From = newStore(replaced.From)
	b.run(b.timings.TTLTimeout - 1)
	if out := b.hand(replaced); slices.Contains(kinds(out.Send), "n9: JoinClusterRequest") {
		t.Error("the claim of an unknown store counts before TTLTimeout")
	}
	b.run(1)
	if out := b.hand(moved); slices.Contains(kinds(out.Send), "n9: JoinClusterRequest") {
		t.Error("the claim of an unknown address counts")
	}
	if out := b.hand(replaced); !slices.Contains(kinds(out.Send), "n9: JoinClusterRequest") {
		t.Errorf("after TTLTimeout got %q, want a request to n9\n%s", kinds(out.Send), b)
	}
}

// A node that asked for a leader is notified of only one leader, once, in answer to its last query.
func TestOnlyAskersWithoutALeaderAreAnsweredLater(t *testing.T) {
	b := aVoter(t, 3)
	b.hand(event(2, member.Claim{}, message.LeaderQuery{ID: 42}))
	b.hand(event(2, member.Claim{}, message.LeaderQuery{ID: 43}))
	out := b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(3, 3, 1, 1)}))
	told := bodies[message.LeaderResponse](out.Send)
	if len(told) != 1 || told[0].ID != 43 {
		t.Errorf("sent %+v, want one answer to query 43", told)
	}
	b.hand(event(2, member.Claim{}, message.LeaderQuery{ID: 44}))
	out = b.hand(event(1, chosen(4, 1), message.LeaderElected{State: state(3, 4, 0, 1)}))
	if again := bodies[message.LeaderResponse](out.Send); len(again) != 0 {
		t.Errorf("got %+v after it learned of n2, want nothing", again)
	}
}

// A seed waits for a leader that others name, even if that leader never answers. The seed declares
// itself leader only if no leader is known.
func TestASeedThatHoldsNothingWaitsForALeaderThatIsNamed(t *testing.T) {
	b := newBus(t, 4, 3)
	b.start(2)
	answer := func(from int, c member.Claim) {
		q := last[message.LeaderQuery](b)
		b.handTo(2, message.Message{
			From: run(from, 1), To: addr(2), Claim: c, Body: message.LeaderResponse{ID: q.ID},
		})
	}
	for range 50 {
		answer(0, chosen(5, 3))
		answer(1, chosen(5, 3))
		b.run(b.timings.RetryInterval)
		if role := b.view(2).Role; role != member.Seeking {
			t.Fatalf("at %v: got role %v, want %v", b.since(), role, member.Seeking)
		}
	}
}

// If none knows a leader, the seed with the greatest address among those that answered leaderless
// declares itself. A greater seed that named a leader is not among them.
func TestASeedThatNamedALeaderIsNotLeaderless(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(1)
	hand := func(in message.Message) {
		in.To = addr(1)
		b.handTo(1, in)
	}
	hand(b.answer(2, chosen(5, 7), member.Number{}))
	hand(event(7, chosen(5, 7), message.JoinClusterResponse{Reason: message.ReasonVersionJump}))
	for b.view(1).Role == member.Seeking && b.since() < b.timings.TTLTimeout {
		b.run(b.timings.RetryInterval / 10)
		hand(event(0, member.Claim{}, message.LeaderQuery{}))
	}
	least, most := 2*b.timings.RetryInterval, b.timings.RetryInterval*9/4
	if took := b.since(); took < least || took >= most {
		t.Errorf("got n2 %v %v after n3 named a leader, want it to declare itself after %v",
			b.view(1).Role, took, least)
	}
}

// A seed that holds nothing does not declare itself leader while another seed shows a held state.
// That state proves that a cluster exists, and its members will elect.
func TestASeedDoesNotDeclareItselfBesideAStateThatIsHeld(t *testing.T) {
	b := newBus(t, 3, 3)
	b.nodes[0].durable.Held = state(2, 3, 0, 1) // lists n1 and n2; n2 is down
	b.start(0, 2)
	b.run(b.timings.TTLTimeout - 1)
	if role := b.view(2).Role; role != member.Seeking {
		t.Errorf("got role %v before TTLTimeout, want %v", role, member.Seeking)
	}
}

// Two answers from one seed count once.
func TestASeedThatAnswersTwiceCountsOnce(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(2)
	for range 2 {
		q := last[message.LeaderQuery](b)
		in := event(0, member.Claim{}, message.LeaderResponse{ID: q.ID})
		in.To = addr(2)
		b.handTo(2, in)
	}
	if role := b.view(2).Role; role != member.Seeking {
		t.Errorf("got role %v while the second seed is silent, want %v", role, member.Seeking)
	}
}

// A leader has a full RetryInterval to answer a join request, even if the request is sent late in
// the round.
func TestAJoinIsGivenARetryInterval(t *testing.T) {
	b := newBus(t, 3, 3)
	b.start(0)
	b.run(b.timings.RetryInterval - 1)
	b.hand(b.answer(1, chosen(5, 2), member.Number{}))
	if took := b.untilSent(time.Minute, message.KindLeaderQuery); took < b.timings.RetryInterval {
		t.Errorf("got the next round %v after the join, want at least %v", took, b.timings.RetryInterval)
	}
}

// If one side of a partition is quorate, all nodes follow the leader of that side within 4
// intervals and 4 round trips after the heal (L2). Here the old leader reaches only one member.
// This member informs it of the new leader, but the old leader's join request is lost. After the
// heal, the claims of the new leader make the old leader ask again before its next round.
func TestJoinsAgainAfterALostRequest(t *testing.T) {
	for phase := range 20 {
		b := newBus(t, 5, 5)
		b.start(0, 1, 2, 3, 4)
		b.settle(5)
		old, kept := addr(b.quorate()), addr(b.quorate()-1)
		b.cut = func(m message.Message) bool {
			return m.From.Address == old && m.To != kept || m.To == old && m.From.Address != kept
		}
		b.until(time.Minute, "next leader", func() bool {
			l := b.quorate()
			return l >= 0 && addr(l) != old
		})
		b.run(b.timings.TTLTimeout/2 + time.Duration(phase)*37*time.Millisecond)
		b.cut = nil
		took := b.settle(5)
		if limit := 4*b.timings.HeartbeatInterval + 8*b.latency; took > limit {
			t.Errorf("phase %d: got all active %v after the heal, want at most %v", phase, took, limit)
		}
	}
}
