// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"testing"
	"time"
)

// leadingMachine returns a machine that leads and has no messages left to send.
func leadingMachine(self string, others ...string) (m *Machine, now time.Time) {
	now = time.Unix(0, 0)
	m = newMachine(now, self, others...)
	for !m.Leads() {
		now = m.Deadline()
		m.Advance(now)
	}
	m.Sent()
	return m, now
}

func proposed(member string, run, seq uint64) Message {
	return Message{Kind: Proposal, Member: member, Run: run, Seq: seq}
}

// The messages of a leader carry the term in which it leads, no matter which terms others led in.
func TestTermStaysThroughALeadership(t *testing.T) {
	m, now := leadingMachine("b", "c")
	m.Receive(now, "c", said("c", 1, 1, 9))
	now = m.Deadline()
	m.Advance(now)
	m.Yield(now, 1)
	var kinds []Kind
	for _, o := range m.Sent() {
		kinds = append(kinds, o.Message.Kind)
		if o.Message.Term != 1 {
			t.Errorf("sent %+v in term 1", o.Message)
		}
	}
	if len(kinds) != 3 || kinds[2] != Resignation {
		t.Errorf("sent %v, want two declarations and a resignation", kinds)
	}
	for !m.Leads() {
		now = m.Deadline()
		m.Advance(now)
	}
	wantLeader(t, m, "b", 10) // above all known terms
}

// A leader that was suspended no longer leads, even if a message wakes it.
func TestLeaderThatStoodStillAsks(t *testing.T) {
	for _, woken := range []bool{false, true} {
		m, now := leadingMachine("a", "b")
		now = now.Add(alive)
		if woken {
			m.Receive(now, "b", said("b", 1, 1, 5))
			wantLeader(t, m, "b", 5)
		} else {
			m.Advance(now)
			wantLeader(t, m, "", 0)
		}
		if out := m.Sent(); len(out) != 1 || out[0].Message.Kind != Proposal || m.Reason() != Expired {
			t.Errorf("woken %v: sent %+v by reason %d, want a proposal", woken, out, m.Reason())
		}
	}
	m, now := leadingMachine("a", "b")
	now = now.Add(alive - 1)
	if m.Advance(now); !m.Leads() {
		t.Error("leads no more just before Alive is over")
	}
}

// A candidate that was suspended past the end of its campaign does not lead.
func TestContenderThatStoodStillAsks(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "a", "b")
	m.Advance(m.Deadline())
	now = m.Deadline().Add(alive / 2)
	m.Sent()
	m.Advance(now)
	if out := m.Sent(); m.Leads() || len(out) != 1 || out[0].Message.Kind != Proposal {
		t.Errorf("leads %v, sent %+v, want a proposal", m.Leads(), out)
	}
}

// A member whose run number has decreased is heard again when its earlier messages are old.
func TestEarlierRunIsHeardAfterAlive(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	m.Receive(now, "a", proposed("a", 7, 100))
	m.Receive(now.Add(alive-1), "a", said("a", 6, 1, 1))
	wantLeader(t, m, "", 0)
	m.Receive(now.Add(alive), "a", said("a", 6, 2, 1))
	wantLeader(t, m, "a", 1)
	m.Receive(now.Add(alive), "a", said("a", 7, 1, 2)) // a later run counts immediately
	wantLeader(t, m, "a", 2)
}

// Relaying a declaration repeatedly does not make it newer.
func TestRelayedDeclarationKeepsItsAge(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	m.Receive(now, "a", said("a", 1, 1, 1))
	for range 3 {
		now = now.Add(alive / 4)
		m.Receive(now, "b", said("a", 1, 1, 1))
	}
	if want := time.Unix(0, 0).Add(alive); !m.Deadline().Equal(want) {
		t.Errorf("counts on it until %v, want %v", m.Deadline(), want)
	}
	m.Advance(m.Deadline())
	m.Receive(m.Deadline(), "b", said("a", 1, 1, 1))
	wantLeader(t, m, "", 0)
}

