// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/athena-go/athena/internal/workload"
)

var swarm = flag.String("swarm", "", "directory with histories of test/swarm")

// TestSwarmHistories judges the histories that test/swarm has written with -histories.
func TestSwarmHistories(t *testing.T) {
	if *swarm == "" {
		t.Skip("run with -swarm DIR, after go test ./test/swarm -runs 100 -histories DIR")
	}
	files, err := filepath.Glob(filepath.Join(*swarm, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories in %s: %v", *swarm, err)
	}
	var total counts
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var lines []workload.Operation
		d := json.NewDecoder(f)
		for {
			var o workload.Operation
			if err = d.Decode(&o); err != nil {
				break
			}
			lines = append(lines, o)
		}
		if !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		total.judgeAll(t, filepath.Base(name), lines)
	}
	total.logCounts(t)
}
