// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import "github.com/athena-go/athena/member"

// leaderOf is the node that leads with authority as far as its own reports
// say: the one of the highest token, since one that was paused cannot report
// that its authority has ended. nil when there is none.
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

// isSettled reports whether each node in this group runs, follows one quorate
// leader, and sees so many active members.
func isSettled(group []*node, active int) bool {
	for _, n := range group {
		if n.proc == nil || n.paused || n.status == nil || n.status.Token == 0 ||
			n.status.Token != group[0].status.Token || n.status.Active() != active {
			return false
		}
	}
	return true
}

// statusesByName are the members as the leader sees them, by name.
func statusesByName(leader *node) map[string]member.Status {
	seen := map[string]member.Status{}
	for _, m := range leader.status.View.Members {
		seen[m.Name] = m.Status
	}
	return seen
}