// Relaying the declaration of a leader that is not visible does not make it newer either.
func TestRelayedDeclarationOfUnseen(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "b")
	m.Receive(now, "b", said("a", 1, 1, 4))
	wantLeader(t, m, "a", 4)
	m.Receive(now.Add(alive/2), "b", said("a", 1, 1, 4))
	m.Observe(now.Add(alive/2), []string{"b"}) // a was not visible before
	wantLeader(t, m, "a", 4)
	now = now.Add(alive)
	if m.Advance(now); m.phase != campaigning {
		t.Errorf("counts on it until %v, want %v", m.Deadline(), now)
	}
	for !m.Leads() {
		m.Advance(m.Deadline())
	}
	wantLeader(t, m, "c", 5) // above the relayed term
}

// A relayed declaration carries its age. It is dropped if the age is negative or if a newer
// declaration of the leader was received.
func TestAgeOfRelayedDeclaration(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	old := said("a", 1, 1, 1)
	old.Age = -1
	m.Receive(now, "b", old)
	wantLeader(t, m, "", 0)
	old.Age = 3 * time.Second
	m.Receive(now, "b", old)
	wantLeader(t, m, "a", 1)
	now = now.Add(time.Second)
	m.Receive(now, "b", proposed("b", 1, 1))
	out := m.Sent()
	want := Message{Kind: Declaration, Member: "a", Run: 1, Seq: 1, Term: 1, Age: 4 * time.Second}
	if len(out) != 1 || out[0] != (Outgoing{"b", want}) {
		t.Errorf("sent %+v, want %+v", out, want)
	}
	now = m.Deadline()
	m.Advance(now)
	old.Age = alive - 1
	m.Receive(now, "b", old)
	wantLeader(t, m, "", 0)
}

// A leader answers a proposal. A follower does not relay the declaration to the leader itself. In a
// large group, only a few followers relay each time.
func TestAnswersToAProposal(t *testing.T) {
	m, now := leadingMachine("a", "b")
	m.Receive(now, "b", proposed("b", 1, 1))
	if out := m.Sent(); len(out) != 1 || out[0].To != "b" || out[0].Message.Kind != Declaration {
		t.Errorf("the leader sent %+v", out)
	}
	m.Receive(now, "b", proposed("b", 1, 1))
	m.Receive(now, "a", proposed("b", 1, 2)) // not sent by b itself
	if out := m.Sent(); len(out) != 0 {
		t.Errorf("sent %+v in answer to an old message or one of another member", out)
	}
	var others []string
	for i := range 50 {
		others = append(others, id(i))
	}
	m = newMachine(now, id(50), others...)
	m.Receive(now, id(0), said(id(0), 1, 1, 1))
	told := 0
	for i := range uint64(51) {
		m.Receive(now, id(1), proposed(id(1), 1, i+1))
		told += len(m.Sent())
	}
	if told != relayers {
		t.Errorf("relayed %d of 51 times, want %d", told, relayers)
	}
	few := newMachine(now, "c", "a", "b")
	few.Receive(now, "a", said("a", 1, 1, 1))
	few.Receive(now, "a", proposed("a", 1, 2))
	if out := few.Sent(); len(out) != 0 {
		t.Errorf("sent the leader %+v", out)
	}
}

// A campaign does not wait for a member that resigned or whose proposal is old.
func TestCampaignWaitsForLowerIDs(t *testing.T) {
	start := time.Unix(0, 0)
	for _, tc := range []struct {
		name  string
		hears func(m *Machine) (at time.Time)
		waits bool
	}{
		{"contender", func(m *Machine) time.Time {
			m.Receive(start, "a", proposed("a", 1, 1))
			return start.Add(campaign)
		}, true},
		{"long ago", func(m *Machine) time.Time {
			m.Receive(start, "a", proposed("a", 1, 1))
			return start.Add(campaign + 1)
		}, false},
		{"resigned", func(m *Machine) time.Time {
			m.Receive(start, "a", proposed("a", 1, 1))
			m.Receive(start, "a", Message{Kind: Resignation, Member: "a", Run: 1, Seq: 2})
			return start.Add(campaign)
		}, false},
		{"higher", func(m *Machine) time.Time {
			m.Receive(start, "c", proposed("c", 1, 1))
			return start.Add(campaign)
		}, false},
	} {
		m := newMachine(start, "b", "a", "c")
		at := tc.hears(m)
		m.startCampaign(at)
		want := at.Add(campaign/2 + campaign/3)
		if tc.waits {
			want = want.Add(campaign / 2)
		}
		if got := m.Deadline(); want.Sub(got).Abs() > time.Microsecond {
			t.Errorf("%s: leads after %v, want %v", tc.name, got.Sub(at), want.Sub(at))
		}
	}
}

