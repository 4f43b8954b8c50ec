// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A figure is a count over the source. The figures measure the cost of reading, importing and
// linking Athena; scripts/figures.sh prints them, and budgets.txt has the limit of each.
type figure struct {
	name  string
	count func(*sourceTree, noter) int
}

// A noter receives a line about what was counted.
type noter func(format string, args ...any)

func figures() []figure {
	all := []figure{
		{"packages that a program can import", countPackages},
		{"exported names in them", countExported},
		{"contracts for leading", countContracts},
		{"calls in the function that carries a turn out", countTurnCalls},
		{"places that set the role of the machine outside of become functions", countRoleSets},
		{"timings derived outside of the file that names them", countDerivedTimings},
		{"median lines of a file", func(t *sourceTree, _ noter) int {
			all := fileSizes(t)
			return all[len(all)/2]
		}},
		{"percent of functions that are one bare word", countBareWords},
		{"p90 of grep hits of a core helper's name", countNameHits},
		{"modules that go.mod requires", countRequired},
		{"packages in no room", countHomeless},
		{"packages that cluster.Start links from other rooms", countStrayLinks},
	}
	for i := range rooms {
		all = append(all, figure{"lines: " + rooms[i].name, rooms[i].countLines})
	}
	return all
}

// A room is a group of packages with one purpose. Its lines of code, without tests, have a limit.
type room struct {
	name     string
	linked   bool // whether cluster.Start may link its packages
	packages []string
}

var rooms = []room{
	{"protocol", true, []string{"statemachine", "paxos", "internal/message", "member"}},
	{"connections", true, []string{
		"internal/mesh", "internal/storekey", "internal/handshakes", "internal/transportkinds",
		"internal/tlsfiles", "transport", "transport/quicnet",
	}},
	{"events", true, []string{"internal/messaging", "internal/eventname", "receiver"}},
	{"shell", true, []string{
		"cluster", "internal/clock", "internal/fielderr", "internal/safetext",
	}},
	{"bytes and disk", true, []string{"internal/wire", "internal/store"}},
	{"diagnosis and logs", true, []string{
		"internal/diagnosis", "internal/zslog", "internal/histogram",
	}},
	{"leading and records", true, []string{"leader", "record", "internal/recordtable"}},
	{"other libraries", false, []string{
		"election", "lock", "internal/lowest", "internal/holding", "internal/leasestore", "observer",
		"transport/tlsnet", "transport/memnet", "athenatest",
	}},
	{"daemon and commands", false, []string{
		"admin", "internal/adminapi", "internal/adminclient", "cmd/...",
	}},
	{"proof", false, []string{
		"internal/simnet", "internal/steplog", "spec/...", "test", "test/...", "scripts/...",
	}},
	{"contrib and examples", false, []string{"contrib/...", "examples/..."}},
}

// roomOf returns the room of a package, or nil.
func roomOf(p *sourcePackage) *room {
	for i := range rooms {
		if slices.ContainsFunc(rooms[i].packages, func(pattern string) bool {
			return matches(pattern, p.path)
		}) {
			return &rooms[i]
		}
	}
	return nil
}

func (r *room) countLines(tree *sourceTree, _ noter) (lines int) {
	for _, p := range tree.packages {
		if roomOf(p) != r {
			continue
		}
		for _, f := range p.code() {
			lines += len(f.lines)
		}
	}
	return lines
}

func countHomeless(tree *sourceTree, note noter) (n int) {
	for _, p := range tree.packages {
		if roomOf(p) == nil {
			note("    %s", p.path)
			n++
		}
	}
	return n
}

// TestFigures checks that no figure exceeds its limit.
func TestFigures(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	limits := readBudgets(t)
	for _, f := range figures() {
		limit, known := limits[f.name]
		if !known {
			t.Errorf("%s has no limit for: %s", budgets, f.name)
		}
		delete(limits, f.name)
		n := f.count(tree, t.Logf)
		t.Logf("%-70s %6d  of at most %d", f.name, n, limit)
		if n > limit {
			t.Errorf("%s: %d, want at most %d", f.name, n, limit)
		}
	}
	for name := range limits {
		t.Errorf("%s has a limit for an unknown figure: %s", budgets, name)
	}
}

// budgets is the file with the limits, one on each line, before the name of its figure.
const budgets = "budgets.txt"

var budgetLine = regexp.MustCompile(`^ *(\d+)  (\S.*)$`)

func readBudgets(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(budgets)
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		match := budgetLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			t.Fatalf("%s: %q is no limit", budgets, line)
		}
		limits[match[2]], _ = strconv.Atoi(match[1])
	}
	return limits
}

// TestBudgetsChangeAlone checks that a commit that changes a limit changes nothing else, so that
// its message is about the limit.
func TestBudgetsChangeAlone(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output(); err != nil ||
		strings.TrimSpace(string(out)) != "false" {
		t.Skip("no git, or no complete history: cannot see the commits that changed the limits")
	}
	out, err := exec.Command("git", "log", "--diff-filter=M", "--format=%H", "--", budgets).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range strings.Fields(string(out)) {
		files, err := exec.Command("git", "show", "--name-only", "--format=", commit).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(string(files)); len(got) != 1 {
			t.Errorf("commit %.10s changes limits and %d other files: a limit needs a separate commit, "+
				"whose message describes the benefit to users", commit, len(got)-1)
		}
	}
}
