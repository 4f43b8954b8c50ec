// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// byEveryOrder lists the bugs for which package explore finds a shortest path to the violation.
// These are the bugs in votes and values, which do not involve clocks.
var byEveryOrder = []string{
	"promise-below", "promise-not-kept", "accept-below", "accepted-not-kept", "accepted-not-shown",
	"value-not-adopted", "last-value-adopted", "dead-value-replaced",
}

func TestMutantsAreExplored(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes minutes")
	}
	for _, m := range Table() {
		if !slices.Contains(byEveryOrder, m.Name) || *one != "" && m.Name != *one {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			for _, alone := range []bool{false, true} {
				found, took := exploreMutant(t, m, alone)
				if found.invariant == "" {
					t.Errorf("%s survives, package paxos alone: %v (%s)", m.Name, alone, m.Rule)
					continue
				}
				t.Logf("%s, package paxos alone: %v, %.1f s: %v", m.Rule, alone, took.Seconds(), found)
			}
		})
	}
}

// exploreMutant runs the explorer with a mutant, either on whole machines or on package paxos
// alone.
func exploreMutant(t *testing.T, m Mutant, alone bool) (found catch, took time.Duration) {
	t.Helper()
	run := exec.Command(build(t, m, "./test/sim/cmd/explore"), fmt.Sprintf("-paxos=%v", alone))
	out, caught := runs(t, m, run)
	if !caught {
		t.Log(out)
		return catch{}, 0
	}
	// Skip the two lines with the numbers of states and steps.
	_, rest, _ := strings.Cut(out, "\n")
	_, rest, _ = strings.Cut(rest, "\n")
	text, _, _ := strings.Cut(rest, "\n")
	name, _, named := strings.Cut(text, ": ")
	if !named || strings.Contains(name, " ") {
		name = "a check of the machine"
	}
	found = catch{every: true, invariant: name, text: text}
	return found, run.ProcessState.UserTime() + run.ProcessState.SystemTime()
}
