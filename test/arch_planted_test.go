// SPDX-License-Identifier: Apache-2.0

package test

import (
	"maps"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// A planted violation is an error in an otherwise valid module. rule must find it, and the message
// must contain want.
type planted struct {
	name string
	rule string
	want string
	path string // path of the added or replaced file
	text string // contents of the file without the license line
}

// TestPlanted checks that each rule finds what it forbids, and nothing else.
func TestPlanted(t *testing.T) {
	t.Parallel()
	var cases []planted
	cases = append(cases, plantedFloors()...)
	cases = append(cases, plantedPurity()...)
	cases = append(cases, plantedCore()...)
	cases = append(cases, plantedSizes()...)
	cases = append(cases, plantedComments()...)
	cases = append(cases, plantedShape()...)
	covered := make(map[string]bool)
	for _, c := range cases {
		covered[c.rule] = true
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			files := soundModule()
			files[c.path] = c.text
			if strings.HasSuffix(c.path, ".go") && c.name != "no license line" {
				files[c.path] = licenseLine + "\n\n" + c.text
			}
			found := allViolations(t, files)
			if len(found) != 1 || !strings.HasPrefix(found[0], c.rule+": ") ||
				!strings.Contains(found[0], c.want) {
				t.Errorf("%s:\n%s\ngot  %q\nwant only %q by rule %s",
					c.path, c.text, found, c.want, c.rule)
			}
		})
	}
	for _, r := range archRules() {
		if !covered[r.name] {
			t.Errorf("no violation of rule %s is planted", r.name)
		}
	}
}

// TestSoundModule checks that the rules accept a valid module.
func TestSoundModule(t *testing.T) {
	t.Parallel()
	if found := allViolations(t, soundModule()); len(found) != 0 {
		t.Errorf("a module without faults: got %q, want none", found)
	}
}

