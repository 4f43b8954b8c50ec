// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"slices"
	"testing"
	"time"
)

// The bounds of docs/elections.md, without the delay of messages.
const (
	firstLeader = sample + campaign
	takeOver    = alive + campaign
	healed      = alive / 2
)

func TestG01AllStartTogether(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.startAll()
		leader := w.wantOneOf(w.all(), firstLeader+slowest+slack)
		if w.loss == 0 && leader != 0 {
			t.Errorf("%s leads, want the lowest", id(leader))
		}
		if w.loss == 0 {
			w.stays(leader, w.all(), 20*alive)
			for i, n := range w.nodes[1:] {
				if len(n.led) > 0 {
					t.Errorf("%s has led too", id(i+1))
				}
			}
		}
	})
}

// If many members start together, only the lowest ever leads.
func TestG01ManyStartTogether(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, 200, seed, 0)
		w.startAll()
		w.wantOneOf(w.all(), firstLeader+slowest)
		for _, n := range w.nodes[1:] {
			if len(n.led) > 0 {
				t.Fatalf("%s has led too: %s", n.id, w)
			}
		}
	}
}

func TestG02DescendingStarts(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.start(4)
		w.wantOneOf([]int{4}, firstLeader)
		for i := 3; i >= 0; i-- {
			w.run(2 * time.Second)
			w.start(i)
		}
		got := w.wantOneOf(w.all(), campaign+slack)
		if w.loss > 0 {
			return // a proposal and a declaration may both be lost
		}
		if got != 4 {
			t.Errorf("%s leads, want the one that led first", id(got))
		}
		w.stays(4, w.all(), 20*alive)
	})
}

func TestG03LoneNode(t *testing.T) {
	in(t, 1, func(w *world, _ time.Duration) {
		w.startAll()
		began := w.now
		w.wantOneOf([]int{0}, time.Hour)
		if took := w.now.Sub(began); took != sample+campaign {
			t.Errorf("leads after %v, want Sample + Campaign", took)
		}
	})
}

func TestG04TakeOver(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.startAll()
		leader := w.wantOneOf(w.all(), firstLeader+slowest+slack)
		w.run(time.Duration(w.rand.Int64N(int64(alive))))
		_, before := w.nodes[leader].Leader()
		if !w.nodes[leader].Leads() {
			return // messages were lost: try another seed
		}
		w.crash(leader)
		rest := slices.DeleteFunc(w.all(), func(i int) bool { return i == leader })
		next := w.wantOneOf(rest, takeOver+slowest+slack)
		if _, term := w.nodes[next].Leader(); term <= before {
			t.Errorf("term %d after %d", term, before)
		}
		if w.loss == 0 && next != rest[0] {
			t.Errorf("%s leads, want the lowest of the rest", id(next))
		}
	})
}

func TestG05TwoGroupsMeet(t *testing.T) {
	in(t, 6, func(w *world, slack time.Duration) {
		low, high := []int{0, 2, 4}, []int{1, 3, 5}
		w.cutBetween(low, high, true)
		w.startAll()
		a, b := w.wantOneOf(low, firstLeader+slowest+slack), w.wantOneOf(high, firstLeader+slowest+slack)
		ledBefore := len(w.nodes[min(a, b)].led)
		w.cutBetween(low, high, false)
		w.wantOneOf(w.all(), healed+slowest+slack)
		if w.loss > 0 {
			return
		}
		if lower := w.nodes[min(a, b)]; !lower.Leads() || len(lower.led) != ledBefore {
			t.Errorf("the lower leader did not lead without interruption: %s", w)
		}
		if s := w.nodes[max(a, b)].led[0]; s.whyItEnded != Superseded {
			t.Errorf("the higher leader ended by %d, want Superseded", s.whyItEnded)
		}
		for _, i := range w.all() {
			if i != a && i != b && len(w.nodes[i].led) > 0 {
				t.Errorf("%s has led", id(i))
			}
		}
	})
}

