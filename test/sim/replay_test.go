// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReplayRepeatsARun checks that a recorded run can be repeated after it was formatted and
// parsed.
func TestReplayRepeatsARun(t *testing.T) {
	for seed := range depth(40) {
		want := Run(Options{Seed: seed})
		captured, r := Capture(Options{Seed: seed})
		if captured.Hash != want.Hash {
			t.Errorf("seed %d: another run when it is recorded", seed)
		}
		content, err := r.Format()
		if err != nil {
			t.Fatal(err)
		}
		read, err := ParseReplay(content)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := Reproduce(read, nil)
		if got.Hash != want.Hash || got.Steps != want.Steps {
			t.Errorf("seed %d: %d steps with hash %x, replayed %d with %x",
				seed, want.Steps, want.Hash, got.Steps, got.Hash)
		}
	}
}

func TestParseReplayRefusesNonsense(t *testing.T) {
	_, r := Capture(Options{Seed: 3, Size: 3, For: 10 * time.Second})
	r.Faults = []Fault{{At: 1, Class: Crashes, Lasts: 1}}
	r.Fates = []Fate{{Link: 1, Nth: 1, Lost: true}}
	content, err := r.Format()
	if err != nil {
		t.Fatal(err)
	}
	good := string(content)
	if _, err := ParseReplay(content); err != nil {
		t.Fatalf("%v:\n%s", err, good)
	}
	for _, c := range []struct{ old, next, want string }{
		{"", "", "not a replay"},
		{`"athena-sim": 1`, `"athena-sim": 2`, "format 2"},
		{`"Size":3`, `"Size":0`, "members"},
		{`"Seeds":[`, `"Seeds":[77,`, "seeds"},
		{`"Starts":[`, `"Starts":[1,`, "start"},
		{`"note"`, `"remark"`, "unknown field"},
		{"[1,12,0,1]", "[1,77,0,1]", "invalid fault"},
		{"[1,12,0,1]", "[1,1,0,1]", "cannot be scheduled"},
		{"[1,1,-1]", "[1]", "invalid fate"},
		{`"invariant": ""`, `"invariant": "I77"`, `unknown invariant "I77": want one of I1, I10,`},
		{"\n}\n", "\n}\n{}", "data after the last }"},
		{"\n}\n", "\n}\nand so on", "data after the last }"},
	} {
		bad := strings.Replace(good, c.old, c.next, 1)
		if c.old == "" {
			bad = ""
		}
		if _, err := ParseReplay([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want an error about %q", c.next, c.old, err, c.want)
		}
	}
}

// TestShrinkKeepsWhatIsNeeded checks that shrinking keeps only the two faults and the lost
// message that the failure needs.
func TestShrinkKeepsWhatIsNeeded(t *testing.T) {
	_, r := Capture(Options{Seed: 12, Size: 5})
	r.Invariant = "I0"
	need := func(r Replay) (string, time.Duration) {
		crashes := 0
		for _, f := range r.Faults {
			within := f.At <= int64(r.Plan.For)
			if f.Class == Crashes && f.Lasts >= int64(time.Second) && within {
				crashes++
			}
		}
		lost := slices.ContainsFunc(r.Fates, func(f Fate) bool { return f.Lost })
		if crashes < 2 || !lost || r.Plan.For < time.Second {
			return "", 0
		}
		return "I0", r.Plan.For
	}
	r.Faults = append(r.Faults, Fault{At: 1, Class: Crashes, Lasts: int64(time.Minute)},
		Fault{At: 2, Class: Crashes, Lasts: int64(time.Minute)})
	r.Fates = append(r.Fates, Fate{Link: 1, Nth: 1, Lost: true})
	s := &shrinker{best: r, end: time.Now().Add(time.Minute), breaks: need}
	s.shrinkRun()
	if len(s.best.Faults) != 2 || len(s.best.Fates) != 1 || s.best.Plan.Setup.Skew ||
		s.best.Faults[0].Lasts >= int64(2*time.Second) {
		t.Errorf("kept %+v and %+v of %d faults and %d fates",
			s.best.Faults, s.best.Fates, len(r.Faults), len(r.Fates))
	}
}

// TestReplayOfOddTimes checks that odd times in a file never make a run endless or very long. Such
// times must be refused or have no effect.
func TestReplayOfOddTimes(t *testing.T) {
	_, r := Capture(Options{Seed: 3, Size: 3, For: 10 * time.Second})
	for name, change := range map[string]func(*Replay){
		"timers before their time": func(r *Replay) { r.Plan.Setup.Lag = -1 },
		"timers that never come":   func(r *Replay) { r.Plan.Setup.Lag = MaxFor + 1 },
		"a network of days":        func(r *Replay) { r.Plan.Setup.Link.Delay = MaxFor },
		"rounds of days":           func(r *Replay) { r.Plan.Setup.Timings.RetryInterval = MaxFor },
		"messages from tomorrow":   func(r *Replay) { r.Plan.Setup.Link.Delay = -time.Hour },
		"a start before the start": func(r *Replay) { r.Plan.Starts[0] = -1 },
		"a fault without end": func(r *Replay) {
			r.Faults = []Fault{{Class: OtherSize, Lasts: 1 << 62}}
		},
		"far less than nothing": func(r *Replay) {
			r.Faults = []Fault{{Class: Cuts, Args: []int64{-1 << 62}}}
		},
	} {
		odd := r
		odd.Plan.Starts = slices.Clone(r.Plan.Starts)
		change(&odd)
		content, err := odd.Format()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseReplay(content); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r.Fates, r.Faults = nil, []Fault{
		{At: 1, Class: Flapping, Lasts: int64(time.Minute), Args: []int64{1, 1}}, // each nanosecond
		{At: 1, Class: Cuts, Lasts: 1, Args: []int64{-5}},                        // no such process
	}
	result := Reproduce(r, nil)
	if result.Happened[Flapping.bitIndex()]+result.Happened[Cuts.bitIndex()] > 0 {
		t.Errorf("a link flapped each nanosecond, or an unknown link was cut: %v", result)
	}
}

// TestInvariantsAreKnown checks that a replay file may name exactly the invariants that the
// checkers report.
func TestInvariantsAreKnown(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`(?:check|k|j)\.(?:noteViolation|noteBroken|noteFailure)\(\s*"(\w+)"`)
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllSubmatch(content, -1) {
			found[string(m[1])] = true
		}
	}
	got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(slices.Values(invariants[:]))
	if !slices.Equal(got, want) {
		t.Errorf("the checkers report %q, a file may name %q", got, want)
	}
}

// TestRegress repeats every run that once failed, either with an older core or with a
// planted bug.
func TestRegress(t *testing.T) {
	files, err := filepath.Glob("testdata/regress/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ParseReplay(content)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if result := Reproduce(r, nil); result.Violation != nil {
			t.Errorf("%s (%s): %v", file, r.Note, result.Violation)
		}
	}
}
