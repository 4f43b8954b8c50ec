// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"os"
	"regexp"
	"testing"
	"time"
)

var phaseNames = map[string]phase{
	"sampling": sampling, "following": following, "campaigning": campaigning, "holding": holding,
	"leading": leading,
}

// TestDiagramLowestStates compares docs/plantuml/LOWEST_STATES.puml with what members do
// under faults.
func TestDiagramLowestStates(t *testing.T) {
	text, err := os.ReadFile("../../docs/plantuml/LOWEST_STATES.puml")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[[2]phase]bool{}
	arrow := regexp.MustCompile(`(?m)^(\S+) --> (\S+) : .+$`)
	for _, m := range arrow.FindAllStringSubmatch(string(text), -1) {
		drawn[[2]phase{phaseNames[m[1]], phaseNames[m[2]]}] = true
	}
	seen := map[[2]phase]bool{{0, sampling}: true}
	for seed := range uint64(100) {
		w := newWorld(t, 2+int(seed%9), seed, 0.1)
		w.moved = seen
		w.startAll()
		for range 10 {
			w.fallApart()
			w.runThrough()
		}
	}
	lone := newWorld(t, 1, 1, 0) // without a successor
	lone.moved = seen
	lone.startAll()
	lone.wantOneOf([]int{0}, firstLeader)
	lone.nodes[0].Yield(lone.now, 1)
	lone.flush(0)
	lone.run(time.Hour)
	for move := range drawn {
		if !seen[move] {
			t.Errorf("from %d to %d is drawn but never happened", move[0], move[1])
		}
	}
	for move := range seen {
		if !drawn[move] {
			t.Errorf("from %d to %d is not drawn", move[0], move[1])
		}
	}
}