// plantTree loads a module with the given files.
func plantTree(t *testing.T, files map[string]string) *sourceTree {
	t.Helper()
	fsys := make(fstest.MapFS)
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := loadTree(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func allViolations(t *testing.T, files map[string]string) []string {
	t.Helper()
	tree := plantTree(t, files)
	var found []string
	for _, r := range archRules() {
		for _, v := range r.violations(tree) {
			found = append(found, r.name+": "+v)
		}
	}
	return found
}

// soundModule returns a small module that breaks no rule but comes close to breaking some.
func soundModule() map[string]string {
	files := map[string]string{
		"member/member.go": `// Package member is sound.
package member

import (
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// A Member is an entry.
type Member struct{ Name string }

// Names of a table that are shared by the group.
const (
	First = iota
	Second
)

var table = map[string]int{"a": First}

// Sorted takes the keys of a map in an order of its own.
func Sorted(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }

// Later is arithmetic.
func (m Member) Later(now time.Time, r *rand.Rand) time.Time {
	return now.Add(time.Duration(r.Int64N(int64(time.Second))) + time.Duration(table[m.Name]))
}

// Host is handling of strings.
func Host(s string) string { h, _, _ := net.SplitHostPort(s); return h }
`,
		"test/transporttest/kit.go": "// Package transporttest is a kit.\n" +
			"package transporttest\n\nimport \"testing\"\n\nvar _ testing.TB\n",
		"athenatest/kit.go": "// Package athenatest is a kit upon a kit.\n" +
			"package athenatest\n\nimport _ \"example.org/m/test/transporttest\"\n",
		"transport/memnet/kit_test.go": "package memnet_test\n\n" +
			"import _ \"example.org/m/test/transporttest\"\n",
		"transport/memnet/bubble_test.go": "package memnet_test\n\n" +
			"import (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\n" +
			"func f() { synctest.Wait(); time.Sleep(1) }\n",
		"test/real_test.go":                  "package test\n\nimport \"time\"\n\nvar _ = time.Sleep\n",
		"internal/store/testdata/ignored.go": "package ignored\n",
		"contrib/kv/kv.go":                   "// Package kv is sound.\npackage kv\n",
		"internal/store/other/ignored.go":    "package ignored\n",
	}
	for _, name := range []string{
		"paxos", "internal/message", "statemachine", "internal/store", "internal/wire",
		"transport/memnet",
	} {
		base := path.Base(name)
		files[name+"/"+base+".go"] = "// Package " + base + " is sound.\npackage " + base + "\n"
	}
	maps.Copy(files, soundCore())
	for name := range maps.Clone(files) {
		files[name] = licenseLine + "\n\n" + files[name]
	}
	files["go.mod"] = "module example.org/m\n"
	files["contrib/kv/go.mod"] = "module example.org/m/contrib/kv\n"
	files["internal/store/other/go.mod"] = "module example.org/m/internal/store/other\n"
	for _, d := range dependencies {
		files["docs/decisions/"+d.page] = "Why it is used.\n"
	}
	return files
}

// soundCore returns the files of the core that the rules name.
func soundCore() map[string]string {
	return map[string]string{
		"statemachine/role.go": "package statemachine\n\n" +
			"// Machine is a node.\ntype Machine struct{ role int }\n\n" +
			"func (m *Machine) become(role int) { m.role = role }\n",
		"statemachine/timing.go": "package statemachine\n\nimport \"time\"\n\n" +
			"type timing struct{ Interval time.Duration }\n\n" +
			"// Timeout is derived.\n" +
			"func (t timing) Timeout() time.Duration { return 2 * t.Interval }\n",
		"statemachine/use.go": "package statemachine\n\nimport \"time\"\n\n" +
			"func later(t timing, jitter time.Duration) time.Duration {\n" +
			"\treturn t.Interval + jitter - 2*time.Second\n}\n",
	}
}

func plantedFloors() []planted {
	return []planted{
		{"up", "floors", "above", "internal/store/x.go",
			"package store\n\nimport _ \"example.org/m/transport/memnet\"\n"},
		{"sideways", "floors", "beside", "internal/store/x.go",
			"package store\n\nimport _ \"example.org/m/internal/wire\"\n"},
		{"in a test", "floors", "above", "paxos/x_test.go",
			"package paxos\n\nimport _ \"example.org/m/internal/message\"\n"},
		{"a module of contrib from below", "floors", "above", "internal/store/x.go",
			"package store\n\nimport _ \"example.org/m/contrib/kv\"\n"},
		{"unknown package", "floors", "on no floor", "util/util.go",
			"// Package util is a drawer.\npackage util\n"},
		{"test kit", "floors", "for tests only", "transport/memnet/x.go",
			"package memnet\n\nimport _ \"example.org/m/test/transporttest\"\n"},
		{"unknown module", "dependencies", "no dependency of ours", "internal/store/x.go",
			"package store\n\nimport _ \"example.com/bolt\"\n"},
		{"module in the wrong package", "dependencies", "must not be imported", "internal/wire/x.go",
			"package wire\n\nimport _ \"github.com/rs/zerolog\"\n"},
		{"test module outside of tests", "dependencies", "must not be imported", "internal/store/x.go",
			"package store\n\nimport _ \"github.com/google/go-cmp/cmp\"\n"},
		{"testing outside of tests", "dependencies", "outside of its tests", "internal/store/x.go",
			"package store\n\nimport _ \"testing\"\n"},
	}
}

func plantedPurity() []planted {
	cases := []planted{
		{"ill-typed", "purity", "does not type-check", "paxos/x.go",
			"package paxos\n\nvar _ missing\n"},
		{"goroutine in wire", "purity", "start a goroutine", "internal/wire/x.go",
			"package wire\n\nfunc f() { go f() }\n"},
		{"clock in wire", "purity", "time.Now", "internal/wire/x.go",
			"package wire\n\nimport \"time\"\n\nfunc f() time.Time { return time.Now() }\n"},
	}
	// Each body is the body of a function in package statemachine.
	for _, c := range []struct{ name, want, imports, body string }{
		{"goroutine", "start a goroutine", "", "go f()"},
		{"channel type", "use a channel", "", "var c chan int; _ = c"},
		{"map", "range over a map", "", "for range map[int]int{} {\n\t}"},
		{"map type", "range over a map", "", "type m map[int]int\n\tfor range (m{}) {\n\t}"},
		{"keys in any order", "in the order of a map", "maps", "_ = maps.Keys(map[int]int{})"},
		{"entries of a map", "use maps.All", "maps", "_ = maps.All(map[int]int{})"},
		{"lock", "must not import sync", "sync", "var l sync.Mutex; l.Lock()"},
		{"clock", "use time.Now", "time", "_ = time.Now()"},
		{"timer", "use time.AfterFunc", "time", "time.AfterFunc(0, f)"},
		{"global randomness", "use math/rand/v2.IntN", "math/rand/v2", "_ = rand.IntN(2)"},
		{"files", "must not import os", "os", "_ = os.Args"},
		{"network", "use net.Dial", "net", "_, _ = net.Dial(\"\", \"\")"},
		{"output", "use fmt.Println", "fmt", "fmt.Println()"},
		{"logger", "must not import log", "log", "log.Println()"},
	} {
		text := "package statemachine\n\n"
		if c.imports != "" {
			text += "import \"" + c.imports + "\"\n\n"
		}
		text += "func f() {\n\t" + c.body + "\n}\n"
		cases = append(cases, planted{c.name, "purity", c.want, "statemachine/x.go", text})
	}
	return cases
}

func plantedCore() []planted {
	const header = "package statemachine\n\n"
	const want = "the role of a machine changes in statemachine/role.go only"
	cases := []planted{
		{"role", "core", want, "statemachine/x.go",
			header + "func (m *Machine) f() { m.role = 1 }\n"},
		{"role of a value", "core", want, "statemachine/x.go",
			header + "func f(n int) { var m Machine; n, m.role = 1, 1; _ = m }\n"},
		{"pointer to a role", "core", want, "statemachine/x.go",
			header + "func f(m *Machine) *int { return &m.role }\n"},
	}
	// Each body is the body of a function with timings t and a duration d.
	for _, c := range []struct{ name, body string }{
		{"product", "d = 2 * t.Interval"},
		{"quotient", "d = t.Interval / 4"},
		{"product of a variable", "d = 2 * d"},
		{"quotient in place", "d /= 2"},
		{"sum of timings", "d = t.Interval + t.Timeout()"},
		{"difference in place", "d -= t.Interval"},
	} {
		cases = append(cases, planted{c.name, "core",
			"a timing is derived in statemachine/timing.go only", "statemachine/x.go",
			header + "import \"time\"\n\nfunc f(t timing, d time.Duration) time.Duration {\n\t" +
				c.body + "\n\treturn d\n}\n"})
	}
	return cases
}

func plantedSizes() []planted {
	lines := func(n int) string { return strings.Repeat("//\n", n) }
	body := strings.Repeat("\t_ = 0\n", maxFuncLines-1)
	return []planted{
		{"file", "sizes", "501 lines", "internal/store/x.go", "package store\n" + lines(498)},
		{"test file", "sizes", "1001 lines", "internal/store/x_test.go",
			"package store\n" + lines(998)},
		{"function", "sizes", "f has 71 lines", "internal/store/x.go",
			"package store\n\nfunc f() {\n" + body + "}\n"},
		{"function literal", "sizes", "literal has 71 lines", "internal/store/x.go",
			"package store\n\nvar _ = func() {\n" + body + "}\n"},
		{"line", "sizes", "101 columns", "internal/store/x.go",
			"package store\n\n// " + strings.Repeat("é", 98) + "\n"},
	}
}

func plantedComments() []planted {
	const want = "needs a comment that starts with its name"
	return []planted{
		{"no license line", "documentation", "first line", "internal/store/x.go",
			"package store\n"},
		{"package", "documentation", "has no doc comment", "internal/store/store.go",
			"package store\n"},
		{"module of contrib", "documentation", "has no doc comment", "contrib/kv/kv.go", "package kv\n"},
		{"function", "documentation", want, "internal/store/x.go",
			"package store\n\nfunc F() {}\n"},
		{"wrong name", "documentation", want, "internal/store/x.go",
			"package store\n\n// Does it.\nfunc F() {}\n"},
		{"method", "documentation", want, "internal/store/x.go",
			"package store\n\n// T is a type.\ntype T[P any] struct{}\n\nfunc (*T[P]) F() {}\n"},
		{"type", "documentation", "T " + want, "internal/store/x.go",
			"package store\n\ntype T int\n"},
		{"constant", "documentation", "C " + want, "internal/store/x.go",
			"package store\n\nconst C = 1\n"},
		{"one of a group", "documentation", "D " + want, "internal/store/x.go",
			"package store\n\nconst (\n\t// C is one.\n\tC = 1\n\tD = 2\n)\n"},
		{"unfinished", "text", "finish it", "internal/store/x.go",
			"package store\n\n// TO" + "DO: all of it.\n"},
		{"path of a machine", "text", "a path of one machine", "docs/x.md",
			"Open `/ho" + "me/me/athena`.\n"},
	}
}

func plantedShape() []planted {
	return []planted{
		{"init", "shape", "no init functions", "internal/store/x.go",
			"package store\n\nfunc init() {}\n"},
		{"variable", "shape", "n is a package variable", "internal/store/x.go",
			"package store\n\nvar n int\n"},
		{"variable with a value", "shape", "n is a package variable", "internal/store/x.go",
			"package store\n\nvar n = f()\n\nfunc f() int { return 1 }\n"},
		{"sleep", "sleeps", "must not sleep", "internal/store/x_test.go",
			"package store\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"},
	}
}
