// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGuardsAreDrawn checks that about half of the runs of each node have guards, and none in other
// commands.
func TestGuardsAreDrawn(t *testing.T) {
	for node := range 3 {
		guarded := 0
		for start := range 200 {
			ps := &processes{o: options{guards: true, seed: 7}, starts: []int{start, start, start}}
			if ps.isGuarded(node) {
				guarded++
			}
			if ps.o.guards = false; ps.isGuarded(node) {
				t.Errorf("node %d, start %d: has a guard", node, start)
			}
		}
		if guarded < 60 || guarded > 140 {
			t.Errorf("node %d: %d of 200 runs have guards", node, guarded)
		}
	}
}

// TestPlan checks that a plan is a function of its seed, that it draws every kind of fault that the
// size allows, and that five minutes contain the required number of faults.
func TestPlan(t *testing.T) {
	for nodes := 1; nodes <= maxNodes; nodes++ {
		drawn := map[string]int{}
		for seed := range uint64(40) {
			plan := newPlan(seed, nodes, 5*time.Minute, nil)
			if again := newPlan(seed, nodes, 5*time.Minute, nil); fmt.Sprint(plan) != fmt.Sprint(again) {
				t.Fatalf("seed %d with %d nodes: two different plans", seed, nodes)
			}
			var faults int
			for _, s := range plan {
				faults += len(s.Faults)
				for _, f := range s.Faults {
					drawn[f.Kind]++
					checkFault(t, f, nodes)
				}
				if s.Faults[0].Kind == lostStore && (!s.Calm ||
					slices.ContainsFunc(s.Faults[1:], func(f fault) bool { return f.Kind != typo })) {
					t.Errorf("%v loses a store, want it after a calm, alone or with a typo", s)
				}
				if isClaim(s.Faults[0].Kind) && len(s.Faults) == 1 {
					t.Errorf("%v has only a claim of an address, want another fault too", s)
				}
			}
			if third := plan[len(firstKinds)].Faults; nodes > 1 && third[0].Kind != typo {
				t.Errorf("seed %d with %d nodes: step %d is %v, want a typo", seed, nodes,
					len(firstKinds), plan[len(firstKinds)])
			}
			for i, kind := range firstKinds {
				if first := plan[i].Faults; nodes >= minNodesOfTwo &&
					(len(first) != 1 || first[0].Kind != kind || !first[0].Leader) {
					t.Errorf("seed %d with %d nodes: step %d is %v, want %q alone, at the leader",
						seed, nodes, i, plan[i], kind)
				}
			}
			if nodes == 5 && faults < 80 {
				t.Errorf("seed %d: %d faults in five minutes, want at least 80", seed, faults)
			}
		}
		for _, w := range weights {
			if (drawn[w.kind] > 0) != (nodes >= w.minSize) {
				t.Errorf("%d nodes: %q drawn %d times, want it from %d nodes on",
					nodes, w.kind, drawn[w.kind], w.minSize)
			}
		}
	}
}

func TestOnlyKinds(t *testing.T) {
	o, err := parseFlags("run", []string{"-only", "kill,kill several,ring"})
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	for _, s := range newPlan(7, 3, time.Hour, o.only) {
		for _, f := range s.Faults {
			checkFault(t, f, 3)
			drawn[f.Kind]++
		}
	}
	if len(drawn) != 2 || drawn["kill"] == 0 || drawn["kill several"] == 0 { // a ring needs more
		t.Errorf("drawn: %v, want only kills", drawn)
	}
	args := []string{"-only", "ring", "-n", "3"}
	if _, err := parseFlags("run", args); err == nil || !strings.Contains(err.Error(), "3 nodes") {
		t.Errorf("%q: got %v, want that 3 nodes are too few", args, err)
	}
	if err := o.readKinds("kil"); err == nil || !strings.Contains(err.Error(), "known are: kill,") {
		t.Errorf("got %v, want the known kinds", err)
	}
}

// TestSchedule checks the faults of a schedule, and that each run of a node has other clocks.
func TestSchedule(t *testing.T) {
	const disks = "full disk*, frozen disk*, slow disk*, loss 20"
	for nodes, want := range map[int]string{
		3: "split 1*, isolate, bridge, kill 1, kill 1, kill 2, kill 3, kill 1*, " +
			"stop 1, stop 1, stop 2, stop 3, stop 1*, " + disks,
		5: "split 2*, isolate, ring, bridge, kill 1, kill 2, kill 3, kill 5, kill 1*, " +
			"stop 1, stop 2, stop 3, stop 5, stop 1*, " + disks,
	} {
		args := []string{"-nemesis", "10s", "-for", "10m", "-n", fmt.Sprint(nodes)}
		o, err := parseFlags("run", args)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range newSchedule(o) {
			f := s.Faults[0]
			checkFault(t, f, nodes)
			text := f.Kind
			if f.Arg > 0 {
				text += fmt.Sprint(" ", f.Arg)
			}
			if f.Leader {
				text += "*"
			}
			if got = append(got, text); !s.Calm || s.Pause != 5*time.Second ||
				len(s.Faults) != 1 || f.For != 10*time.Second {
				t.Errorf("%d nodes: %v, want a calm, 5 s, and one fault for 10 s", nodes, s)
			}
		}
		turns := strings.Repeat(want+", ", 3)
		if all := strings.Join(got, ", "); !strings.HasPrefix(turns, all) || len(got) != 40 {
			t.Errorf("%d nodes: got %d faults\n%s\nwant 40 of\n%s", nodes, len(got), all, turns)
		}
		ps := &processes{o: o, starts: []int{1}}
		first := ps.clockOf(0)
		if ps.starts[0] = 2; canShiftClocks() && (first == 0 || ps.clockOf(0) == first) {
			t.Errorf("clocks of two runs: %d s ahead, then %d s", first, ps.clockOf(0))
		}
		if _, err := parseFlags("run", append(args, "-only", "flap")); err == nil {
			t.Error("no fault of a schedule is permitted: got no error")
		}
	}
}

