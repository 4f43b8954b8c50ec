// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// stateCase is a node in a given state and the expected explanation.
type stateCase struct {
	name string
	view member.View
	held member.State
	edit func(*Config)
	want string
}

// TestNoLeaderWhileJoining checks the explanation of a node without a state. Node 2 has answered
// node 1 that it knows no leader. The other nodes have not answered.
func TestNoLeaderWhileJoining(t *testing.T) {
	one, two, three := at(1, member.Active), at(2, member.Active), at(3, member.Active)
	const begin = "leads provisionally until 3 of 5 members, including 2 of the 3 seeds, are up: "
	for _, c := range []stateCase{
		{"asking", roleOf(member.Seeking, 0), member.State{}, nil,
			"asked 127.0.0.1:2 (knows no leader), 127.0.0.1:3 (no answer)"},
		{"join-only", roleOf(member.Seeking, 0), member.State{},
			func(s *Config) { s.JoinOnly = true }, "this node may only join and is waiting for a cluster; " +
				"asked 127.0.0.1:2 (knows no leader), 127.0.0.1:3 (no answer)"},
		{"the only seed, join-only", roleOf(member.Seeking, 0), member.State{},
			func(s *Config) { s.JoinOnly, s.Seeds = true, addresses(1) },
			"this node may only join, but no other seed is configured"},
		{"provisional", roleOf(member.Provisional, 1, one), member.State{}, nil,
			begin + "1 joined; waiting for 127.0.0.1:2 (knows no leader), 127.0.0.1:3 (no answer)"},
		{"provisional, all seeds there", roleOf(member.Provisional, 1, one, two, three), member.State{},
			nil, begin + "3 joined, but no leader has been elected yet: 127.0.0.1:2 (knows no leader)"},
		{"following a provisional leader", roleOf(member.Following, 2, one, two), member.State{}, nil,
			"follows 127.0.0.1:2, which " + begin + "2 joined; waiting for 127.0.0.1:3"},
	} {
		c.check(t, addresses(1, 2, 3))
	}
}

// TestNewClusterPrevented checks the explanation of a provisional leader without a state while
// another seed holds one.
func TestNewClusterPrevented(t *testing.T) {
	one, two, three := at(1, member.Active), at(2, member.Active), at(3, member.Active)
	d := diagnosis{
		State: State{View: roleOf(member.Provisional, 1, one, two)}, quorum: 2,
		cfg: &Config{Size: 3, Seeds: addresses(1, 2, 3)},
		peers: map[member.Address]peerStatus{
			two.Address: {address: two.Address, store: two.StoreID, reached: true,
				text: "follows this node"},
			three.Address: {address: three.Address, store: three.StoreID, reached: true, holds: true,
				text: "knows no leader, holds version 4.0"},
		},
	}
	want := "leads provisionally until 2 of 3 members are up: 2 joined, but the state of a cluster " +
		"prevents a new one: 127.0.0.1:3 (knows no leader, holds version 4.0)"
	if got := d.explainState(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNoLeaderAmongMembers checks the explanation of a node with a state.
func TestNoLeaderAmongMembers(t *testing.T) {
	one, two := at(1, member.Active), at(2, member.Active)
	held := member.State{
		Number: member.Number{Version: 3, Revision: 2},
		Leader: two.Address,
		Roster: member.Roster{one, two, at(3, member.Joining), at(4, member.Unreachable)},
	}
	other := one
	other.StoreID[0] = 9
	lost := held
	lost.Roster = held.Roster.With(other)
	other = two
	other.StoreID[0] = 9
	another := held
	another.Roster = held.Roster.With(other)
	const (
		voters = "needs 3 of the 3 voters of version 3.2; "
		heard  = "reached 2: this node, 127.0.0.1:2 (knows no leader); "
		rest   = "127.0.0.1:4 (no answer); other seeds: 127.0.0.1:9 (no answer)"
	)
	for _, c := range []stateCase{
		{"after a restart", roleOf(member.Seeking, 0), held, nil, voters + heard + "missing: " + rest},
		{"with another store", roleOf(member.Seeking, 0), lost, nil, voters +
			"reached 1: 127.0.0.1:2 (knows no leader); missing: this node (it lost its store), " + rest},
		{"another with another store", roleOf(member.Seeking, 0), another, nil, voters +
			"reached 1: this node; missing: 127.0.0.1:2 (it lost its store), " + rest},
		{"provisional", roleOf(member.Provisional, 1, one), held, nil,
			"leads provisionally; " + voters + heard + "missing: " + rest},
		{"following a provisional leader", roleOf(member.Following, 4, one), held, nil,
			"follows 127.0.0.1:4, which leads provisionally; " + voters + heard + "missing: " + rest},
		{"leading", roleOf(member.Leading, 1, one), held, nil,
			"leads version 3, but has no lease; " + voters + heard + "missing: " + rest},
		{"following", roleOf(member.Following, 2, one, two), held, nil,
			"follows 127.0.0.1:2, the leader of version 3, which has not confirmed " +
				"that 3 members follow it"},
	} {
		c.check(t, addresses(1, 2, 9))
	}
}

// roleOf returns the view of node 1 with version 3 and the given role.
func roleOf(role member.Role, leader uint16, members ...member.Member) member.View {
	v := viewOf(3, leader, false, members...)
	v.Role, v.Self = role, at(1, 0).Identity
	return v
}

func (c stateCase) check(t *testing.T, seeds []member.Address) {
	t.Helper()
	cfg := Config{Self: at(1, 0).Address, Seeds: seeds, Size: 5, RetryInterval: time.Hour}
	if c.edit != nil {
		c.edit(&cfg)
	}
	o := New(cfg)
	o.peers.setMembers(c.held.Roster)
	o.ObserveMessage(message.Message{From: at(2, 0).Identity, Body: message.LeaderResponse{}})
	provisional := c.view.Role == member.Provisional || c.view.Role == member.Following &&
		(c.held.Leader != c.view.Leader || c.held.Version != c.view.Version)
	s := State{View: c.view, Held: c.held, Provisional: provisional}
	got := o.ReadReport(time.Now(), s).NoLeader
	if diff := cmp.Diff(c.want, got); diff != "" {
		t.Errorf("%s: want - got +\n%s", c.name, diff)
	}
}

// TestManyAreNotAllNamed checks that a line names a limited number of nodes.
func TestManyAreNotAllNamed(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("n", i))
	}
	if got, want := joinNames(names), "n0, n1, n2, n3, n4, n5, n6, n7, and 12 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := joinNames(names[:maxNames]); strings.Contains(got, "more") {
		t.Errorf("got %q, want %d names and no more", got, maxNames)
	}
}
