// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawPlan returns a plan with random owners and, if fails is set, random failures.
func drawPlan(r *rand.Rand, fails bool) *shardPlan {
	count := 1 + r.IntN(40)
	p := &shardPlan{owners: make([]int, count), suspect: make([]bool, count)}
	for i := range 1 + r.IntN(6) {
		w := shardWorker{id: fmt.Sprint(i), failing: map[int]bool{}}
		for shard := range p.owners {
			if fails && r.IntN(4) == 0 {
				w.failing[shard], p.suspect[shard] = true, true
			}
		}
		w.load = len(w.failing)
		p.workers = append(p.workers, w)
	}
	for shard := range p.owners {
		w := r.IntN(len(p.workers)+2) - 2
		switch {
		case w == unknownWorker:
			p.owners[shard] = w
		case w == noWorker || p.workers[w].failing[shard]:
			p.owners[shard] = noWorker
			p.free++
		default:
			p.setOwner(shard, p.workers[w].id, 0)
		}
	}
	return p
}

// giveUp lets each worker give up its surplus, and returns how many shards the workers gave up.
func (p *shardPlan) giveUp() (moves int) {
	surplus := make([]int, len(p.workers))
	for w := range p.workers {
		surplus[w] = p.surplus(w)
	}
	for shard, w := range p.owners {
		if w >= 0 && surplus[w] > 0 && !p.suspect[shard] && p.hasTaker(shard, w) {
			surplus[w]--
			p.owners[shard] = noWorker
			p.workers[w].load--
			p.workers[w].healthy--
			p.free++
			moves++
		}
	}
	return moves
}

// take lets each worker take the shards that are allotted to it.
func (p *shardPlan) take() {
	for shard, w := range p.allotFree() { // also counts them
		p.owners[shard] = w
		p.free--
	}
}

// shareOut runs the plan until no shard moves, and returns the number of moves.
func (p *shardPlan) shareOut(t *testing.T) (moves int) {
	t.Helper()
	p.take()
	for range 100 {
		n := p.giveUp()
		p.take()
		if moves += n; n == 0 {
			return moves
		}
	}
	t.Fatalf("shards still move after 100 rounds: %+v", p)
	return 0
}

// leastMoves returns how many shards the workers must give up to share total shards fairly. counts
// contains the current number of shards of each worker.
func leastMoves(counts []int, total int) (moves int) {
	slices.Sort(counts)
	slices.Reverse(counts)
	for i, n := range counts {
		share := total / len(counts)
		if i < total%len(counts) {
			share++
		}
		moves += max(0, n-share)
	}
	return moves
}

// TestShardPlans checks that the shards of random plans stop moving. If no work fails, each shard
// then has a worker, and no shard has moved needlessly. The numbers of shards of two workers differ
// by 1 at most.
func TestShardPlans(t *testing.T) {
	for seed := range uint64(3000) {
		fails := seed%2 == 0
		p := drawPlan(rand.New(rand.NewPCG(seed, 1)), fails)
		var before, after []int
		total := p.free
		for _, w := range p.workers {
			before, total = append(before, w.load), total+w.load
		}
		moves := p.shareOut(t)
		for _, w := range p.workers {
			after = append(after, w.load)
		}
		if fails {
			continue
		}
		if p.free > 0 || slices.Max(after)-slices.Min(after) > 1 {
			t.Fatalf("seed %d: %v shards of the workers, and %d free", seed, after, p.free)
		}
		if least := leastMoves(before, total); moves != least {
			t.Fatalf("seed %d: %d moves from %v to %v, want %d", seed, moves, before, after, least)
		}
	}
}
