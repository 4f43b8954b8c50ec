// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strconv"
	"strings"
	"testing"
)

// plantedFigure is a file that raises one figure of figuresModule. A path with a star is planted 99
// times.
type plantedFigure struct {
	figure, path, text string
	by                 int // how much the figure grows
}

// figuresModule returns soundModule with what the figures count.
func figuresModule() map[string]string {
	files := soundModule()
	files["go.mod"] = "module example.org/m\n\nrequire example.com/one v1.2.3\n\n" +
		"require (\n\texample.com/two v0.1.0\n\texample.com/far v0.2.0 // indirect\n)\n"
	files["cluster/turn.go"] = "// Package cluster is sound.\npackage cluster\n\n" +
		"import _ \"example.org/m/member\"\n\nfunc apply() { later() }\n\nfunc later() {}\n"
	files["leader/leader.go"] = "// Package leader is sound.\npackage leader\n\n" +
		"// Work is work.\ntype Work struct{}\n\n" +
		"// WhileLeader is the contract.\nfunc (Work) WhileLeader() {\n\tprintln()\n\tprintln()\n}\n"
	return files
}

func plantedFigures() []plantedFigure {
	cases := []plantedFigure{
		{"packages that a program can import", "extra/extra.go",
			"// Package extra is extra.\npackage extra\n\n// X is exported.\nconst X = 1\n", 1},
		{"exported names in them", "cluster/x.go", "package cluster\n\n" +
			"const X, y = 1, 2\n\nvar Z int\n\ntype T struct{}\n\ntype u struct{}\n\n" +
			"func (T) M() {}\n\nfunc (T) m() {}\n\nfunc (*u) M() {}\n\nfunc F() {}\n", 5},
		{"contracts for leading", "lock/x.go", "package lock\n\ntype l struct{}\n\n" +
			"func (l) WhileLeader() {\n\tprintln()\n\tprintln()\n}\n", 1},
		{"calls in the function that carries a turn out", "cluster/turn.go",
			"package cluster\n\nfunc apply() { later(later(later(nil))) }\n\n" +
				"func later(any) any { return nil }\n", 2},
		{"places that set the role of the machine outside of become functions", "statemachine/x.go",
			"package statemachine\n\nfunc (m *Machine) f() { m.role = 1 }\n", 1},
		{"timings derived outside of the file that names them", "statemachine/x.go",
			"package statemachine\n\nimport \"time\"\n\n" +
				"func (t timing) f() time.Duration { return t.Interval / 2 }\n", 1},
		{"percent of functions that are one bare word", "lock/x.go",
			"package lock\n\n" + strings.Repeat("func bare() {}\n", 1000), 55},
		{"p90 of grep hits of a core helper's name", "paxos/x.go",
			"package paxos\n\nfunc hit() {}\n" + strings.Repeat("// hit\n", 40), 40},
		{"median lines of a file", "lock/x*.go", "package lock\n" + strings.Repeat("//\n", 99), 94},
		{"modules that go.mod requires", "go.mod",
			"module example.org/m\n\nrequire (\n\texample.com/one v1.2.3\n\texample.com/two v0.1.0\n" +
				"\texample.com/three v0.1.0\n\texample.com/far v0.2.0 // indirect\n)\n", 1},
		{"packages in no room", "internal/drawer/x.go", "package drawer\n", 1},
		{"packages that cluster.Start links from other rooms", "member/x.go",
			"package member\n\nimport _ \"example.org/m/transport/memnet\"\n", 1},
	}
	for i := range rooms {
		folder := strings.ReplaceAll(rooms[i].packages[0], "...", "x")
		cases = append(cases, plantedFigure{
			"lines: " + rooms[i].name, folder + "/planted.go", "package x\n\n// 3\n// 4\n", 4,
		})
	}
	return cases
}

// TestPlantedFigures checks that each figure grows by what is planted, and by no more.
func TestPlantedFigures(t *testing.T) {
	t.Parallel()
	count := func(files map[string]string) map[string]int {
		tree := plantTree(t, files)
		counts := map[string]int{}
		for _, f := range figures() {
			counts[f.name] = f.count(tree, func(string, ...any) {})
		}
		return counts
	}
	sound, covered := count(figuresModule()), map[string]bool{}
	for _, c := range plantedFigures() {
		covered[c.figure] = true
		files := figuresModule()
		for i := range 99 {
			files[strings.ReplaceAll(c.path, "*", strconv.Itoa(i))] = c.text
		}
		if got := count(files)[c.figure] - sound[c.figure]; got != c.by {
			t.Errorf("%s grows by %d, want %d, with %s:\n%s", c.figure, got, c.by, c.path, c.text)
		}
	}
	for _, f := range figures() {
		if !covered[f.name] {
			t.Errorf("no fault is planted for the figure: %s", f.name)
		}
	}
}
