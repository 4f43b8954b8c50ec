// SPDX-License-Identifier: Apache-2.0

package field

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// foundColumns are those of found.tsv. Its rows are in the order of the page.
const foundColumns = "group\tkind of fault\tfound by\tbefore\tnow\talso found in\theld by\t" +
	"mended in"

// limitColumns are those of limits.tsv.
const limitColumns = "limit\treports\ttest\tstated in"

// commits matches the short names of the commits that mended a fault.
var commits = regexp.MustCompile(`^[0-9a-f]{8}(, [0-9a-f]{8})*$`)

// TestFound checks that the reports, tests and mutants of found.tsv and limits.tsv exist.
func TestFound(t *testing.T) {
	for _, row := range readTable(t, "found.tsv", foundColumns) {
		fault, by, held, mended := row[1], row[2], row[6], row[7]
		if by != "the simulator" && by != "beside the reports" {
			checkReports(t, fault, by)
		}
		checkHolders(t, fault, held)
		if !commits.MatchString(mended) {
			t.Errorf("%s: %q names no commits", fault, mended)
		}
		if slices.Contains(row[:5], "") {
			t.Errorf("%s: a column is empty", fault)
		}
	}
	for _, row := range readTable(t, "limits.tsv", limitColumns) {
		if row[1] != "-" {
			checkReports(t, row[0], row[1])
		}
		if row[2] != "-" {
			checkHolders(t, row[0], row[2])
		}
	}
}

// checkReports checks that reports.tsv has each of the reports in a list.
func checkReports(t *testing.T, row, list string) {
	t.Helper()
	all := readReports(t)
	for name := range strings.SplitSeq(list, ", ") {
		name = strings.TrimPrefix(name, "beside ")
		if !slices.ContainsFunc(all, func(r report) bool { return r.name == name }) {
			t.Errorf("%s: reports.tsv has no %q", row, name)
		}
	}
}

// checkHolders checks that each of the tests and mutants in a list exists.
func checkHolders(t *testing.T, row, list string) {
	t.Helper()
	for name := range strings.SplitSeq(list, ", ") {
		if findHolder(t, name) == "" {
			t.Errorf("%s: there is no test or mutant %q", row, name)
		}
	}
}

// findHolder returns the file of a test, or of a name such as mutant address-trusted, or "".
func findHolder(t *testing.T, name string) string {
	t.Helper()
	mutant, ok := strings.CutPrefix(name, "mutant ")
	if !ok {
		return findTest(t, name)
	}
	files, err := filepath.Glob("../mutants/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`\bName: +"` + regexp.QuoteMeta(mutant) + `"`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if declared.Match(text) {
			return "test/mutants/" + filepath.Base(file)
		}
	}
	return ""
}

// foundIntro is the beginning of the section about the faults of Athena.
const foundIntro = `
## What was found and mended

Athena had these faults when the reports were tried, at commit fd733c43 or later. A report led to
each, or it was found beside a report (its circumstances were varied), beside the reports as a
whole (by use, attacks or reading), or by the simulator. The fifth column has the other places
where the kind was found; - means that none is recorded. The last columns have the tests and
[planted bugs](../test/mutants/README.md) that hold it, and the commits.

| Kind of fault | Found by | Athena then | Athena now | Also found in | Held by | Mended in |
|:--|:--|:--|:--|:--|:--|:--|
`

// writeFound writes the section about the faults of Athena that were mended.
func writeFound(t *testing.T, b *strings.Builder) {
	t.Helper()
	b.WriteString(foundIntro)
	group := ""
	for _, row := range readTable(t, "found.tsv", foundColumns) {
		if row[0] != group {
			group = row[0]
			fmt.Fprintf(b, "| **%s%s** | | | | | | |\n", strings.ToUpper(group[:1]), group[1:])
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", row[1], linkReports(row[2]),
			row[3], row[4], row[5], linkHolders(t, row[6]), row[7])
	}
}

// limitsIntro is the beginning of the section about the limits of Athena.
const limitsIntro = `
## Limits that remain

Here Athena has the fault of a report, or a limit in its circumstances.

| Limit | Reports | Test | Stated in |
|:--|:--|:--|:--|
`

// writeLimits writes the section about the limits that remain.
func writeLimits(t *testing.T, b *strings.Builder) {
	t.Helper()
	b.WriteString(limitsIntro)
	for _, row := range readTable(t, "limits.tsv", limitColumns) {
		stated := row[3]
		if file, _, _ := strings.Cut(stated, "#"); file != "-" {
			stated = fmt.Sprintf("[%s](%s)", file, stated)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", row[0], linkReports(row[1]),
			linkHolders(t, row[2]), stated)
	}
}

// linkReports returns a list of reports with their links.
func linkReports(list string) string {
	names := strings.Split(list, ", ")
	for i, name := range names {
		if other, ok := strings.CutPrefix(name, "beside "); ok {
			names[i] = "beside " + linkReport(other)
		} else {
			names[i] = linkReport(name)
		}
	}
	return strings.Join(names, ", ")
}

// linkHolders returns a list of tests and mutants with links to their files.
func linkHolders(t *testing.T, list string) string {
	t.Helper()
	if list == "-" {
		return list
	}
	names := strings.Split(list, ", ")
	for i, name := range names {
		names[i] = fmt.Sprintf("[%s](../%s)", name, findHolder(t, name))
	}
	return strings.Join(names, ", ")
}