func TestG06TotalPartition(t *testing.T) {
	in(t, 6, func(w *world, slack time.Duration) {
		for i := range w.nodes {
			w.cutBetween([]int{i}, w.all(), true)
		}
		w.startAll()
		w.run(firstLeader)
		if got := w.leaders(); len(got) != 6 {
			t.Fatalf("lead: %v, want each of six", got)
		}
		w.run(time.Duration(w.rand.Int64N(int64(alive))))
		for i := range w.nodes {
			w.cutBetween([]int{i}, w.all(), false)
		}
		leader := w.wantOneOf(w.all(), healed+slowest+slack)
		if w.loss > 0 {
			return
		}
		if leader != 0 || len(w.nodes[0].led) != 1 {
			t.Errorf("%s leads, want the lowest without interruption", id(leader))
		}
		for _, n := range w.nodes[1:] {
			if len(n.led) != 1 || n.led[0].whyItEnded != Superseded {
				t.Errorf("%s: %+v, want one leadership, superseded", n.id, n.led)
			}
		}
	})
}

func TestG07OneLeaderInEachPart(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.startAll()
		w.wantOneOf(w.all(), firstLeader+slowest+slack)
		three, two := []int{0, 2, 3}, []int{1, 4}
		w.cutBetween(three, two, true)
		w.wantOneOf(two, takeOver+slowest+slack)
		w.wantOneOf(three, takeOver+slowest+slack)
		w.cutBetween(three, two, false)
		w.wantOneOf(w.all(), healed+slowest+slack)
	})
}

func TestG08Yield(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.startAll()
		leader := w.wantOneOf(w.all(), firstLeader+slowest+slack)
		_, term := w.nodes[leader].Leader()
		w.nodes[leader].Yield(w.now, term)
		w.flush(leader)
		led := w.nodes[leader].led
		if s := led[len(led)-1]; !s.to.Equal(w.now) || s.whyItEnded != Yielded {
			t.Errorf("got %+v, want an immediate end, by Yielded", s)
		}
		next := w.wantOneOf(w.all(), campaign+2*slowest+slack)
		if w.loss > 0 {
			return // if two nodes led briefly, one of them may end the holding phase of the other
		}
		if next == leader {
			t.Fatalf("%s leads again: %s", id(leader), w)
		}
		w.stays(next, w.all(), 2*alive)
	})
}

func TestG09AllYieldInTurn(t *testing.T) {
	in(t, 2, func(w *world, slack time.Duration) {
		w.startAll()
		for range 3 {
			first := w.wantOneOf(w.all(), firstLeader+slowest+slack)
			_, term := w.nodes[first].Leader()
			w.nodes[first].Yield(w.now, term)
			w.flush(first)
			second := w.wantOneOf(w.all(), takeOver+slowest+slack)
			if w.loss == 0 && second == first {
				t.Fatalf("%s leads again: %s", id(first), w)
			}
		}
	})
}

func TestG10LoneYield(t *testing.T) {
	in(t, 1, func(w *world, _ time.Duration) {
		w.startAll()
		w.wantOneOf([]int{0}, firstLeader)
		w.nodes[0].Yield(w.now, 1)
		w.flush(0)
		yielded := w.now
		w.wantOneOf([]int{0}, time.Hour)
		if took := w.now.Sub(yielded); took < hold+campaign || took > hold+alive+campaign {
			t.Errorf("leads again after %v, want 6T + D to 7T + D", took)
		}
	})
}

// said returns a declaration as a machine would receive it.
func said(member string, run, seq, term uint64) Message {
	return Message{Kind: Declaration, Member: member, Run: run, Seq: seq, Term: term}
}

func newMachine(now time.Time, self string, others ...string) *Machine {
	return New(now, Config{Self: self, Run: 1, Members: others, Timing: testTiming()})
}

