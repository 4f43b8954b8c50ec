// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"strings"
)

// pair is the link from one process to another.
type pair struct{ from, to int }

// packPair encodes a pair as one number for the Args of a Fault.
func (p pair) packPair() int64 { return int64(p.from*MaxProcesses + p.to) }

func unpackPair(n int64) pair {
	return pair{int(n) / MaxProcesses, int(n) % MaxProcesses}
}

// pairNames formats pairs.
type pairNames []pair

func (l pairNames) String() string {
	all := make([]string, len(l))
	for i, p := range l {
		all[i] = nameOf(p.from) + " to " + nameOf(p.to)
	}
	return strings.Join(all, ", ")
}

// inRange reports whether the ends are two different processes below n.
func (p pair) inRange(n int) bool {
	return p.from != p.to && min(p.from, p.to) >= 0 && max(p.from, p.to) < n
}

// unlinkedPairs lists the pairs that a topology does not link. The given order is a permutation of
// the processes. The arguments of linked are positions in it.
func unlinkedPairs(order []int, linked func(a, b int) bool) []pair {
	var pairs []pair
	for a := range order {
		for b := range order {
			if a != b && !linked(a, b) {
				pairs = append(pairs, pair{order[a], order[b]})
			}
		}
	}
	return pairs
}

// cutSides separates the processes before a position in the given order from the others.
func cutSides(order []int, at int) []pair {
	return unlinkedPairs(order, func(a, b int) bool { return (a < at) == (b < at) })
}

// cutBridge separates two sides that are connected only through the first process.
func cutBridge(order []int, at int) []pair {
	return unlinkedPairs(order, func(a, b int) bool {
		return a == 0 || b == 0 ||
			(a <= at) == (b <= at)
	})
}

// cutRing connects each process to exactly a majority of all processes. Each process has a
// different majority.
func cutRing(order []int, size int) []pair {
	n, reach := len(order), (size/2+1)/2
	return unlinkedPairs(order, func(a, b int) bool {
		d := (a - b + n) % n
		return min(d, n-d) <= reach
	})
}

// cutHub connects the first process to all others, which have no other connections.
func cutHub(order []int) []pair {
	return unlinkedPairs(order, func(a, b int) bool { return a == 0 || b == 0 })
}

// oneWay makes a cut one-way. It keeps only the pairs from the processes before a position in the
// given order, or only the pairs to these processes.
func oneWay(r *rand.Rand, pairs []pair, order []int, at int) []pair {
	first := make(map[int]bool)
	for _, i := range order[:at] {
		first[i] = true
	}
	out := r.IntN(2) == 0
	kept := pairs[:0]
	for _, p := range pairs {
		if first[p.from] == out {
			kept = append(kept, p)
		}
	}
	return kept
}
