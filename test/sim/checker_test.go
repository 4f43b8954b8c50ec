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

// These tests give each checker a correct history, and histories with a single error. They prove
// that each check can fail.

// history drives a checker with the steps of three processes, which are all seeds and
// members.
type history struct {
	t     *testing.T
	k     *checker
	procs []*process
	saves time.Duration // how long the save in the last step of give takes
}

func newHistory(t *testing.T, size int) *history {
	t.Helper()
	h := &history{t: t}
	var seeds []member.Address
	for i := range size {
		seeds = append(seeds, addressOf(i))
	}
	h.k = newChecker(size, seeds, size)
	for i := range size {
		p := &process{index: i, home: i, clock: steadyClock()}
		p.cfg = statemachine.Config{Address: seeds[i], Name: nameOf(i), Seeds: seeds, Size: size}
		p.store = paxos.Durable{StoreID: member.StoreID{byte(i + 1)}, Incarnation: 1}
		h.k.noteStart(0, p)
		h.procs = append(h.procs, p)
	}
	return h
}

// save applies f to the store of a process and saves it.
func (h *history) save(i int, f func(*paxos.Durable)) {
	p := h.procs[i]
	old := p.store
	f(&p.store)
	h.k.checkStored(p, old)
}

// roster returns a roster in which all processes are active.
func (h *history) roster() member.Roster {
	var r member.Roster
	for i, p := range h.procs {
		r = append(r, member.Member{Identity: p.identity(), Name: nameOf(i), Seed: true,
			Status: member.Active})
	}
	return r
}

func id(version, round uint64, proposer int) paxos.ID {
	return paxos.ID{Version: version, Ballot: paxos.Ballot{
		Round: round, Proposer: addressOf(proposer), Incarnation: 1}}
}

func (h *history) first(leader int) member.State {
	return member.State{
		Number: numbered(1, 0), Cluster: member.ClusterID{1},
		Leader: addressOf(leader), Roster: h.roster(),
	}
}

// accept makes processes promise and accept one value.
func (h *history) accept(ballot paxos.ID, base member.Number, s member.State, voters ...int) {
	for _, i := range voters {
		h.save(i, func(d *paxos.Durable) {
			d.Promised = ballot
			d.Accepted = paxos.Accepted{ID: ballot, Base: base, State: s}
		})
	}
}

// take makes processes hold a state.
func (h *history) take(s member.State, who ...int) {
	for _, i := range who {
		h.save(i, func(d *paxos.Durable) { d.Acceptor = d.Take(s) })
	}
}

// found makes a process the chosen leader of version 1, and all processes hold its state.
func (h *history) found(leader int) member.State {
	s := h.first(leader)
	h.accept(id(1, 1, leader), member.Number{}, s, 0, 1)
	h.take(s, leader)
	for i := range h.procs {
		if i != leader {
			h.take(s, i)
		}
	}
	return s
}

// wake suspends a leader and its clock until 100 while another leader is elected. At the given time
// the first leader claims authority for version 1 until another given time. Leases last 10.
func (h *history) wake(now, until int64) {
	s := h.found(0)
	h.k.checkAuthority(0, h.procs[0].identity(), 1, 5)
	h.k.noteLeaderAsleep(0, 1)
	n := h.next(s, 1)
	h.accept(id(2, 1, 1), s.Number, n, 1, 2)
	h.take(n, 1, 2)
	h.k.now = 90
	h.k.checkAuthority(1, h.procs[1].identity(), 2, 300)
	h.k.now = 100
	h.k.noteAwake(h.k.now, 0, true, message.Timings{LeaseTimeout: 10})
	h.k.checkAuthority(0, h.procs[0].identity(), 1, 108)
	h.k.now = now
	h.k.checkAuthority(0, h.procs[0].identity(), 1, until)
}