func wantLeader(t *testing.T, m *Machine, want string, term uint64) {
	t.Helper()
	if id, got := m.Leader(); id != want || got != term {
		t.Errorf("leader %q of term %d, want %q of %d", id, got, want, term)
	}
}

func TestG11StaleAndDuplicate(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	m.Receive(now, "b", said("b", 5, 9, 3))
	wantLeader(t, m, "b", 3)
	resigned := said("b", 5, 10, 3)
	resigned.Kind = Resignation
	m.Receive(now, "b", resigned)
	wantLeader(t, m, "", 0)
	for _, stale := range []Message{said("b", 5, 9, 3), said("b", 5, 10, 3), said("b", 4, 99, 3)} {
		m.Receive(now, "b", stale)
		wantLeader(t, m, "", 0)
	}
	m.Receive(now, "a", said("a", 1, 1, 4)) // from another member, which numbers its own messages
	wantLeader(t, m, "a", 4)
}

func TestG12RestartWithTheSameID(t *testing.T) {
	in(t, 3, func(w *world, slack time.Duration) {
		w.startAll()
		leader := w.wantOneOf(w.all(), firstLeader+slowest+slack)
		w.run(time.Duration(w.rand.Int64N(int64(alive))))
		if !w.nodes[leader].Leads() {
			return // messages were lost: try another seed
		}
		w.crash(leader)
		w.start(leader)
		// The new run's messages count, although they are numbered from 1 again.
		w.wantOneOf(w.all(), firstLeader+campaign/2+2*slowest+slack)
	})
}

func TestG13OnlyADeclaredLowerLeaderUnseats(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "b", "a", "c")
	for !m.Leads() {
		now = m.Deadline()
		m.Advance(now)
	}
	wantLeader(t, m, "b", 1)
	proposal := said("a", 1, 1, 0)
	proposal.Kind = Proposal
	m.Receive(now, "a", proposal)
	wantLeader(t, m, "b", 1)
	m.Receive(now, "a", said("a", 1, 2, 1))
	wantLeader(t, m, "a", 1)
	if m.Leads() || m.Reason() != Superseded {
		t.Errorf("leads %v, reason %d, want false by Superseded", m.Leads(), m.Reason())
	}
}

func TestG14OneWayLink(t *testing.T) {
	for _, size := range []int{2, 3, 5, 20} {
		in(t, size, func(w *world, slack time.Duration) {
			w.cut[[2]int{0, 1}] = true
			w.startAll()
			if w.loss == 0 {
				w.run(firstLeader + 4*alive) // during this time, a node may lead twice
				w.stays(w.leaders()[0], w.all(), 20*alive)
				return
			}
			// Two lost declarations in a row end a leadership. If no member can inform the unreachable
			// leader, the other leader steps down. It does so at the first declaration of the unreachable
			// leader after 2 x Alive.
			w.run(time.Duration(w.rand.Int64N(int64(20 * alive))))
			one := func() bool { return len(w.leaders()) == 1 }
			if !w.until(w.now.Add(firstLeader+4*alive+slack), one) {
				t.Fatalf("%v lead: %s", w.leaders(), w)
			}
		})
	}
}

// If any two links fail in one direction, one member leads and keeps leading.
func TestG14AnyTwoLinks(t *testing.T) {
	for _, size := range []int{3, 4, 5} {
		var links [][2]int
		for i := range size * size {
			if from, to := i/size, i%size; from != to {
				links = append(links, [2]int{from, to})
			}
		}
		for i, a := range links {
			for _, b := range links[i:] {
				w := newWorld(t, size, 1, 0)
				w.cut[a], w.cut[b] = true, true
				w.startAll()
				w.run(firstLeader + 6*alive)
				if got := w.leaders(); len(got) != 1 {
					t.Fatalf("%v are cut: %v lead: %s", w.cut, got, w)
				}
				w.stays(w.leaders()[0], w.all(), 20*alive)
			}
		}
	}
}