// TestShiftedClock checks that a child with another clock reads the time of the others.
func TestShiftedClock(t *testing.T) {
	mustBeAble(t)
	if !canShiftClocks() {
		t.Skip("no time namespaces")
	}
	const ahead = 1_000_000
	before := readMonotonic()
	task := place{Clock: ahead, Program: thisProgram, Role: roleClock}
	p, out, err := launchProcess(roleEnter, task, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var got, offset int64
	_, err = fmt.Fscan(out, &got, &offset)
	p.followOutput(out)
	if now := readMonotonic(); err != nil || got < before || got > now || offset/1e9 != ahead {
		t.Errorf("got %d and an offset of %d ns, %v, want %d to %d and %d s", got, offset, err,
			before, now, ahead)
	}
}

func checkFault(t *testing.T, f fault, nodes int) {
	t.Helper()
	order := slices.Sorted(slices.Values(f.Order))
	for i := range nodes {
		if len(order) != nodes || order[i] != i {
			t.Fatalf("%v: the order is not one of %d nodes", f, nodes)
		}
	}
	if f.For <= 0 || f.Kind == "split" && (f.Arg < 1 || f.Arg >= nodes) {
		t.Errorf("%v with %d nodes: want a duration and two sides", f, nodes)
	}
}

// TestShapes checks which of five nodes receive packets from each other in each shape: a row is a
// sender, a column a receiver.
func TestShapes(t *testing.T) {
	for kind, want := range map[string]string{
		"isolate":     "..... ..||| .|.|| .||.| .|||.",
		"flap":        "..... ..||| .|.|| .||.| .|||.",
		"deaf":        ".|||| ..||| .|.|| .||.| .|||.",
		"mute":        "..... |.||| ||.|| |||.| ||||.",
		"cut link":    "..||| ..||| ||.|| |||.| ||||.",
		"cut one way": "..||| |.||| ||.|| |||.| ||||.",
		"split":       ".|... |.... ...|| ..|.| ..||.",
		"shatter":     ".|... |.... ...|. ..|.. .....",
		"bridge":      ".|||| |.|.. ||... |...| |..|.",
		"ring":        ".|..| |.|.. .|.|. ..|.| |..|.",
		"hub":         ".|||| |.... |.... |.... |....",
	} {
		rows := make([]string, 5)
		rules := cutRules([]int{0, 1, 2, 3, 4}, shapes[kind](5, 2))
		for from := range rows {
			for to := range 5 {
				cell := "|"
				if from == to || slices.Contains(rules, rule{from, to, 100}) {
					cell = "."
				}
				rows[from] += cell
			}
		}
		if got := strings.Join(rows, " "); got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
	for kind := range shapes {
		if !slices.ContainsFunc(weights, func(w weight) bool { return w.kind == kind }) {
			t.Errorf("%q is never drawn", kind)
		}
	}
}

func TestRuleset(t *testing.T) {
	rules := append(cutRules([]int{2, 0}, shapes["deaf"](2, 0)), lossRules([]int{1, 0, 2}, 30,
		true)...)
	got := formatRules(rules)
	for _, want := range []string{
		"table bridge chaos\ndelete table bridge chaos\ntable bridge chaos {\n",
		`iifname "p1" oifname "p3" drop` + "\n",
		`iifname "p2" oifname "p1" numgen random mod 100 < 30 drop` + "\n",
		`iifname "p3" oifname "p2" numgen random mod 100 < 30 drop` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if n := strings.Count(got, " drop"); n != 5 {
		t.Errorf("%d rules, want 5:\n%s", n, got)
	}
}

// TestSlopes checks that growth is found for each process after it has settled, and that temporary
// use is ignored.
func TestSlopes(t *testing.T) {
	sample := func(run int, from, to time.Duration, of func(hours float64) float64) (all []usage) {
		for at := from; at <= to; at += time.Minute {
			u := usage{at: at, run: run, goroutines: 50, files: 13, bytes: of(at.Hours())}
			if len(all)%3 == 0 {
				u.goroutines += at.Hours() * 50 // used by recently lost connections
			}
			if at > to-window {
				u.files = 14
			}
			all = append(all, u)
		}
		return all
	}
	flat := func(float64) float64 { return 1000 }
	samples := slices.Concat(
		sample(1, 0, 20*time.Minute, flat), // too short
		sample(2, 20*time.Minute, 2*time.Hour, flat),
		sample(3, 2*time.Hour, 5*time.Hour, func(h float64) float64 {
			if h < 2+1.0/6 {
				return 1 // settling
			}
			return 1000 * (1 + (h-2)/5)
		}),
	)
	all := findSlopes("n1", samples)
	if len(all) != 6 {
		t.Fatalf("%d slopes, want 3 of each of 2 processes: %v", len(all), all)
	}
	for _, i := range []int{0, 2, 3} {
		if math.Abs(all[i].perHour) > 1e-9 {
			t.Errorf("slope %d: %+v, want none", i, all[i])
		}
	}
	if got, want := all[5].perHour*all[5].mean, 200.0; math.Abs(got-want) > 1e-6 {
		t.Errorf("bytes: %+v, %f an hour, want %f", all[5], got, want)
	}
	err := printSlopes(t.Output(), all)
	if err == nil || strings.Count(err.Error(), "n1") != 1 || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("leaks %v, want one of bytes", err)
	}
	if err := printSlopes(t.Output(), findSlopes("n1", samples[:10])); err != nil {
		t.Errorf("leaks of a short run: %v, want none", err)
	}
}
