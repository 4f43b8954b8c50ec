// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

// readDiagram returns the text of a diagram of docs/plantuml.
func readDiagram(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "plantuml", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A move is a transition from one status to another.
type move [2]member.Status

// TestDiagramMemberStates compares docs/plantuml/MEMBER_STATES.puml with the table in the code, and
// both with the table of protocol.md section 3.
func TestDiagramMemberStates(t *testing.T) {
	t.Parallel()
	drawn := make(map[move]bool)
	arrow := regexp.MustCompile(`(?m)^(\S+) --> (\S+) : .+$`)
	for _, m := range arrow.FindAllStringSubmatch(readDiagram(t, "MEMBER_STATES.puml"), -1) {
		drawn[move{status(t, m[1], "[*]"), status(t, m[2], "[*]")}] = true
	}
	for from := member.None; from <= member.Removed; from++ {
		for to := member.None; to <= member.Removed; to++ {
			held := from != to && member.CanMove(from, to)
			if got := drawn[move{from, to}]; got != held {
				t.Errorf("%v to %v: drawn %v, want %v", from, to, got, held)
			}
		}
	}
	for _, m := range documentedMoves(t) {
		if !drawn[m] {
			t.Errorf("%v to %v is in protocol.md but not drawn", m[0], m[1])
		}
	}
}

// status parses a status; "none" means None.
func status(t *testing.T, name, none string) member.Status {
	t.Helper()
	var s member.Status
	if name == none {
		return s
	}
	if err := s.UnmarshalText([]byte(name)); err != nil {
		t.Error(err)
	}
	return s
}

// documentedMoves returns the moves in the table of protocol.md section 3. A row may name several
// statuses, with other text between them.
func documentedMoves(t *testing.T) []move {
	t.Helper()
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n| now | condition | next |\n|:--|:--|:--|\n")
	if !found {
		t.Fatal("protocol.md has no table of statuses")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var moves []move
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("row %q has %d cells, want 3", row, len(cells))
		}
		for _, from := range strings.Split(cells[0], ", ") {
			from, _, _ = strings.Cut(from, " ")
			moves = append(moves, move{status(t, from, "-"), status(t, cells[2], "-")})
		}
	}
	return moves
}

// TestDiagramFloors compares docs/plantuml/FLOORS.puml with the table of floors and with the
// imports of the code. Each arrow must be an import, and each import must be a path of arrows.
func TestDiagramFloors(t *testing.T) {
	t.Parallel()
	text := readDiagram(t, "FLOORS.puml")
	pattern := make(map[string]string) // of each alias
	box := regexp.MustCompile(`(?s)rectangle "(\d+)" as \w+ \{(.*?)\}`)
	component := regexp.MustCompile(`\[(.+?)\] as (\w+)`)
	number := len(floors) - 1
	for _, m := range box.FindAllStringSubmatch(text, -1) {
		var names []string
		for _, c := range component.FindAllStringSubmatch(m[2], -1) {
			names = append(names, c[1])
			pattern[c[2]] = c[1]
		}
		if m[1] != strconv.Itoa(number) || number < 0 || !sameElements(names, floors[number]) {
			t.Errorf("floor %s is drawn with %q, want floor %d with %q", m[1], names, number, floors[number])
		}
		number--
	}
	if number >= 0 {
		t.Errorf("%d floors are not drawn", number+1)
	}
	imports := importedPatterns(t)
	drawn := make(map[string][]string)
	for _, m := range regexp.MustCompile(`(?m)^(\w+) --> (\w+)$`).FindAllStringSubmatch(text, -1) {
		from, to := pattern[m[1]], pattern[m[2]]
		drawn[from] = append(drawn[from], to)
		if !slices.Contains(imports[from], to) {
			t.Errorf("drawn: %s --> %s, but %q does not import %q", m[1], m[2], from, to)
		}
	}
	for from, targets := range imports {
		for _, to := range targets {
			if !leads(drawn, from, to) {
				t.Errorf("%q imports %q, but no path of arrows leads there", from, to)
			}
		}
	}
}

func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// leads reports whether arrows lead from one alias to the other. The arrows have no cycles.
func leads(arrows map[string][]string, from, to string) bool {
	return from == to || slices.ContainsFunc(arrows[from], func(next string) bool {
		return leads(arrows, next, to)
	})
}

// importedPatterns lists, for each entry of the table of floors, the entries that its code
// imports.
func importedPatterns(t *testing.T) map[string][]string {
	t.Helper()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	imports := make(map[string][]string)
	for _, p := range tree.packages {
		if floorOf(p.path) < 0 {
			continue // TestArchitecture reports it
		}
		from := patternOf(p.path)
		for _, f := range p.code() {
			for _, s := range f.syntax.Imports {
				target, ours := strings.CutPrefix(importPath(s), tree.module+"/")
				if to := patternOf(target); ours && to != from {
					imports[from] = append(imports[from], to)
				}
			}
		}
	}
	return imports
}

// patternOf returns the entry of the table of floors that places a package.
func patternOf(pkg string) string {
	floor := floorOf(pkg)
	if floor < 0 {
		return pkg
	}
	i := slices.IndexFunc(floors[floor], func(p string) bool { return matches(p, pkg) })
	return floors[floor][i]
}