// All members follow a leader that receives nothing. They do not elect other leaders, one after
// another.
func TestG14DeafMember(t *testing.T) {
	for _, size := range []int{3, 5, 6, 20, 60} {
		for seed := range uint64(20) {
			w := newWorld(t, size, seed, 0)
			for i := range w.nodes {
				w.cut[[2]int{i, size - 1}] = true
			}
			w.startAll()
			w.run(firstLeader + 8*alive)
			w.wantOneOf(w.all(), slowest)
			w.stays(size-1, w.all(), 40*alive)
		}
	}
}

// A leader whose messages reach no member steps down, even if two other members declare themselves
// in turn.
func TestG14TwoInsist(t *testing.T) {
	in(t, 3, func(w *world, slack time.Duration) {
		w.cut[[2]int{0, 1}], w.cut[[2]int{0, 2}] = true, true
		w.cutBetween([]int{1}, []int{2}, true)
		w.startAll()
		w.run(firstLeader + 3*alive)
		if !w.until(w.now.Add(slack), func() bool { return !w.nodes[0].Leads() }) && w.nodes[0].Leads() {
			t.Errorf("%s leads although no member receives its messages: %s", id(0), w)
		}
	})
}

// One node does not see the lower leader. With such views Fabric keeps two leaders forever.
func TestG14AsymmetricView(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.nodes[1].view = []string{id(1), id(2), id(3), id(4)}
		w.startAll()
		leader := w.wantOneOf(w.all(), firstLeader+4*slowest+slack)
		if w.loss == 0 {
			w.stays(leader, w.all(), 20*alive)
		}
	})
}

func TestG15ContenderDies(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.startAll()
		began := w.now
		w.until(began.Add(firstLeader), func() bool { return w.nodes[0].phase == campaigning })
		w.run(2 * slowest) // its proposal has reached all members
		w.crash(0)
		w.wantOneOf([]int{1, 2, 3, 4}, firstLeader+campaign/2+slowest+slack-w.now.Sub(began))
	})
}

// A member that repeatedly starts, proposes itself and dies does not prevent the others from
// electing a leader.
func TestG15ContenderThatComesAndGoes(t *testing.T) {
	in(t, 5, func(w *world, slack time.Duration) {
		w.start(1, 2, 3, 4)
		end := w.now.Add(firstLeader + campaign/2 + slowest + slack)
		period := sample + 2*slowest + time.Duration(w.rand.Int64N(int64(2*campaign)))
		for w.now.Before(end) && len(w.leaders()) == 0 {
			w.start(0)
			w.run(sample + 2*slowest)
			w.crash(0)
			w.run(min(period-sample-2*slowest, end.Sub(w.now)))
		}
		if len(w.leaders()) == 0 {
			t.Errorf("no leader while another restarts every %v", period)
		}
	})
}

// If many members start one after another, and the lowest last, the group soon has a leader.
func TestG02NoEndOfStarts(t *testing.T) {
	in(t, 50, func(w *world, slack time.Duration) {
		began := w.now
		for i := 49; i >= 0 && len(w.leaders()) == 0; i-- {
			w.start(i)
			w.run(sample)
		}
		if took := w.now.Sub(began); took > firstLeader+campaign/2+sample+slack {
			t.Errorf("no leader for %v", took)
		}
	})
}

func TestG16FromOutside(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	m.Receive(now, "0", said("0", 1, 1, 9))
	m.Receive(now, "a", said("c", 1, 7, 9))     // the receiver's own message, relayed
	m.Receive(now, "a", said("b", 1, 1, 1<<63)) // no valid term
	wantLeader(t, m, "", 0)
	old := said("b", 1, 1, 2)
	old.Age = alive
	m.Receive(now, "a", old)
	wantLeader(t, m, "", 0)
	m.Close()
	m.Receive(now, "a", said("a", 1, 1, 1))
	wantLeader(t, m, "", 0)
	if out := m.Sent(); len(out) > 0 || !m.Deadline().IsZero() {
		t.Errorf("a closed machine sends %v", out)
	}
}
