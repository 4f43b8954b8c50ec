// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxCorpus bounds the inputs that are kept for one fuzz target: make test runs
// each of them every time.
const maxCorpus = 60

// TestFuzzTargets wants make fuzz to run every fuzz target of this module and of those
// in contrib, and each to have inputs that make test repeats.
func TestFuzzTargets(t *testing.T) {
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	targets := fuzzTargets(tree)
	if len(targets) < 10 {
		t.Fatalf("found %q: the test looks at the wrong place", targets)
	}
	run := exec.Command("make", "-s", "-C", "..", "fuzz", "GO=echo")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", run, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, target := range targets {
		folder, name := filepath.Split(target)
		runs := func(line string) bool {
			return strings.Contains(line, "-fuzz=^"+name+"$ ") &&
				strings.HasPrefix(line, "test -C ./"+filepath.Clean(folder)+" ")
		}
		if !slices.ContainsFunc(lines, runs) {
			t.Errorf("make fuzz does not run %s; it runs\n%s", target, out)
		}
		kept, err := os.ReadDir(filepath.Join("..", folder, "testdata", "fuzz", name))
		if err != nil || len(kept) == 0 || len(kept) > maxCorpus {
			t.Errorf("%s: %d inputs in testdata/fuzz, %v; want 1 to %d", target, len(kept), err, maxCorpus)
		}
	}
	if len(lines) != len(targets) {
		t.Errorf("make fuzz runs\n%s\nwant %q", out, targets)
	}
}

// fuzzTargets lists them, each as its folder and name.
func fuzzTargets(tree *sourceTree) (targets []string) {
	for _, p := range tree.packages {
		for _, f := range p.files {
			for _, d := range f.syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && f.isTest() && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
					targets = append(targets, p.path+"/"+fn.Name.Name)
				}
			}
		}
	}
	return targets
}
