// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/athena-go/athena/member"
)

// narrator prints the events of the demo, each with the time since the demo started. The lock of
// the fleet must be held.
type narrator struct {
	out   io.Writer
	began time.Time

	leader   string    // leader with authority at the last comparison; "" if none
	last     string    // the last leader with authority
	token    uint64    // token of that leader
	lostAt   time.Time // time of the last change of leader
	statuses map[string]member.Status
	settled  bool
	formed   bool // whether all nodes have been active
}

// printLine prints one line.
func (t *narrator) printLine(at time.Time, format string, args ...any) {
	fmt.Fprintf(t.out, "%9.3f s  %s\n", at.Sub(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// compareNodes prints how the reports of the nodes have changed since its last call.
func (t *narrator) compareNodes(at time.Time, nodes []*node) {
	leader := leaderOf(nodes)
	switch {
	case leader == nil && t.leader != "":
		if isPaused(nodes, t.leader) {
			t.printLine(at, "%s is paused, and no other node leads yet", t.leader)
		} else {
			t.printLine(at, "no node leads with authority")
		}
		t.leader, t.last, t.lostAt = "", t.leader, at
	case leader != nil && (leader.name != t.leader || leader.status.Token != t.token):
		t.newLeader(at, leader)
	}
	if leader != nil {
		t.printMembers(at, leader)
	}
	settled := isSettled(nodes, len(nodes))
	if settled && !t.settled {
		since := ""
		if !t.formed {
			since = fmt.Sprintf(" after %d ms", at.Sub(t.began).Milliseconds())
		}
		t.printLine(at, "%s and a quorate leader%s", activeMembers(len(nodes)), since)
		t.formed = true
	}
	t.settled = settled
}

func (t *narrator) newLeader(at time.Time, leader *node) {
	text := fmt.Sprintf("%s leads with authority, token %s", leader.name,
		member.Token{Version: leader.status.Token})
	switch {
	case t.lostAt.IsZero():
	case t.leader == "" && t.last == leader.name && t.token == leader.status.Token:
		text += fmt.Sprintf(", regained after %d ms", at.Sub(t.lostAt).Milliseconds())
	case t.leader == "":
		text += fmt.Sprintf(", %d ms after the last leader", at.Sub(t.lostAt).Milliseconds())
	default:
		text += ", replacing " + t.leader
	}
	t.printLine(at, "%s; process %d", text, leader.proc.processID())
	t.leader, t.token = leader.name, leader.status.Token
	t.lostAt = at
}

// isPaused reports whether the node with the given name is paused.
func isPaused(nodes []*node, name string) bool {
	return slices.ContainsFunc(nodes, func(n *node) bool { return n.name == name && n.paused })
}

// printMembers prints the members whose status in the leader's view has changed.
func (t *narrator) printMembers(at time.Time, leader *node) {
	seen := statusesByName(leader)
	var moved []string
	for name, s := range seen {
		if t.formed && t.statuses[name] != s {
			moved = append(moved, fmt.Sprintf("%s is %s", name, s))
		}
	}
	if len(moved) > 0 {
		slices.Sort(moved)
		t.printLine(at, "%s reports: %s", leader.name, strings.Join(moved, ", "))
	}
	t.statuses = seen
}

// printSignal prints the effect of a signal.
func (t *narrator) printSignal(n *node, s syscall.Signal) {
	text := map[syscall.Signal]string{
		syscall.SIGKILL: "killed (SIGKILL)",
		syscall.SIGSTOP: "paused (SIGSTOP)",
		syscall.SIGCONT: "resumed (SIGCONT)",
	}[s]
	t.printLine(time.Now(), "%s %s", n.name, text)
}

func (t *narrator) printExit(n *node, err error) {
	how := "left the cluster"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		how = "exited: " + exit.String()
	}
	t.printLine(time.Now(), "%s %s", n.name, how)
}

func (t *narrator) printCut(group []*node) {
	t.printLine(time.Now(), "%s isolated: all packets to and from the others are dropped",
		joinNames(group))
}

func (t *narrator) printHealed(group []*node) {
	t.printLine(time.Now(), "%s reconnected", joinNames(group))
}

func joinNames(group []*node) string {
	var all []string
	for _, n := range group {
		all = append(all, n.name)
	}
	return strings.Join(all, ", ")
}

func activeMembers(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
	switch {
	case n == 1:
		return "one active member"
	case n < len(words):
		return words[n] + " active members"
	default:
		return fmt.Sprint(n, " active members")
	}
}
