// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os/exec"
	"slices"
	"testing"
)

// byEveryOrder are the bugs of which package explore finds a shortest way to the
// harm: those in votes and values, where no clock has a part.
var byEveryOrder = []string{
	"promise-below", "promise-not-kept", "accept-below", "accepted-not-kept",
	"accepted-not-shown", "value-not-adopted", "dead-value-replaced",
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
			out, caught := runs(t, m, exec.Command(build(t, m, "./sim/internal/explore")))
			if !caught {
				t.Errorf("%s survives (%s):\n%s", m.Name, m.Rule, out)
				return
			}
			t.Logf("%s:\n%s", m.Rule, out)
		})
	}
}
