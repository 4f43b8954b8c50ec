// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"go/token"
	"os"
	"testing"
)

// TestArchitecture checks the whole module against every rule of STYLE.md that a program can
// decide. TestPlanted checks that the rules find violations.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.packages) == 0 {
		t.Fatal("the module has no package: the test reads the wrong folder")
	}
	for _, r := range archRules() {
		t.Run(r.name, func(t *testing.T) {
			for _, v := range r.violations(tree) {
				t.Error(v)
			}
		})
	}
}

// An archRule is one rule over the source of the module.
type archRule struct {
	name  string
	check func(*sourceTree, reporter)
}

// A reporter receives a violation: its place, as "file" or "file:line", and a description.
type reporter func(where, format string, args ...any)

func archRules() []archRule {
	return []archRule{
		{"floors", checkFloors},
		{"dependencies", checkDependencies},
		{"purity", checkPurity},
		{"core", checkCore},
		{"sizes", checkSizes},
		{"documentation", checkDocumentation},
		{"shape", checkShape},
		{"sleeps", checkSleeps},
		{"text", checkText},
	}
}

// violations returns one line for each violation of the rule.
func (r archRule) violations(tree *sourceTree) []string {
	var found []string
	r.check(tree, func(where, format string, args ...any) {
		found = append(found, where+": "+fmt.Sprintf(format, args...))
	})
	return found
}

// at formats a position of the syntax tree for a reporter.
func (t *sourceTree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// at formats a line of a file, counted from 0, for a reporter.
func (f *sourceFile) at(line int) string { return fmt.Sprintf("%s:%d", f.path, line+1) }
