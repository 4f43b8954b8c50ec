// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// Most mutants of several edits remove a rule that stands in several places, so that each edit
// alone may be harmless. An edit that is not must be caught alone too: otherwise a fault in that
// one place could go unnoticed.

// TestEditsApplyAlone checks that every edit of a mutant applies without the others.
func TestEditsApplyAlone(t *testing.T) {
	for _, m := range slices.Concat(Table(), driver) {
		for _, e := range m.Edits {
			alone := m
			alone.Edits = []Edit{e}
			if applyPatch(t, alone); e.Alone != "" && len(m.Edits) == 1 {
				t.Errorf("%s has one edit, so it cannot be harmless alone", m.Name)
			}
		}
	}
}

// TestEachEditIsCaught checks the mutants of several edits, one edit at a time. The tests of the
// edited package, the test or the stored run of the mutant, or a run of seeds must fail, unless the
// edit states why it is harmless alone.
func TestEachEditIsCaught(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes minutes")
	}
	for _, m := range slices.Concat(Table(), driver) {
		if len(m.Edits) == 1 || *one != "" && m.Name != *one {
			continue
		}
		for i, e := range m.Edits {
			t.Run(fmt.Sprint(m.Name, "/", i+1), func(t *testing.T) {
				if e.Alone != "" {
					t.Skip(e.Alone)
				}
				alone := m
				alone.Edits = []Edit{e}
				if found := caughtAlone(t, alone); found != "" {
					t.Log(found)
					return
				}
				t.Errorf("edit %d of %s survives alone: %s", i+1, m.Name, m.Rule)
			})
		}
	}
}

// caughtAlone returns what catches a mutant of one edit, or "".
func caughtAlone(t *testing.T, m Mutant) string {
	t.Helper()
	args := []string{
		"test", "-short", "-vet=off", "-overlay", overlay(t, m), "-count=1", "./statemachine",
	}
	switch folder := path.Dir(m.Edits[0].File); folder {
	case "statemachine":
	case "internal/recordtable":
		args = append(args, "./internal/recordtable", "./test/recordtest")
	default:
		args = append(args, "./"+folder)
	}
	run := exec.Command("go", args...)
	run.Dir = root
	out, failed := runs(t, m, run)
	if strings.Contains(out, "[build failed]") {
		t.Fatalf("%s does not compile:\n%s", m.Name, out)
	}
	if found := failedTest.FindString(out); failed && found != "" {
		return found
	}
	if m.Test != "" {
		if found, _ := tested(t, m); found.invariant != "" {
			return found.String()
		}
		m.Test = ""
	}
	if slices.ContainsFunc(driver, func(d Mutant) bool { return d.Name == m.Name }) {
		return ""
	}
	found, _ := hunt(t, m)
	if found.invariant == "" {
		return ""
	}
	return found.String()
}
