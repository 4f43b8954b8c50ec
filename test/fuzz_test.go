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

// maxCorpus bounds the stored inputs of a fuzz target, because make test runs all of them.
const maxCorpus = 60

// TestFuzzTargets checks that make fuzz runs every fuzz target of this module and of contrib, and
// that each target has stored inputs, which make test runs.
func TestFuzzTargets(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	targets := fuzzTargets(tree)
	if len(targets) < 10 {
		t.Fatalf("found %q: the test reads the wrong folder", targets)
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

// fuzzTargets lists the fuzz targets by folder and name.
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
