// SPDX-License-Identifier: Apache-2.0

// Package field tests Athena in the circumstances of public bug reports on other projects. The file
// reports.tsv has a row for each report: its project and number, the circumstances in our words,
// what Athena does, and the name of a test, or the reason why there is no test. Most of these tests
// are in other packages. The rows were matched to tests by the comments of the tests.
package field

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// columns are those of reports.tsv.
const columns = "kind\treport\tcircumstances\tAthena\ttest\tif there is no test"

// reportName matches the name of a report.
var reportName = regexp.MustCompile(`^[\w./ -]+#\d+`)

// TestReports checks that each report is listed once, and that the test which tries it exists.
func TestReports(t *testing.T) {
	text, err := os.ReadFile("reports.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != columns {
		t.Fatalf("reports.tsv begins with %q, want %q", lines[0], columns)
	}
	seen := map[string]bool{}
	for _, line := range lines[1:] {
		row := strings.Split(line, "\t")
		if len(row) != strings.Count(columns, "\t")+1 {
			t.Errorf("%q has %d columns", line, len(row))
			continue
		}
		report, name, why := row[1], row[4], row[5]
		switch {
		case !reportName.MatchString(report):
			t.Errorf("%q names no report", report)
		case seen[report]:
			t.Errorf("%s is listed twice", report)
		case name == "-" && why == "":
			t.Errorf("%s: there is no test and no reason", report)
		case name != "-" && !hasTest(t, name):
			t.Errorf("%s: there is no test %s", report, name)
		}
		seen[report] = true
	}
}

// hasTest reports whether a test with a name such as transport/quicnet.TestClose exists.
func hasTest(t *testing.T, name string) bool {
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
			return true
		}
	}
	return false
}
