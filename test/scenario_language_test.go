// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// These tests check the texts of the scenarios.

// firstLine is the form of the first line, which describes the purpose of a scenario.
var firstLine = regexp.MustCompile(
	`^# Shows protocol\.md section [0-9]+(, [0-9]+)*(; fault [0-9]+)*: .+`)

func TestScenariosSayWhatTheyShow(t *testing.T) {
	t.Parallel()
	for _, name := range scenarioFiles(t) {
		if line, _, _ := strings.Cut(scenarioText(t, name), "\n"); !firstLine.MatchString(line) {
			t.Errorf("%s begins with %q, want \"# Shows protocol.md section 6; fault 2: what it is\"",
				name, line)
		}
	}
}

func scenarioText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scenarioFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A wrongStory must fail with an error that contains every part of want.
type wrongStory struct {
	name, text string
	want       []string
}

// pair is the beginning of a story with two nodes.
const pair = "cluster of 2, seeds n1 n2\nstart n1 n2\nwait until n2 leads with authority\n"

// wrongLines are stories with a line that matches no form.
func wrongLines() []wrongStory {
	return []wrongStory{
		{"no verb", "cluster of 3, seeds n1\nbegin n1", []string{
			`a.txt:2: "begin n1" is not a line of a scenario: test/scenarios.md lists all`,
		}},
		{"nothing happens", "# Shows protocol.md section 6: nothing\n\n", []string{
			"a.txt: nothing happens: want lines below the comments, the first: cluster of NUMBER",
		}},
		{"no such status", pair + "expect n1 shows n2 asleep", []string{
			`a.txt:4: "n1 shows n2 asleep" is not a condition: test/scenarios.md lists all`,
		}},
		{"no unit", pair + "within 5: all are active", []string{`a.txt:4: "within 5: all`}},
	}
}

// wrongStories have valid lines, but cannot be played or do not hold.
func wrongStories() []wrongStory {
	return []wrongStory{
		{"no such process", pair + "crash n3", []string{
			"a.txt:4: crash n3: n3: the cluster has 2 processes",
		}},
		{"no such process in a condition", pair + "expect n3 is down", []string{
			"a.txt:4: expect n3 is down: n3:",
		}},
		{"a seed that is no member", "cluster of 3, seeds n1 n5", []string{
			"a.txt:1: ", "want 1 to 20 members",
		}},
		{"no cluster", "start n1", []string{"a.txt:1: start n1: no cluster"}},
		{"set up too late", pair + "spare n3", []string{"a.txt:4: spare n3: this belongs before"}},
		{"spare with a gap", "cluster of 3, seeds n1\nspare n5", []string{
			"a.txt:2: spare n5: the last one must be n4",
		}},
		{"cut from itself", pair + "cut n1 from n1 n2", []string{"a.txt:4: ", "n1 stands on both sides"}},
		{"expectation", pair + "expect n1 leads with authority", []string{
			"a.txt:4: expect n1 leads with authority: it does not hold\n",
			" n02  gains authority: n02, version 1\n", " ---- here\n", "\tn01#1 follower of n02",
		}},
		{"expected not", pair + "expect not: n2 leads version 1", []string{
			"a.txt:4: ", "it does not hold",
		}},
		{"time", pair + "crash n1 n2\nwithin 2 seconds: all are active", []string{
			"a.txt:5: within 2 seconds: all are active: it did not happen within 2s\n", " n02  crashed ",
		}},
		{"never", pair + "never: n2 is down\ncrash n2\nrun for 1 second", []string{
			`a.txt:6: run for 1 second: line 4 is "never: n2 is down", but it happened at `,
			" n02  crashed ",
		}},
		{"never, from the start", pair + "never: n2 leads version 1", []string{
			"a.txt:4: never: n2 leads",
		}},
		{"connections without a dial", "active greet of n1 arrives", []string{"n1 and n2 must dial"}},
		{"no such greet", "n1 and n2 dial each other\npassive greet of n1 arrives", []string{
			"a.txt:2: ", "no such greet is on its way",
		}},
		{"in one course", "for each WHO of n1 | n2\n" + pair + "expect WHO leads version 1", []string{
			"a.txt:5: expect n1 leads version 1: it does not hold",
		}},
	}
}

