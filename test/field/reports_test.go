// SPDX-License-Identifier: Apache-2.0

// Package field tests Athena in the circumstances of public bug reports on other projects. The file
// reports.tsv has a row for each report: its project and number, the circumstances in our words,
// what Athena does, and the name of a test, or the reason why there is no test. Most of these tests
// are in other packages. The rows were matched to tests by the comments of the tests. The file
// found.tsv has the faults of Athena to which the reports led, and limits.tsv those that remain.
package field

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// columns are those of reports.tsv.
const columns = "kind\treport\tcircumstances\tAthena\ttest\tif there is no test"

// page is docs/field.md, which is written from reports.tsv, found.tsv and limits.tsv.
const page = "../../docs/field.md"

var write = flag.Bool("write", false, "write docs/field.md")

// reportName matches the name of a report. Those with an owner can be linked.
var reportName = regexp.MustCompile(`^((?:[\w.-]+/)?[\w.-]+)#(\d+)`)

// report is a row of reports.tsv.
type report struct {
	kind, name, circumstances, athena, test, why string
}

// readReports returns the rows of reports.tsv.
func readReports(t *testing.T) []report {
	t.Helper()
	var all []report
	for _, row := range readTable(t, "reports.tsv", columns) {
		all = append(all, report{row[0], row[1], row[2], row[3], row[4], row[5]})
	}
	return all
}

// readTable returns the rows of a file below the line with the names of its columns.
func readTable(t *testing.T, file, columns string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != columns {
		t.Fatalf("%s begins with %q, want %q", file, lines[0], columns)
	}
	for _, line := range lines[1:] {
		row := strings.Split(line, "\t")
		if len(row) != strings.Count(columns, "\t")+1 {
			t.Fatalf("%s: %q has %d columns", file, line, len(row))
		}
		rows = append(rows, row)
	}
	return rows
}

// TestReports checks that each report is listed once, and that the test which tries it exists.
func TestReports(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range readReports(t) {
		switch {
		case !reportName.MatchString(r.name):
			t.Errorf("%q names no report", r.name)
		case seen[r.name]:
			t.Errorf("%s is listed twice", r.name)
		case r.test == "-" && r.why == "":
			t.Errorf("%s: there is no test and no reason", r.name)
		case r.test != "-" && findTest(t, r.test) == "":
			t.Errorf("%s: there is no test %s", r.name, r.test)
		}
		seen[r.name] = true
	}
}

// findTest returns the file of a test with a name such as transport/quicnet.TestClose, or "".
func findTest(t *testing.T, name string) string {
	t.Helper()
	folder, function, _ := strings.Cut(name, ".Test")
	files, err := filepath.Glob(filepath.Join("../..", folder, "*.go")) // a suite is no _test.go
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func Test"+function+"(") {
			return filepath.ToSlash(strings.TrimPrefix(file, "../../"))
		}
	}
	return ""
}

// kinds are the sections of the page, in its order.
var kinds = []string{
	"two leaders", "leadership", "locks", "shards", "disk", "restores", "restarts", "addresses",
	"certificates", "network", "membership", "messages", "upgrades", "commands", "operations",
}

// TestPage checks that docs/field.md shows reports.tsv, found.tsv and limits.tsv.
func TestPage(t *testing.T) {
	all := readReports(t)
	tried := 0
	for _, r := range all {
		if r.test != "-" {
			tried++
		}
		if !slices.Contains(kinds, r.kind) {
			t.Errorf("%s is of an unknown kind %q", r.name, r.kind)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, intro, len(all), tried)
	for _, kind := range kinds {
		fmt.Fprintf(&b, "\n## %s%s\n\n", strings.ToUpper(kind[:1]), kind[1:])
		b.WriteString("| Circumstances | Athena | Test | Reports |\n|:--|:--|:--|:--|\n")
		isOther := func(r report) bool { return r.kind != kind }
		writeKind(t, &b, slices.DeleteFunc(slices.Clone(all), isOther))
	}
	writeFound(t, &b)
	writeLimits(t, &b)
	if *write {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != b.String() {
		t.Errorf("%v: docs/field.md does not show the tables: run the command in its first lines", err)
	}
}

// intro is the beginning of the page.
const intro = `# Reports of the field

Which faults did others have, and what does Athena do in the same circumstances? This page lists %d
public reports on other projects: the circumstances in our words, what Athena does, and the test
that tries it. %d of them have a test; for the others the reason is given. Where Athena has the
same fault or a limit, the page shows it. Most tests are older than the list and were matched to a
report by their circumstances. At the end stand the faults of Athena that were [found and
mended](#what-was-found-and-mended), and the [limits](#limits-that-remain) that remain. The page is
written from [reports.tsv](../test/field/reports.tsv), [found.tsv](../test/field/found.tsv) and
[limits.tsv](../test/field/limits.tsv) by
` + "`go test ./test/field -run TestPage -write`.\n"

// writeKind writes the rows of one kind. Reports with the same circumstances and test share a row.
func writeKind(t *testing.T, b *strings.Builder, rows []report) {
	t.Helper()
	isSame := func(x, y report) bool {
		x.name, y.name = "", ""
		return x == y
	}
	for len(rows) > 0 {
		r := rows[0]
		var names []string
		for len(rows) > 0 && isSame(r, rows[0]) {
			names = append(names, linkReport(rows[0].name))
			rows = rows[1:]
		}
		test := r.why
		if r.test != "-" {
			test = fmt.Sprintf("[%s](../%s)", r.test, findTest(t, r.test))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n",
			r.circumstances, r.athena, test, strings.Join(names, ", "))
	}
}

// linkReport returns a link to a report whose owner is known, or its name.
func linkReport(name string) string {
	m := reportName.FindStringSubmatch(name)
	if m == nil || !strings.Contains(m[1], "/") {
		return name
	}
	return fmt.Sprintf("[%s](https://github.com/%s/issues/%s)", name, m[1], m[2])
}