// give makes a leader give away the seat of a member that has left. The step has the given output.
// The leader has no authority before or after the step.
func (h *history) give(out statemachine.Output) {
	s := h.found(0)
	left := h.change(s, 2, func(m *member.Member) { m.Status = member.Leaving })
	h.take(left, 0, 1)
	h.procs[0].cfg.Timings.HeartbeatTimeout = time.Second
	h.k.noteHeard(0, message.Message{From: h.procs[1].identity(), Body: message.LeaderKeepAlive{}})
	h.k.now += int64(h.saves)
	h.take(left.Next(left.Roster.Without(addressOf(2))), 0)
	h.k.checkSeatGiven(h.procs[0], false, out)
}

// letGo makes a leader remove a member in a step at one time, which is saved at another time. The
// leader has had authority since time 0. On the fastest clock TTLTimeout is rateUnit.
func (h *history) letGo(at, saved int64) {
	s := h.found(0)
	h.procs[0].cfg.Timings.TTLTimeout = rateMax
	h.k.checkAuthority(0, h.procs[0].identity(), 1, 9*rateUnit)
	silent := h.change(s, 2, func(m *member.Member) { m.Status = member.Unreachable })
	h.take(silent, 0, 1)
	h.procs[0].stepAt, h.k.now = at, saved
	h.take(h.change(silent, 2, func(m *member.Member) { m.Status = member.Leaving }), 0)
}

// change returns the next revision, with one entry changed.
func (h *history) change(s member.State, i int, f func(*member.Member)) member.State {
	m, _ := s.Roster.Find(addressOf(i))
	f(&m)
	return s.Next(s.Roster.With(m))
}

func (h *history) want(invariant string) {
	h.t.Helper()
	switch v := h.k.first; {
	case invariant == "" && v != nil:
		h.t.Errorf("good history: got %v, want no violation", v)
	case invariant != "" && (v == nil || v.Invariant != invariant):
		h.t.Errorf("bad history: got violation %v, want %s", v, invariant)
	}
}

// numbered returns the version and revision of a state.
func numbered(v, r uint64) member.Number { return member.Number{Version: v, Revision: r} }

// next returns the initial state of the next version, built on s.
func (h *history) next(s member.State, leader int) member.State {
	s.Number, s.Leader = numbered(s.Version+1, 0), addressOf(leader)
	return s
}

