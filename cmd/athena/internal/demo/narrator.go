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

// narrator prints what happens, each line with the time since the program
// began. Whoever calls it holds the fleet's lock.
type narrator struct {
	out   io.Writer
	began time.Time

	leader   string    // who led with authority when it last looked, empty for nobody
	last     string    // who did before that
	token    uint64    // of the last one
	lostAt   time.Time // when there was no such leader any more
	statuses map[string]member.Status
	settled  bool
	formed   bool // all were active once
}

// printLine prints one line.
func (t *narrator) printLine(at time.Time, format string, args ...any) {
	fmt.Fprintf(t.out, "%9.3f s  %s\n", at.Sub(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// compareNodes compares what the nodes report with what it saw last.
func (t *narrator) compareNodes(at time.Time, nodes []*node) {
	leader := leaderOf(nodes)
	switch {
	case leader == nil && t.leader != "":
		if isPaused(nodes, t.leader) {
			t.printLine(at, "%s stands still, and nobody else leads yet", t.leader)
		} else {
			t.printLine(at, "nobody leads with authority any more")
		}
		t.leader, t.last, t.lostAt = "", t.leader, at
	case leader != nil && (leader.name != t.leader || leader.status.Token != t.token):
		t.newLeader(at, leader)
	}
	if leader != nil {
		t.tellMembers(at, leader)
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
	text := fmt.Sprintf("%s leads with authority, token %d", leader.name, leader.status.Token)
	switch {
	case t.lostAt.IsZero():
	case t.leader == "" && t.last == leader.name && t.token == leader.status.Token:
		text += fmt.Sprintf(", again after %d ms", at.Sub(t.lostAt).Milliseconds())
	case t.leader == "":
		text += fmt.Sprintf(", %d ms after the last leader", at.Sub(t.lostAt).Milliseconds())
	default:
		text += ", in place of " + t.leader
	}
	t.printLine(at, "%s; process %d", text, leader.proc.processID())
	t.leader, t.token = leader.name, leader.status.Token
	t.lostAt = at
}

// isPaused reports whether a node stands still.
func isPaused(nodes []*node, name string) bool {
	return slices.ContainsFunc(nodes, func(n *node) bool { return n.name == name && n.paused })
}

// tellMembers tells which members the leader sees in another status than before.
func (t *narrator) tellMembers(at time.Time, leader *node) {
	seen := statusesByName(leader)
	var moved []string
	for name, s := range seen {
		if t.formed && t.statuses[name] != s {
			moved = append(moved, fmt.Sprintf("%s is %s", name, s))
		}
	}
	if len(moved) > 0 {
		slices.Sort(moved)
		t.printLine(at, "%s says: %s", leader.name, strings.Join(moved, ", "))
	}
	t.statuses = seen
}

// tellSignal tells what is being done to a node.
func (t *narrator) tellSignal(n *node, s syscall.Signal) {
	text := map[syscall.Signal]string{
		syscall.SIGKILL: "is killed (SIGKILL)",
		syscall.SIGSTOP: "is paused (SIGSTOP)",
		syscall.SIGCONT: "goes on (SIGCONT)",
	}[s]
	t.printLine(time.Now(), "%s %s", n.name, text)
}

func (t *narrator) tellExit(n *node, err error) {
	how := "has left"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		how = "ended: " + exit.String()
	}
	t.printLine(time.Now(), "%s %s", n.name, how)
}

func (t *narrator) tellCut(group []*node) {
	t.printLine(time.Now(), "%s cut off: every packet to and from the others is lost",
		joinNames(group))
}

func (t *narrator) tellHealed(group []*node) {
	t.printLine(time.Now(), "%s healed", joinNames(group))
}

func joinNames(group []*node) string {
	var all []string
	for _, n := range group {
		all = append(all, n.name)
	}
	verb := " is"
	if len(all) > 1 {
		verb = " are"
	}
	return strings.Join(all, ", ") + verb
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
