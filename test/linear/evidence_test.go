// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/athena-go/athena/internal/workload"
)

var evidence = flag.String("evidence", "", "directory of the evidence of a run of test/chaos")

// TestEvidence judges the histories that real processes recorded.
func TestEvidence(t *testing.T) {
	if *evidence == "" {
		t.Skip("run with -evidence DIR: it judges a run of make chaos")
	}
	var total counts
	for _, cluster := range []string{".", "other"} {
		files, err := filepath.Glob(filepath.Join(*evidence, cluster, "n*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var lines []workload.Operation
		for _, file := range files {
			lines = append(lines, readEvidence(t, file)...)
		}
		total.judgeAll(t, filepath.Join(*evidence, cluster), lines)
	}
	total.logCounts(t)
	if total.histories == 0 {
		t.Errorf("%s has no operations", *evidence)
	}
}

// readEvidence returns the lines of operations in a file. It skips a line that a killed process did
// not finish.
func readEvidence(t *testing.T, file string) (ops []workload.Operation) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Kind string
			Op   workload.Operation
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Kind == "op" {
			ops = append(ops, e.Op)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return ops
}
