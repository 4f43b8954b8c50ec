// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is a temporary fault. The affected nodes are determined when it begins: Leader means the
// leader at that time.
type fault struct {
	Kind   string
	Leader bool          // the leader comes first in Order
	Order  []int         // all nodes, in the order in which they are affected or assigned to sides
	For    time.Duration // duration
	Arg    int           // by kind: a percentage, a number of nodes or the size of a side
}

func (f fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s for %v", f.Kind, f.For)
	if f.Arg != 0 {
		fmt.Fprintf(&b, " with %d", f.Arg)
	}
	if f.Leader {
		b.WriteString(", the leader first")
	}
	fmt.Fprintf(&b, ", order %v", f.Order)
	return b.String()
}

// step is a pause followed by simultaneous faults, all of which are healed before the next
// step.
type step struct {
	Pause  time.Duration
	Calm   bool // before the pause, wait until every node is active
	Faults []fault
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pause %v", s.Pause)
	if s.Calm {
		b.WriteString(", all active")
	}
	for _, f := range s.Faults {
		b.WriteString("; ")
		b.WriteString(f.String())
	}
	return b.String()
}

func (s step) totalLength() time.Duration {
	var longest time.Duration
	for _, f := range s.Faults {
		longest = max(longest, f.For)
	}
	if s.Calm {
		longest += calmEstimate
	}
	return s.Pause + longest
}

const (
	// calmEvery is the number of steps between two waits for all nodes to be active.
	calmEvery = 8
	// calmEstimate is about how much time a wait for all nodes adds to a plan.
	calmEstimate = 3 * time.Second
)

// weight determines how often a kind of fault is drawn, and how long it lasts. inflict.go
// implements the kinds.
type weight struct {
	kind     string
	weight   int
	min, max time.Duration
	leader   int // percentage of faults that affect the leader first
	minSize  int // minimum size of the cluster
}

const ms = time.Millisecond

// weights lists all kinds of faults except lostStore, which has its own steps.
var weights = []weight{
	{"kill", 10, 50 * ms, 4000 * ms, 60, 1},
	{"kill several", 4, 50 * ms, 3000 * ms, 50, 3},
	{"leave", 3, 50 * ms, 2000 * ms, 50, 3},
	{"stop", 10, 200 * ms, 3500 * ms, 60, 1},
	{"stop long", 1, 10500 * ms, 13000 * ms, 50, 1},
	{"stutter", 4, 1000 * ms, 4000 * ms, 60, 1},
	{"loss", 5, 2000 * ms, 6000 * ms, 0, 2},
	{"loss at one", 4, 1000 * ms, 5000 * ms, 60, 2},
	{"isolate", 7, 500 * ms, 4000 * ms, 60, 2},
	{"deaf", 4, 500 * ms, 4000 * ms, 50, 2},
	{"mute", 4, 500 * ms, 4000 * ms, 50, 2},
	{"cut link", 4, 500 * ms, 4000 * ms, 70, 3},
	{"cut one way", 4, 500 * ms, 4000 * ms, 60, 3},
	{"split", 7, 1000 * ms, 5000 * ms, 50, 3},
	{"shatter", 2, 1000 * ms, 3000 * ms, 0, 3},
	{"bridge", 3, 1000 * ms, 5000 * ms, 30, 3},
	{"ring", 2, 1000 * ms, 5000 * ms, 0, 5},
	{"hub", 3, 1000 * ms, 5000 * ms, 30, 3},
	{"flap", 4, 1500 * ms, 5000 * ms, 60, 2},
	{"full disk", 4, 1500 * ms, 4000 * ms, 50, 1},
	{frozenDisk, 4, 1500 * ms, 7000 * ms, 60, 1},
	{slowDisk, 4, 1500 * ms, 5000 * ms, 60, 1},
	{silentNames, 4, 2000 * ms, 12000 * ms, 0, 2},
	{"no files", 4, 1500 * ms, 4000 * ms, 50, 1},
	{"no memory", 2, 1500 * ms, 4000 * ms, 50, 1},
	{wrongSeed, 8, 1000 * ms, 5000 * ms, 60, minNodesOfTwo},
	{wrongSeedOther, 6, 1000 * ms, 4000 * ms, 40, minNodesOfTwo},
	{typo, 10, 4000 * ms, 8000 * ms, 50, 2},
	{typoOther, 5, 4000 * ms, 8000 * ms, 50, minNodesOfTwo},
	{intruder, 4, 1500 * ms, 5000 * ms, 0, 2},
	{intruderOther, 4, 1500 * ms, 5000 * ms, 0, minNodesOfTwo},
}

// needsMovement reports whether a fault has no effect until a node saves, dials or grows. Such a
// fault is combined with another one that changes leaders and members.
func needsMovement(kind string) bool {
	return slices.Contains([]string{
		"full disk", frozenDisk, slowDisk, silentNames, "no files", "no memory",
	}, kind)
}

// lostStore erases a store. A cluster that loses a majority of its stores is lost permanently. So
// the plan erases one store at a time, and only after all nodes were active.
const lostStore = "lost store"

// planner draws plans.
type planner struct {
	rand  *rand.Rand
	nodes int
	only  []string // the kinds of faults to draw; empty for all
}

// newPlan draws steps that take about the given time.
func newPlan(seed uint64, nodes int, length time.Duration, only []string) []step {
	p := planner{rand.New(rand.NewPCG(seed, 0)), nodes, only}
	var steps []step
	for sum := time.Duration(0); sum < length; sum += steps[len(steps)-1].totalLength() {
		steps = append(steps, p.drawStep(len(steps)))
	}
	return steps
}

