// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/athena-go/athena/test/workload"
)

var (
	evidence = flag.String("evidence", "", "directory of the evidence of a run of test/chaos")
	swarm    = flag.String("swarm", "", "directory with histories of test/swarm")
)

// TestEvidence judges the histories that real processes recorded.
func TestEvidence(t *testing.T) {
	if *evidence == "" {
		t.Skip("run with -evidence DIR: it judges a run of make chaos")
	}
	var total counts
	for _, cluster := range []string{".", "other"} {
		var lines []workload.Operation
		for _, name := range findFiles(t, *evidence, cluster, "n*.jsonl") {
			type line struct {
				Kind string
				Op   workload.Operation
			}
			all, _ := readLines[line](t, name)
			for _, l := range all {
				if l.Kind == "op" {
					lines = append(lines, l.Op)
				}
			}
		}
		total.judgeAll(t, filepath.Join(*evidence, cluster), lines)
	}
	total.logCounts(t)
	if total.histories == 0 {
		t.Errorf("%s has no operations", *evidence)
	}
}

// TestSwarmHistories judges the histories that test/swarm has written with -histories.
func TestSwarmHistories(t *testing.T) {
	if *swarm == "" {
		t.Skip("run with -swarm DIR, after go test ./test/swarm -runs 100 -histories DIR")
	}
	names := findFiles(t, *swarm, "*.json")
	if len(names) == 0 {
		t.Fatalf("no histories in %s", *swarm)
	}
	var total counts
	for _, name := range names {
		lines, invalid := readLines[workload.Operation](t, name)
		if invalid > 0 {
			t.Errorf("%s: %d lines are invalid", name, invalid)
		}
		total.judgeAll(t, filepath.Base(name), lines)
	}
	total.logCounts(t)
}

func findFiles(t *testing.T, pattern ...string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// readLines decodes the lines of a file, and counts the invalid lines that killed processes left.
func readLines[T any](t *testing.T, name string) (lines []T, invalid int) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.Lines(content) {
		var line T
		if json.Unmarshal(text, &line) == nil {
			lines = append(lines, line)
		} else {
			invalid++
		}
	}
	return lines, invalid
}
