// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDriverMutantsApply checks the mutants that the swarm of whole nodes must catch.
func TestDriverMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range slices.Concat(driver, graphs) {
		t.Run(m.Name, func(t *testing.T) {
			if applyPatch(t, m); names[m.Name] || m.Rule == "" || len(m.Edits) == 0 {
				t.Errorf("%+v: want a unique name, a rule and a change", m)
			}
			names[m.Name] = true
		})
	}
}

// TestNodesCatchMutants builds the swarm of whole nodes with each bug of the driver, and runs seeds
// until one fails.
func TestNodesCatchMutants(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes minutes")
	}
	for i, m := range slices.Concat(driver, graphs) {
		if *one != "" && m.Name != *one {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			if m.Test != "" {
				found, took := tested(t, m)
				if found.invariant == "" {
					t.Errorf("%s survives: %s", m.Name, m.Rule)
				}
				t.Logf("%s, %.1f s: %v", m.Rule, took.Seconds(), found)
				return
			}
			bin := filepath.Join(t.TempDir(), "swarm")
			build := exec.Command("go", "test", "-c", "-overlay", overlay(t, m), "-o", bin, "./test/swarm")
			build.Dir = root
			if b, err := build.CombinedOutput(); err != nil {
				t.Fatalf("building the swarm: %v\n%s", err, b)
			}
			run := exec.Command(bin, "-test.run=^TestSwarm$", "-test.timeout=0", "-shrink=0",
				"-runs=1000000", fmt.Sprint("-seed=", *seed), fmt.Sprint("-budget=", *budget),
				fmt.Sprint("-graphs=", i >= len(driver)))
			run.Dir = filepath.Join(root, "test/swarm")
			out, caught := runs(t, m, run)
			found := nodeFailure.FindString(out)
			if !caught || found == "" {
				t.Errorf("%s survives: %s\n%.2000s", m.Name, m.Rule, out)
				return
			}
			t.Logf("%s: %s", m.Rule, strings.TrimSpace(found))
		})
	}
}

// nodeFailure matches the report of the swarm.
var nodeFailure = regexp.MustCompile(`seed \d+ fails after \d+ runs and [0-9.]+ s of CPU time: .*`)
