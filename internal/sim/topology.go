// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"strings"
)

// pair is one direction between two processes.
type pair struct{ from, to int }

// packPair is a pair as one small number of a Fault.
func (p pair) packPair() int64 { return int64(p.from*MaxProcesses + p.to) }

func unpackPair(n int64) pair {
	return pair{int(n) / MaxProcesses, int(n) % MaxProcesses}
}

// links are pairs to print.
type links []pair

func (l links) String() string {
	all := make([]string, len(l))
	for i, p := range l {
		all[i] = nameOf(p.from) + " to " + nameOf(p.to)
	}
	return strings.Join(all, ", ")
}

// inRange reports whether both ends are among n processes.
func (p pair) inRange(n int) bool {
	return p.from != p.to && min(p.from, p.to) >= 0 && max(p.from, p.to) < n
}

// unlinkedPairs lists the pairs of the processes in order, a permutation, that a
// shape does not link. The shape gets positions in that order.
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

// cutSides cuts the first at processes off from the others.
func cutSides(order []int, at int) []pair {
	return unlinkedPairs(order, func(a, b int) bool { return (a < at) == (b < at) })
}

// cutBridge makes two sides that only the first process sees both of.
func cutBridge(order []int, at int) []pair {
	return unlinkedPairs(order, func(a, b int) bool {
		return a == 0 || b == 0 ||
			(a <= at) == (b <= at)
	})
}

// cutRing lets each process see just a majority of size, and each another one.
func cutRing(order []int, size int) []pair {
	n, reach := len(order), (size/2+1)/2
	return unlinkedPairs(order, func(a, b int) bool {
		d := (a - b + n) % n
		return min(d, n-d) <= reach
	})
}

// cutHub lets only the first process see the others.
func cutHub(order []int) []pair {
	return unlinkedPairs(order, func(a, b int) bool { return a == 0 || b == 0 })
}

// oneWay keeps the pairs that lead from the first at processes of order, or to
// them: the others go on to be heard.
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