// histories lists histories, each with the invariant that the checker must report, or none
// if the history is correct.
var histories = []struct {
	name string
	want string
	do   func(h *history)
}{
	{"a cluster is founded and moves on", "", func(h *history) {
		s := h.found(0)
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
		h.k.now = 100
		h.k.endAuthority(0)
		n := h.next(s, 1)
		h.accept(id(2, 1, 1), s.Number, n, 1, 2)
		h.take(n, 1, 2, 0)
		h.k.checkAuthority(1, h.procs[1].identity(), 2, 200)
	}},
	{"two values for one version are chosen", "I1", func(h *history) {
		h.accept(id(1, 1, 0), member.Number{}, h.first(0), 0, 1)
		h.accept(id(1, 2, 2), member.Number{}, h.first(2), 2)
	}},
	{"one ballot carries two values", "I1", func(h *history) {
		h.accept(id(1, 1, 0), member.Number{}, h.first(0), 0)
		h.accept(id(1, 1, 0), member.Number{}, h.first(1), 1)
	}},
	{"a state is held that was not chosen", "I1", func(h *history) {
		h.accept(id(1, 1, 0), member.Number{}, h.first(0), 0)
		h.take(h.first(0), 0)
	}},
	{"a leader is announced that was not chosen", "I1", func(h *history) {
		h.accept(id(1, 1, 0), member.Number{}, h.first(0), 0)
		h.k.checkSent(h.procs[0], message.Message{From: h.procs[0].identity(), To: addressOf(1),
			Body: message.LeaderElected{ID: id(1, 1, 0), State: h.first(0)}})
	}},
	{"a founding with another version", "I1", func(h *history) {
		s := h.first(0)
		s.Version = 2
		h.accept(id(2, 1, 0), member.Number{}, s, 0, 1)
	}},
	{"a minority of the seeds is no founding", "I1", func(h *history) {
		h.k.seeds = append(h.k.seeds, addressOf(3), addressOf(4))
		h.accept(id(1, 1, 0), member.Number{}, h.first(0), 0, 1)
		h.take(h.first(0), 0)
	}},
	{"two have authority at one instant", "I2", func(h *history) {
		h.found(0)
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
		h.k.now = 99
		h.k.checkAuthority(1, h.procs[1].identity(), 1, 200)
	}},
	{"a leader that woke has authority beside another", "", func(h *history) { h.wake(108, 200) }},
	{"a leader that woke has authority for longer than a lease", "I2", func(h *history) {
		h.wake(109, 200)
	}},
	{"authority without a majority that holds the version", "I2", func(h *history) {
		s := h.first(0)
		h.accept(id(1, 1, 0), member.Number{}, s, 0, 1)
		h.take(s, 0)
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
	}},
	{"authority for another's version", "I2", func(h *history) {
		h.found(0)
		h.k.checkAuthority(1, h.procs[1].identity(), 1, 100)
	}},
	{"the dead have no authority", "", func(h *history) {
		s := h.found(0)
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
		h.k.noteEnd(50, h.procs[0])
		n := h.next(s, 1)
		h.accept(id(2, 1, 1), s.Number, n, 1, 2)
		h.take(n, 1, 2)
		h.k.checkAuthority(1, h.procs[1].identity(), 2, 200)
	}},
	{"a version falls", "I3", func(h *history) {
		h.found(0)
		h.k.token = token{version: 2, holder: h.procs[1].identity()}
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
	}},
	{"two runs use one version", "I3", func(h *history) {
		h.found(0)
		h.k.token = token{version: 1, holder: h.procs[1].identity()}
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
	}},
	{"a later version lacks what was committed", "I4", func(h *history) {
		s := h.found(0)
		later := h.change(s, 2, func(m *member.Member) { m.Status = member.Unreachable })
		h.take(later, 0, 1)
		h.k.voters[h.procs[1].voter()].granted = paxos.ID{}
		h.accept(id(2, 1, 2), s.Number, h.next(s, 2), 2)
		h.procs[1].store.Held = s
		h.accept(id(2, 1, 2), s.Number, h.next(s, 2), 1)
	}},
	{"a version is built on another state than its base", "I4", func(h *history) {
		s := h.found(0)
		n := h.next(s, 1)
		n.Roster = n.Roster.Without(addressOf(0))
		h.accept(id(2, 1, 1), s.Number, n, 1, 2)
	}},
	{"a voter changes before the last change is committed", "I5", func(h *history) {
		s := h.found(0)
		a := h.change(s, 2, func(m *member.Member) { m.Status = member.Unreachable })
		h.take(a, 0)
		h.take(h.change(a, 1, func(m *member.Member) {
			m.Status, m.Gone, m.StoreID, m.Incarnation = member.Joining, true, member.StoreID{9}, 2
		}), 0)
	}},
	{"two voters change together", "I5", func(h *history) {
		s := h.found(0)
		renew := func(m *member.Member) {
			m.Status, m.Gone, m.StoreID, m.Incarnation = member.Joining, true, member.StoreID{9}, 2
		}
		b := h.change(h.change(s, 1, renew), 2, renew)
		b.Revision = 1
		h.take(b, 0)
	}},
	{"a roster grows past N", "I5", func(h *history) {
		s := h.found(0)
		h.take(s.Next(s.Roster.With(member.Member{Status: member.Joining,
			Identity: member.Identity{Address: addressOf(7), Incarnation: 1}})), 0)
	}},
	{"a seat is given away that is in use", "I5", func(h *history) {
		s := h.found(0)
		h.procs[0].cfg.Timings.HeartbeatTimeout = time.Second
		h.k.checkAuthority(0, h.procs[0].identity(), 1, 100)
		h.take(s.Next(s.Roster.Without(addressOf(2))), 0)
	}},
	{"a leader drops a vote long after it heard the others", "I5", func(h *history) {
		h.procs[0].stepAt = int64(2 * time.Second)
		h.give(statemachine.Output{Trace: []statemachine.Trace{{Kind: statemachine.GainedAuthority}}})
	}},
	{"a leader drops a vote and needs long to save that", "", func(h *history) {
		h.saves = 2 * time.Second
		h.give(statemachine.Output{Trace: []statemachine.Trace{{Kind: statemachine.GainedAuthority}}})
	}},
	{"a leader lets a member go before its time", "I4", func(h *history) {
		h.letGo(rateUnit-1, 2*rateUnit)
	}},
	{"a leader lets a member go in time, and needs long to save that", "", func(h *history) {
		h.letGo(rateUnit, 2*rateUnit)
	}},
	{"a leader without authority gives a seat away and hands over", "I5", func(h *history) {
		h.give(statemachine.Output{Send: []message.Message{{Body: message.MemberLeave{
			GivenUp: h.first(0).Claim()}}}})
	}},
	{"a leader gains authority, gives a seat away and hands over", "", func(h *history) {
		h.give(statemachine.Output{Trace: []statemachine.Trace{{Kind: statemachine.GainedAuthority}}})
	}},
	{"a status moves against the table", "I6", func(h *history) {
		s := h.found(0)
		h.take(h.change(s, 2, func(m *member.Member) { m.Status, m.Gone = member.Leaving, true }), 0)
	}},
	{"another than the leader changes the state", "I6", func(h *history) {
		s := h.found(0)
		h.take(h.change(s, 2, func(m *member.Member) { m.Status = member.Unreachable }), 1)
	}},
	{"two states have one number", "I6", func(h *history) {
		s := h.found(0)
		h.take(h.change(s, 2, func(m *member.Member) { m.Status = member.Unreachable }), 0)
		h.take(h.change(s, 1, func(m *member.Member) { m.Status = member.Unreachable }), 2)
	}},
	{"a member goes back to an earlier run", "I6", func(h *history) {
		s := h.found(0)
		h.take(h.change(s, 2, func(m *member.Member) { m.Incarnation = 0 }), 0)
	}},
	{"a promise is taken back", "I7", func(h *history) {
		h.save(0, func(d *paxos.Durable) { d.Promised = id(1, 2, 0) })
		h.save(0, func(d *paxos.Durable) { d.Promised = id(1, 1, 0) })
	}},
	{"a value is accepted below the promise", "I7", func(h *history) {
		h.save(0, func(d *paxos.Durable) { d.Promised = id(1, 2, 0) })
		h.save(0, func(d *paxos.Durable) {
			d.Accepted = paxos.Accepted{ID: id(1, 1, 0), State: h.first(0)}
		})
	}},
	{"a vote is taken back", "I7", func(h *history) {
		h.accept(id(1, 1, 0), member.Number{}, h.first(0), 0)
		h.save(0, func(d *paxos.Durable) { d.Accepted = paxos.Accepted{} })
	}},
	{"a held state is given up for an older one", "I7", func(h *history) {
		s := h.found(0)
		h.accept(id(2, 1, 0), s.Number, h.next(s, 0), 0, 1)
		h.take(h.next(s, 0), 0)
		h.save(0, func(d *paxos.Durable) { d.Held = s })
	}},
	{"a state is taken below what was accepted", "I7", func(h *history) {
		s := h.found(0)
		h.accept(id(2, 1, 1), s.Number, h.next(s, 1), 2)
		h.take(h.change(s, 2, func(m *member.Member) { m.Status = member.Unreachable }), 2)
	}},
	{"a vote is sent that is not saved", "unsaved", func(h *history) {
		h.k.checkSent(h.procs[0], message.Message{From: h.procs[0].identity(), To: addressOf(1),
			Body: message.Vote{Stage: message.Pre, ID: id(1, 1, 1), Granted: true}})
	}},
	{"a vote is sent below an earlier one", "I7", func(h *history) {
		h.save(0, func(d *paxos.Durable) { d.Promised = id(1, 2, 1) })
		for _, round := range []uint64{2, 1} {
			h.k.checkSent(h.procs[0], message.Message{From: h.procs[0].identity(), To: addressOf(1),
				Body: message.Vote{Stage: message.Pre, ID: id(1, round, 1), Granted: true}})
		}
	}},
	{"a pre vote hides what was accepted", "I7", func(h *history) {
		h.accept(id(1, 1, 1), member.Number{}, h.first(1), 0)
		h.save(0, func(d *paxos.Durable) { d.Promised = id(1, 2, 2) })
		h.k.checkSent(h.procs[0], message.Message{From: h.procs[0].identity(), To: addressOf(2),
			Body: message.Vote{Stage: message.Pre, ID: id(1, 2, 2), Granted: true}})
	}},
	{"a state is shown that is not saved", "unsaved", func(h *history) {
		h.k.checkSent(h.procs[0], message.Message{From: h.procs[0].identity(), To: addressOf(1),
			Claim: h.first(1).Claim(), Body: message.LeaderKeepAlive{Number: numbered(1, 0)}})
	}},
	{"a bound node keeps an old leader alive", "I7", func(h *history) {
		s := h.found(0)
		h.accept(id(2, 1, 1), s.Number, h.next(s, 1), 2)
		h.k.checkSent(h.procs[2], message.Message{From: h.procs[2].identity(), To: addressOf(0),
			Claim: s.Claim(), Body: message.LeaderKeepAlive{Number: s.Number}})
	}},
	{"a message is sent in another's name", "sender", func(h *history) {
		h.k.checkSent(h.procs[0], message.Message{From: h.procs[1].identity(), To: addressOf(2),
			Body: message.SeedKeepAlive{}})
	}},
	{"a view changes unannounced", "changed", func(h *history) {
		h.k.checkView(h.procs[0], member.View{Role: member.Following, Leader: addressOf(1)}, false)
	}},
	{"a new run is shown unannounced", "changed", func(h *history) {
		v := member.View{Self: h.procs[0].identity()}
		h.k.checkView(h.procs[0], v, true)
		v.Self.Incarnation++
		h.k.checkView(h.procs[0], v, false)
	}},
	{"a member moves unannounced", "changed", func(h *history) {
		v := member.View{Members: h.roster()}
		h.k.checkView(h.procs[0], v, true)
		v.Members = h.roster()
		v.Members[1].Status = member.Unreachable
		h.k.checkView(h.procs[0], v, false)
	}},
	{"a view shows too many members", "I5", func(h *history) {
		h.k.checkView(h.procs[0], member.View{Members: make(member.Roster, 4)}, true)
	}},
	{"a follower shows another state than the leader made", "I6", func(h *history) {
		s := h.found(0)
		h.k.checkView(h.procs[1], member.View{Role: member.Following, Version: 1, Leader: addressOf(0),
			Quorate: true, Members: s.Roster[:2]}, true)
	}},
	{"a leader shows authority that it does not have", "I2", func(h *history) {
		s := h.found(0)
		h.k.checkView(h.procs[0], member.View{Role: member.Leading, Version: 1, Leader: addressOf(0),
			Quorate: true, Members: s.Roster}, true)
	}},
	{"what a memory store cannot promise is not held against it", "", func(h *history) {
		h.found(0)
		for i := range 2 {
			h.k.noteEnd(1, h.procs[i])
			h.procs[i].store = paxos.Durable{StoreID: member.StoreID{byte(7 + i)}, Incarnation: 2}
			h.k.noteStart(2, h.procs[i])
		}
		h.accept(id(1, 9, 1), member.Number{}, h.first(1), 0, 1)
	}},
}

func TestCheckersFire(t *testing.T) {
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(t, 3)
			c.do(h)
			h.want(c.want)
		})
	}
}
