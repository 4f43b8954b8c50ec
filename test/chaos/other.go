// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// This file is about the second cluster of a run. It has the same secret, default name and size as
// the first cluster, and shares its bridge. The only faults there are restarts of a follower, so
// its leader must keep the same token.

// otherDir is the folder of the second cluster's evidence, inside the folder of the run.
const otherDir = "other"

const (
	// wrongSeed restarts a node with a seed of the second cluster in its list.
	wrongSeed = "wrong seed"
	// wrongSeedOther restarts a node of the second cluster with a seed of the first.
	wrongSeedOther = "wrong seed 2"
	// minNodesOfTwo is the minimum size of the clusters if there are two: the second cluster must
	// still have a majority without one of its nodes.
	minNodesOfTwo = 3
)

// firstKinds are the faults of the first steps, which have one fault each. In the first steps the
// leaders of both clusters have the same version. So a wrong seed does the most harm: a claim of
// one cluster looks like proof that the other has two leaders. The step restarts the leader of the
// first cluster, because a node without a leader queries every seed. These steps have no other
// fault, so all nodes must become active even before the wrong seed is removed.
var firstKinds = [...]string{wrongSeedOther, wrongSeed}

// countClusters returns the number of clusters of a run.
func (o options) countClusters() int {
	if o.isFlood() || o.witness || o.nodes < minNodesOfTwo {
		return 1
	}
	return 2
}

// startOther starts the second cluster. All its seats are taken, because otherwise a node of the
// first cluster with a lost store and a wrong seed could join it.
func startOther(o options, w *world, secret []byte) (*processes, error) {
	o.out, o.athena = filepath.Join(o.out, otherDir), ""
	if o.history != "" {
		o.history = filepath.Join(o.history, otherDir)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	return startAll(o, w, o.nodes, secret)
}

// giveWrongSeed restarts a node of the first cluster with a wrong seed.
func (r *runner) giveWrongSeed(f fault, order []int) []action {
	mortals := r.killableNodes(order)
	if len(mortals) == 0 {
		return nil
	}
	return r.restartWith(r.ps, "", mortals[0], r.other.seeds[order[1]], f)
}

// giveOtherWrongSeed always restarts the same follower of the second cluster, so that two
// simultaneous faults leave it a majority.
func (r *runner) giveOtherWrongSeed(f fault, order []int) []action {
	leader := r.other.findLeader()
	if leader < 0 {
		return nil
	}
	node := (leader + 1) % r.o.nodes
	return r.restartWith(r.other, "other ", node, r.ps.seeds[order[0]], f)
}

// restartWith restarts a node with a wrong seed, and later with the right seeds.
func (r *runner) restartWith(
	ps *processes, prefix string, node int, wrong string, f fault,
) []action {
	restart := func() error {
		if ps == r.other && ps.findLeader() == node {
			// This follower was elected in the meantime, because the machine stalled.
			r.writeJournal("%s%s leads now, so it is not restarted", prefix, nodeName(node))
			return nil
		}
		r.restarts++
		r.writeJournal("restart %s%s with seeds %v", prefix, nodeName(node), ps.seedsOf(node))
		if err := ps.killNode(node); err != nil {
			return err
		}
		return ps.startNode(node)
	}
	return []action{
		{at: 0, do: func() error { ps.wrongSeeds[node] = wrong; return restart() }},
		{at: f.For, do: func() error { delete(ps.wrongSeeds, node); return restart() }},
	}
}

// compareOther adds the findings of the second cluster and checks I11: the two clusters never show
// states of the same cluster.
func (f *findings) compareOther(other *findings) {
	f.other = other
	for _, text := range other.faults {
		f.noteFault("other cluster", "%s", text)
	}
	f.more += other.more
	for _, text := range other.lacks {
		f.noteLack(true, "other cluster: "+text)
	}
	f.checkSteady()
	f.checkRefused()
	for _, cause := range slices.Sorted(maps.Keys(other.ends)) {
		f.noteFault("other cluster", "a node stopped by itself: %s", cause)
	}
	a, b := f.seats.cluster, other.seats.cluster
	f.noteLack(a == "" || b == "", "no node showed its cluster id")
	if a != "" && a == b {
		f.noteFault("I11", "both clusters show states of cluster %s", a)
	}
}

// A leader may lose its authority up to stallReach after a stall, because a follower asks for votes
// while the lease is still running.
const stallReach = 2 * time.Second

// checkSteady checks that the second cluster keeps one leader. It excuses a change if one of the
// processes stalled at about that time, because then the machine is to blame.
func (f *findings) checkSteady() {
	holds := slices.Clone(f.other.holds)
	slices.SortStableFunc(holds, func(a, b hold) int { return cmp.Compare(a.token, b.token) })
	for i := 1; i < len(holds); i++ {
		last, next := holds[i-1], holds[i]
		stalled := slices.ContainsFunc(f.other.stalls, func(e evidence) bool {
			return e.End > last.latest()-int64(stallReach) && e.Begin < next.earliestEnd()
		})
		switch {
		case last.token == next.token:
		case stalled:
			f.excused++
		default:
			f.noteFault("other cluster",
				"token %d of %s followed token %d of %s, although no node had stalled",
				next.token, f.nameOf(next.owner), last.token, f.nameOf(last.owner))
		}
	}
}

// printOther prints what was checked in the second cluster.
func (f *findings) printOther(w io.Writer) {
	if f.other == nil {
		return
	}
	fmt.Fprintf(w, "other cluster: %d tokens, %d leader changes excused by a stall; "+
		"%d writes accepted, %d events arrived, %d states\n", len(f.other.tokens), f.excused,
		f.other.writes[accepted], f.other.events.events, len(f.other.seats.states))
	f.other.claims.printClaims(w, "other cluster: ")
}