// TestScenarioFailures checks that the error of each wrong story names the line and a remedy.
func TestScenarioFailures(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat(wrongLines(), wrongStories()) {
		t.Run(test.name, func(t *testing.T) {
			var got string
			tales, err := readScenario("a.txt", test.text)
			if err != nil {
				got = err.Error()
			}
			for _, tale := range tales {
				if err := playInBubble(t, tale, 1); err != nil {
					got += err.Error()
				}
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("played:\n%s\ngot the error: %s\nwant one with %q", test.text, got, want)
				}
			}
		})
	}
}

// TestScenarioWordsAreDocumented checks that test/scenarios.md has every form of a line and of
// a condition, and no others.
func TestScenarioWordsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(page, -1) {
		documented = append(documented, string(m[1]))
	}
	forms := slices.Concat(verbForms(), conditionForms(), []string{"for each NAME of A | B"})
	for _, form := range forms {
		if !slices.Contains(documented, form) {
			t.Errorf("test/scenarios.md has no row for `%s`", form)
		}
	}
	for _, form := range documented {
		if !slices.Contains(forms, form) {
			t.Errorf("test/scenarios.md has a row for `%s`, which is not a form of a scenario", form)
		}
	}
}

// TestScenarioPlacesAreDocumented checks that test/scenarios.md has a paragraph for each place that
// accepts many words. The paragraph must begin with the name of the place and list the words.
func TestScenarioPlacesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"KIND", "REASON", "DECISION"} {
		paragraph := regexp.MustCompile(`(?ms)^` + place + `: (.+?)\.$`).FindSubmatch(page)
		if paragraph == nil {
			t.Errorf("test/scenarios.md has no paragraph that begins with %s:", place)
			continue
		}
		listed := strings.Split(strings.Join(strings.Fields(string(paragraph[1])), " "), ", ")
		if !slices.Equal(listed, placeWords()[place]) {
			t.Errorf("test/scenarios.md lists as %s\n\t%s\nwant\n\t%s", place,
				strings.Join(listed, ", "), strings.Join(placeWords()[place], ", "))
		}
	}
}

// TestScenarioOfThePage plays the scenario at the beginning of test/scenarios.md.
func TestScenarioOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), "\n```\n")
	if len(parts) != 3 || !firstLine.MatchString(parts[1]) {
		t.Fatalf("%d blocks in test/scenarios.md, want one that begins like a scenario", len(parts)/2)
	}
	tales, err := readScenario("page", parts[1])
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(scenarioSeeds) {
		if err := playInBubble(t, tales[0], seed+1); err != nil {
			t.Errorf("with seed %d: %v", seed+1, err)
		}
	}
}

// TestScenarioWordsAreUsed checks that at least one story uses each form. Delete a form that no
// story needs.
func TestScenarioWordsAreUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, name := range scenarioFiles(t) {
		tales, err := readScenario(name, scenarioText(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, tale := range tales {
			for _, s := range tale.steps {
				used[s.verb.form], used[s.condition] = true, true
			}
		}
	}
	for _, form := range slices.Concat(verbForms(), conditionForms()) {
		if !used[form] {
			t.Errorf("no story has a line like: %s", form)
		}
	}
}

var (
	storyRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\|(?:[^|]+\\|)? (`[a-z0-9-]+`[^|]*) \\|$")
	showing  = regexp.MustCompile(`fault ([0-9]+)`)
)

// TestScenarioTables checks that the tables of test/scenarios.md name every story and no others,
// and that a story about a fault is in the row of that fault.
func TestScenarioTables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(page), "\n## Stories\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	listed := map[string][]string{} // the faults in whose rows a story is named
	for _, row := range storyRow.FindAllStringSubmatch(tables, -1) {
		for name := range strings.SplitSeq(row[2], ", ") {
			name = strings.Trim(name, "`") + ".txt"
			listed[name] = append(listed[name], row[1])
		}
	}
	for _, name := range scenarioFiles(t) {
		if listed[name] == nil {
			t.Errorf("no row of test/scenarios.md names %s", name)
		}
		first, _, _ := strings.Cut(scenarioText(t, name), ":")
		for _, m := range showing.FindAllStringSubmatch(first, -1) {
			if !slices.Contains(listed[name], m[1]) {
				t.Errorf("%s shows fault %s, but is not in its row", name, m[1])
			}
			listed[name] = slices.DeleteFunc(listed[name], func(s string) bool { return s == m[1] })
		}
		for _, row := range listed[name] {
			if !strings.ContainsFunc(row, unicode.IsLetter) {
				t.Errorf("%s is in the row of fault %s, but does not name that fault", name, row)
			}
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("test/scenarios.md names %s, which is not a story", name)
	}
}
