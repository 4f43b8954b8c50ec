// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"go/token"
	"os"
	"testing"
)

// TestArchitecture holds every rule of STYLE.md that a program can decide, over
// the whole module, so that nobody has to remember them. The rules are proved
// to bite by TestPlanted.
func TestArchitecture(t *testing.T) {
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.packages) == 0 {
		t.Fatal("the module has no package: the test looks at the wrong place")
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

// A reporter takes one violation: where, as "file" or "file:line", and what.
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

// violations lists what breaks the rule, each as one line for a reader.
func (r archRule) violations(tree *sourceTree) []string {
	var found []string
	r.check(tree, func(where, format string, args ...any) {
		found = append(found, where+": "+fmt.Sprintf(format, args...))
	})
	return found
}

// at turns a position of the syntax tree into the form that a reporter takes.
func (t *sourceTree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// at does the same for a line of a file, counted from 0.
func (f *sourceFile) at(line int) string { return fmt.Sprintf("%s:%d", f.path, line+1) }