// A leader steps down for a higher leader that keeps declaring itself for 2 x Alive, and informs
// all. It does not step down if the higher leader paused, or if its declarations are only relayed.
func TestConceding(t *testing.T) {
	m, now := leadingMachine("a", "b", "c")
	seq := uint64(0)
	hears := func(after time.Duration) {
		now, seq = now.Add(after), seq+1
		m.deadline = now // as if it had declared itself in the meantime
		m.Sent()
		m.Receive(now, "c", said("c", 1, seq, 2))
	}
	hears(0)
	hears(alive + 1)
	for range 3 {
		hears(alive / 2)
		m.Receive(now, "b", said("d", 1, seq, 2))
		wantLeader(t, m, "a", 1)
	}
	if out := m.Sent(); len(out) != 1 || out[0].To != "c" || out[0].Message.Kind != Declaration {
		t.Errorf("sent %+v to a higher leader", out)
	}
	hears(alive / 2)
	wantLeader(t, m, "c", 2)
	out := m.Sent()
	if len(out) != 2 || out[0].To != "" || out[0].Message.Kind != Resignation ||
		out[1] != (Outgoing{"", said("c", 1, seq, 2)}) {
		t.Errorf("sent %+v, want its resignation and the leader, to all", out)
	}
}

// A follower ignores resignations of other followers. A leader can give up only its current term.
func TestResignations(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	m.Receive(now, "a", said("a", 1, 1, 1))
	m.Receive(now, "b", Message{Kind: Resignation, Member: "b", Run: 1, Seq: 1})
	wantLeader(t, m, "a", 1)
	m, now = leadingMachine("a", "b")
	m.Yield(now, 2)
	wantLeader(t, m, "a", 1)
	m.Close()
	if out := m.Sent(); len(out) != 1 || out[0].Message.Kind != Resignation || m.Reason() != Closed {
		t.Errorf("closed, it sent %+v by reason %d", out, m.Reason())
	}
}

// A member starts its campaign once its view is stable or Grace is over.
func TestSampling(t *testing.T) {
	now := time.Unix(0, 0)
	settles := newMachine(now, "a", "b")
	settles.Observe(now, []string{"a", "b", "c"})
	changes := newMachine(now, "a", "b")
	grace := now.Add(testTiming().Grace)
	for i := 0; changes.phase == sampling && i < 100; i++ {
		now = changes.Deadline()
		changes.Observe(now, []string{"a", id(i)})
		changes.Advance(now)
		settles.Advance(now)
		if got, want := settles.phase != sampling, i > 0; got != want {
			t.Errorf("after %d samples it competes: %v", i+1, got)
		}
	}
	if !now.Equal(grace) || changes.phase != campaigning {
		t.Errorf("phase %d at %v, want to compete at the end of Grace, %v", changes.phase, now, grace)
	}
	short := testTiming()
	short.Grace = 5 * sample / 2
	m := New(now, Config{Self: "a", Run: 1, Timing: short})
	for i := 0; m.phase == sampling && i < 100; i++ {
		m.Observe(m.Deadline(), []string{id(i)})
		if m.Deadline().After(now.Add(short.Grace)) {
			t.Fatal("waits beyond Grace")
		}
		m.Advance(m.Deadline())
	}
}

// A leader that disappears from the view is lost. The machine keeps its state about the other
// members.
func TestObserve(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(now, "c", "a", "b")
	m.Receive(now, "b", proposed("b", 2, 2))
	m.Receive(now, "a", said("a", 1, 1, 1))
	m.Observe(now, []string{"b", "c", "a", "d"})
	wantLeader(t, m, "a", 1)
	m.Observe(now, []string{"b"})
	wantLeader(t, m, "", 0)
	if m.phase != campaigning {
		t.Errorf("phase %d, want that it competes", m.phase)
	}
	m.Receive(now, "b", said("b", 2, 1, 1)) // older
	wantLeader(t, m, "", 0)
}
