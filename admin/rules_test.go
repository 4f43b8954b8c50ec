// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	metricUse = regexp.MustCompile(`\b(athena_[a-z_]+)(\{[^}]*\})?`)
	matcher   = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|group_left)\s*\(([^)]*)\)`)
	inLegend  = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// added lists the labels that every metric has, and those that Prometheus adds.
var added = []string{"cluster", "instance", "job", "le"}

// recorded is the series that alerts.yaml records, and up is what Prometheus adds. Both have only
// labels of added.
var recorded = regexp.MustCompile(`\bcluster:athena_leaderless:rate1m\b`)

// unknownIn returns the metrics and labels that expr and legend use but no node exports.
func unknownIn(all map[string]*exported, expr, legend string) []string {
	var faults []string
	known := map[string]bool{}
	for _, l := range added {
		known[l] = true
	}
	expr = recorded.ReplaceAllString(expr, "up")
	for _, m := range metricUse.FindAllStringSubmatch(expr, -1) {
		e := all[familyOf(all, m[1])]
		if e == nil {
			faults = append(faults, m[1])
			continue
		}
		for l := range e.labels {
			known[l] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !e.labels[l[1]] && !slices.Contains(added, l[1]) {
				faults = append(faults, m[1]+"{"+l[1]+"}")
			}
		}
	}
	var used []string
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		used = append(used, strings.Fields(strings.ReplaceAll(g[1], ",", " "))...)
	}
	for _, l := range inLegend.FindAllStringSubmatch(legend, -1) {
		used = append(used, l[1])
	}
	for _, l := range used {
		if !known[l] {
			faults = append(faults, "label "+l)
		}
	}
	return faults
}

// ofARun returns all metrics of a node, including the metrics that need a certificate.
func ofARun(t *testing.T) map[string]*exported {
	t.Helper()
	all := running(t)
	for _, name := range quiet {
		all[name] = &exported{labels: map[string]bool{"name": true}} // of jobs, locks
	}
	return all
}

// TestRulesUseWhatIsExported checks that alerts use only exported or recorded metrics.
func TestRulesUseWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := ofARun(t)
	rules := regexp.MustCompile(`- (?:alert|record):`).Split(string(text), -1)[1:]
	for _, want := range []string{
		"NoQuorum", "FlappingLeader", "CertificateExpiring", "TwoLeaders",
		"MissingMember", "NoMetrics", "SlowSync", "Insecure", "ErrorBudget", "JobWithoutLeader",
		"LockWaiting", "RecordsFull",
	} {
		if !strings.Contains(string(text), "- alert: Athena"+want+"\n") {
			t.Errorf("no rule Athena%s", want)
		}
	}
	for _, rule := range rules {
		_, expr, _ := strings.Cut(rule, "expr:")
		expr, rest, _ := strings.Cut(expr, "labels:")
		_, notes, _ := strings.Cut(rest, "annotations:")
		if faults := unknownIn(all, expr, notes); len(faults) > 0 {
			t.Errorf("%s: no node exports %q", strings.TrimSpace(rule), faults)
		}
	}
}

// TestBoardUsesWhatIsExported checks that the dashboard uses only exported metrics, and has a panel
// for each of them.
func TestBoardUsesWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("../deploy/grafana/athena.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	all := ofARun(t)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			if faults := unknownIn(all, target.Expr, target.LegendFormat); len(faults) > 0 {
				t.Errorf("%s: no node exports %q, in %s", p.Title, faults, target.Expr)
			}
		}
	}
	for name := range all {
		if name != "athena_has_leader" && !strings.Contains(string(text), name) {
			t.Errorf("%s has no panel", name)
		}
	}
}

// TestUnknownNamesAreFound tests unknownIn.
func TestUnknownNamesAreFound(t *testing.T) {
	all := ofARun(t)
	for _, c := range []struct {
		expr, legend string
		want         []string
	}{
		{`max by (cluster) (athena_has_quorum{cluster="a"})`, "", nil},
		{`rate(athena_store_sync_seconds_bucket[5m])`, "{{instance}}", nil},
		{`athena_has_quorums`, "", []string{"athena_has_quorums"}},
		{`athena_members{state="active"}`, "", []string{"athena_members{state}"}},
		{`sum by (reason) (athena_votes_total)`, "", []string{"label reason"}},
		{`athena_votes_total`, "{{ rule }}", []string{"label rule"}},
	} {
		if got := unknownIn(all, c.expr, c.legend); !slices.Equal(got, c.want) {
			t.Errorf("%s, %q: got %q, want %q", c.expr, c.legend, got, c.want)
		}
	}
}

// TestPromtool checks the rules with promtool, and runs their tests.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: make tools")
	}
	calls := [][]string{
		{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"},
	}
	if testing.Short() {
		t.Log("budget_test.yaml is skipped: it takes a minute (make full)")
	} else {
		calls = append(calls, []string{"test", "rules", "budget_test.yaml"})
	}
	for _, args := range calls {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
