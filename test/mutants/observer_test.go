// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os/exec"
	"testing"
)

// observers lists bugs of the limits of observers. The tests of package observer and of the
// transports catch them.
var observers = []Mutant{
	{
		Name: "observer-takes-part",
		Rule: "8, observers: no message of the protocol is taken from an observer",
		Edits: []Edit{{
			File: "internal/mesh/observer.go",
			Old:  "\tif l.isObserved() {\n\t\treturn func(",
			New:  "\tif l.peer.mesh.self.IsObserver() {\n\t\treturn func(",
		}},
	},
	{
		Name: "observers-in-the-room-of-members",
		Rule: "8, observers: they do not count towards the limit of other peers",
		Edits: []Edit{{
			File: "internal/mesh/mesh.go",
			Old:  "peers := len(m.peers) - m.observers;",
			New:  "peers := len(m.peers);",
		}},
	},
	{
		Name: "observers-without-limit",
		Rule: "8, observers: a member refuses those above its limit",
		Edits: []Edit{{
			File: "internal/mesh/observer.go",
			Old:  "m.observers >= m.cfg.Observers",
			New:  "m.observers >= 1<<20",
		}},
	},
	{
		Name: "observer-events-handled",
		Rule: "8, observers: no event is taken from an observer",
		Edits: []Edit{{
			File: "internal/messaging/observer.go",
			Old:  "case call == nil || !e.Call.Request:",
			New:  "case call == nil && !e.Call.Request && len(e.Payload) == 0:",
		}},
	},
}

// TestObserverMutantsAreCaught runs the tests of observers on each bug.
func TestObserverMutantsAreCaught(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes a minute")
	}
	for _, m := range observers {
		if *one != "" && m.Name != *one {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			run := exec.Command("go", "test", "-overlay", overlay(t, m), "-count=1",
				"-run", "Observer|Network", "./internal/mesh", "./internal/messaging",
				"./transport/memnet", "./observer")
			run.Dir = root
			out, caught := runs(t, m, run)
			if !caught {
				t.Errorf("%s survives: %s", m.Name, m.Rule)
			}
			t.Log(out)
		})
	}
}

func TestObserverMutantsApply(t *testing.T) {
	for _, m := range observers {
		applyPatch(t, m)
	}
}
