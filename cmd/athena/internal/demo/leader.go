// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import "github.com/athena-go/athena/member"

// leaderOf returns the node that leads with authority, or nil. If several nodes report that they
// lead, it returns the one with the highest token, since a paused node cannot report that its lease
// has ended.
func leaderOf(nodes []*node) *node {
	var leader *node
	for _, n := range nodes {
		if n.proc == nil || n.paused || n.status == nil || !n.status.IsLeader() {
			continue
		}
		if leader == nil || n.status.Token > leader.status.Token {
			leader = n
		}
	}
	return leader
}

// isSettled reports whether all nodes of the group are running, follow the same quorate leader, and
// see the given number of active members.
func isSettled(group []*node, active int) bool {
	for _, n := range group {
		if n.proc == nil || n.paused || n.status == nil || n.status.Token == 0 ||
			n.status.Token != group[0].status.Token || n.status.Active() != active {
			return false
		}
	}
	return true
}

// statusesByName returns the status of each member in the leader's view, by name.
func statusesByName(leader *node) map[string]member.Status {
	seen := map[string]member.Status{}
	for _, m := range leader.status.View.Members {
		seen[m.Name] = m.Status
	}
	return seen
}
