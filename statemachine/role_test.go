// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// machineInRole returns a machine with a role and a matching state. It holds version 2. In the
// leading role it leads version 1, so that it can be elected again.
func machineInRole(role member.Role) *Machine {
	address := func(host string) member.Address { return member.Address{Host: host, Port: 1} }
	self := member.Member{
		Identity: member.Identity{
			Address: address("a"), StoreID: member.StoreID{1}, Incarnation: 1,
		},
		Status: member.Active,
	}
	held := member.State{
		Number: member.Number{Version: 2}, Leader: self.Address, Roster: member.Roster{self},
	}
	m := New(Config{
		Address: self.Address, Size: 3, Rand: rand.New(rand.NewPCG(1, 1)),
		NewStore: func() member.StoreID { return member.StoreID{2} },
		Timings: message.Timings{
			HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: 400 * time.Millisecond,
			LeaderTimeout: time.Second, LeaseTimeout: time.Second,
			TTLTimeout: 10 * time.Second, RetryInterval: 500 * time.Millisecond,
		},
	}, paxos.Durable{
		StoreID: self.StoreID, Incarnation: 1, Acceptor: paxos.Acceptor{Held: held},
	}, time.Unix(1, 0))
	m.role = role
	switch role {
	case member.Following:
		m.follow.claim = member.Claim{Chosen: true, Version: 2, Leader: address("b")}
	case member.Provisional:
		m.soft = member.State{Number: member.Number{Version: 3}, Leader: self.Address}
	case member.Leading, member.Seeking:
	}
	return m
}

var allRoles = []member.Role{
	member.Seeking, member.Following, member.Provisional, member.Leading,
}

// transition is a row of the table in role.go.
type transition struct {
	name string
	from []member.Role
	to   member.Role
	do   func(*Machine)
}

func transitions() []transition {
	other := member.Claim{
		Chosen: true, Version: 2, Leader: member.Address{Host: "c", Port: 1},
	}
	allButLeading := allRoles[:3]
	return []transition{
		{"becomeJoiner", allButLeading, member.Seeking, func(m *Machine) { m.becomeJoiner(other) }},
		{"forgetLeader", []member.Role{member.Following}, member.Seeking, (*Machine).forgetLeader},
		{"endLeadership", []member.Role{member.Provisional, member.Leading}, member.Seeking,
			(*Machine).endLeadership},
		{"becomeNewRun", allButLeading, member.Seeking, (*Machine).becomeNewRun},
		{"becomeUnraised", allButLeading, member.Seeking, (*Machine).becomeUnraised},
		{"becomeStopped", allRoles, member.Seeking,
			func(m *Machine) { m.becomeStopped(errors.New("stopped")) }},
		{"becomeFollower", allButLeading, member.Following, func(m *Machine) {
			m.becomeFollower(other, member.Identity{Address: other.Leader})
		}},
		{"becomeProvisional", []member.Role{member.Seeking}, member.Provisional,
			func(m *Machine) {
				m.becomeProvisional(member.State{
					Number: member.Number{Version: 3}, Leader: m.self.Address,
					Roster: m.durable.Held.Roster,
				})
			}},
		{"becomeLeader", allRoles, member.Leading,
			func(m *Machine) { m.becomeLeader(member.Identity{}) }},
	}
}

// TestTransitions checks that each transition enters its role from the roles in its row, keeps the
// invariants, and panics in every other role.
func TestTransitions(t *testing.T) {
	for _, tr := range transitions() {
		for _, from := range allRoles {
			t.Run(fmt.Sprintf("%s in role %v", tr.name, from), func(t *testing.T) {
				m := machineInRole(from)
				failure := panicOf(func() { tr.do(m) })
				allowed := slices.Contains(tr.from, from)
				if allowed != (failure == nil) {
					t.Fatalf("panics with %v, want a panic: %v", failure, !allowed)
				}
				if want := tr.to; allowed && m.role != want {
					t.Errorf("has role %v, want %v", m.role, want)
				}
				if !allowed && m.role != from {
					t.Errorf("has role %v after a refusal, want %v as before", m.role, from)
				}
				if err := m.Check(); allowed && err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestImpossibleLeaders checks that a transition panics if it gets an impossible leader.
func TestImpossibleLeaders(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*Machine)
	}{
		{"follow itself", func(m *Machine) {
			m.becomeFollower(member.Claim{Version: 3, Leader: m.self.Address}, m.self)
		}},
		{"follow an older version", func(m *Machine) {
			m.becomeFollower(member.Claim{
				Chosen: true, Version: 1, Leader: member.Address{Host: "c", Port: 1},
			}, member.Identity{})
		}},
		{"follow without a leader", func(m *Machine) {
			m.becomeFollower(member.Claim{}, member.Identity{})
		}},
		{"lead the state of another", func(m *Machine) {
			m.durable.Held.Leader = member.Address{Host: "c", Port: 1}
			m.becomeLeader(member.Identity{})
		}},
		{"lead the same version again", func(m *Machine) {
			m.becomeLeader(member.Identity{})
			m.setHeld(m.durable.Held)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if panicOf(func() { tc.do(machineInRole(member.Seeking)) }) == nil {
				t.Error("no panic")
			}
		})
	}
}

// panicOf returns the value with which f panics, or nil.
func panicOf(f func()) (failure any) {
	defer func() { failure = recover() }()
	f()
	return nil
}

// TestALeaderForgetsRequestersOfReplacedStores checks that a leader keeps one requester for an
// address, however many stores make requests there, and no place for an earlier one.
func TestALeaderForgetsRequestersOfReplacedStores(t *testing.T) {
	m := machineInRole(member.Leading)
	runOf := func(n uint64) member.Identity {
		id := member.Identity{Address: member.Address{Host: "b", Port: 1}, Incarnation: n}
		id.StoreID[0] = byte(n)
		return id
	}
	for n := range uint64(100) {
		m.lead.requesterOf(runOf(n)).id = n
	}
	if got := m.lead.requesters; len(got) != 1 || got[0].run != runOf(99) {
		t.Errorf("got %+v, want run 99 alone", got)
	}
	other := runOf(99)
	other.StoreID[0]++
	for _, tc := range []struct {
		run  member.Identity
		want uint64
	}{{runOf(0), 99}, {runOf(98), 99}, {runOf(99), 0}, {other, 99}, {runOf(100), 0}} {
		if got := m.lead.laterRun(tc.run); got != tc.want {
			t.Errorf("%+v: got %d, want %d", tc.run, got, tc.want)
		}
	}
}

// TestALeaderForgetsEvictedVoters checks that the list of voters whose places went to other stores
// keeps no voter that has its place again, and none without such a store that is silent.
func TestALeaderForgetsEvictedVoters(t *testing.T) {
	m := machineInRole(member.Leading)
	at := func(host string, store byte, ago time.Duration) evictedVoter {
		v := member.Voter{Address: member.Address{Host: host, Port: 1}, StoreID: member.StoreID{store}}
		return evictedVoter{v, m.now.Add(-ago)}
	}
	replaced, heard := at("a", 9, time.Hour), at("b", 1, time.Second)
	m.lead.evicted = []evictedVoter{at("a", 1, 0), replaced, heard, at("c", 1, time.Hour)}
	m.dropEvicted()
	if want := []evictedVoter{replaced, heard}; !slices.Equal(m.lead.evicted, want) {
		t.Errorf("got %+v, want %+v", m.lead.evicted, want)
	}
}