// newSchedule returns the plan of -nemesis: the same faults again and again, one at a time. Each
// lasts for that time, and begins half of it after all nodes were active.
func newSchedule(o options) (steps []step) {
	p := planner{rand.New(rand.NewPCG(o.seed, 0)), o.nodes, o.only}
	turn := slices.DeleteFunc(listTurn(o.nodes), func(f fault) bool {
		return !p.mayDraw(weightOf(f.Kind))
	})
	for sum := time.Duration(0); len(turn) > 0 && sum < o.length; sum += o.nemesis * 3 / 2 {
		f := turn[len(steps)%len(turn)]
		f.For, f.Order = o.nemesis, p.rand.Perm(o.nodes)
		steps = append(steps, step{Pause: o.nemesis / 2, Calm: true, Faults: []fault{f}})
	}
	return steps
}

// listTurn returns the faults of a schedule in their order. test/chaos/README.md has their names in
// the tests of Jepsen.
func listTurn(nodes int) []fault {
	all := []fault{
		{Kind: "split", Arg: nodes / 2, Leader: nodes%2 == 1}, // the leader without a majority
		{Kind: "isolate"}, {Kind: "ring"}, {Kind: "bridge"},
	}
	for _, kind := range []string{"kill", "stop"} {
		for _, size := range []int{1, (nodes - 1) / 2, nodes/2 + 1, nodes} {
			all = append(all, fault{Kind: kind, Arg: size})
		}
		all = append(all, fault{Kind: kind, Arg: 1, Leader: true})
	}
	for _, kind := range []string{"full disk", frozenDisk, slowDisk} {
		all = append(all, fault{Kind: kind, Leader: true})
	}
	return append(all, fault{Kind: "loss", Arg: 20})
}

func (p *planner) drawStep(i int) step {
	s := step{Pause: p.drawBetween(100*ms, 1500*ms)}
	if len(p.only) > 0 {
		for range 1 + p.rand.IntN(3) {
			s.Faults = append(s.Faults, p.drawFault(p.drawWeight()))
		}
		return s
	}
	if i < len(firstKinds) && p.nodes >= minNodesOfTwo {
		s.Faults = []fault{p.drawKind(firstKinds[i])}
		s.Faults[0].Leader = true
		return s
	}
	if i == len(firstKinds) && p.nodes > 1 { // so that a short run has one
		s.Faults = p.drawBeside(p.drawKind(typo))
		return s
	}
	if i%calmEvery == calmEvery-1 {
		s.Calm = true
		if p.nodes >= 3 && p.rand.IntN(3) > 0 {
			w := weight{kind: lostStore, min: 50 * ms, max: 1500 * ms, leader: 50}
			s.Faults = []fault{p.drawFault(w)}
			if p.rand.IntN(3) == 0 {
				s.Faults = append(s.Faults, atSame(s.Faults[0], p.drawKind(typo)))
			}
			return s
		}
	}
	for range 1 + p.rand.IntN(3) {
		s.Faults = append(s.Faults, p.drawFault(p.drawWeight()))
	}
	if needsMovement(s.Faults[0].Kind) && len(s.Faults) == 1 {
		s.Faults = append(s.Faults, p.drawFault(weights[0]))
	}
	if isClaim(s.Faults[0].Kind) && len(s.Faults) == 1 {
		s.Faults = p.drawBeside(s.Faults[0])
	}
	return s
}

// companies are faults. One of them accompanies a process that claims an address.
var companies = []string{"kill", "stop", "isolate", "deaf", "mute"}

// drawBeside returns a fault with another one, which silences the same node first, for most of the
// time.
func (p *planner) drawBeside(f fault) []fault {
	company := atSame(f, p.drawKind(companies[p.rand.IntN(len(companies))]))
	company.For = f.For * 3 / 4
	return []fault{f, company}
}

// atSame returns a fault that affects the nodes in the same order as another one.
func atSame(as, f fault) fault {
	f.Order, f.Leader = as.Order, as.Leader
	return f
}

// drawKind draws a fault of a kind.
func (p *planner) drawKind(kind string) fault { return p.drawFault(weightOf(kind)) }

func weightOf(kind string) weight {
	return weights[slices.IndexFunc(weights, func(w weight) bool { return w.kind == kind })]
}

func (p *planner) drawWeight() weight {
	var sum int
	for _, w := range weights {
		if p.mayDraw(w) {
			sum += w.weight
		}
	}
	at := p.rand.IntN(sum)
	for _, w := range weights {
		if !p.mayDraw(w) {
			continue
		}
		if at -= w.weight; at < 0 {
			return w
		}
	}
	panic("chaos: no fault was drawn")
}

func (p *planner) mayDraw(w weight) bool {
	return p.nodes >= w.minSize && (len(p.only) == 0 || slices.Contains(p.only, w.kind))
}

func (p *planner) drawFault(w weight) fault {
	f := fault{
		Kind: w.kind, For: p.drawBetween(w.min, w.max), Order: p.rand.Perm(p.nodes),
		Leader: p.rand.IntN(100) < w.leader,
	}
	switch w.kind {
	case "kill several":
		f.Arg = 2 + p.rand.IntN(p.nodes-1)
	case "loss", "loss at one":
		f.Arg = 10 + p.rand.IntN(21)
	case "split":
		f.Arg = 1 + p.rand.IntN(p.nodes-1)
	case typo:
		f.Arg = 1 + p.rand.IntN(2)
	}
	return f
}

func (p *planner) drawBetween(from, to time.Duration) time.Duration {
	return (from + time.Duration(p.rand.Int64N(int64(to-from)))).Round(ms)
}
