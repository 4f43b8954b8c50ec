// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/member"
)

// shardPlan decides which worker takes or gives up which shard. All workers compute the same plan
// from the same records. A worker acts only on its own part, and only if the records still allow
// it. So if workers see different records, the worst result is additional moves.
//
// A free shard is allotted by the loads of the workers. The load of a worker is the number of its
// shards, including the shards that it cannot take now, because their work has failed or is stuck.
// If these did not count, the worker would get healthy shards in their place.
//
// A worker gives up shards by the numbers of healthy shards, which may differ by 1. A shard whose
// work fails passes from worker to worker. If it counted, healthy shards would move because of it.
type shardPlan struct {
	workers []shardWorker   // in an order that depends on the set
	index   map[string]int  // of workers, by id; nil before the first search
	records []member.Record // of each shard; zero without one
	owners  []int           // for each shard, the index of its worker, or noWorker or unknownWorker
	free    int             // shards without an owner
	suspect []bool          // for each shard, whether it does not count as healthy
}

const (
	noWorker      = -1 // no record: the shard is free
	unknownWorker = -2 // the owner is leaving, or holds the shard as a lock
)

// shardWorker is a worker that may own shards.
type shardWorker struct {
	id      string
	session uint64
	hash    [sha256.Size]byte
	failing map[int]bool // shards that the worker cannot take now
	load    int
	healthy int // its shards that are not suspect
}

// readPlan returns the plan for the records of a set, which are sorted by key. A shard is suspect
// if a worker cannot take it now.
func (s *Shards) readPlan(records []member.Record) *shardPlan {
	p := &shardPlan{
		owners: make([]int, len(s.keys)), suspect: make([]bool, len(s.keys)),
		records: make([]member.Record, len(s.keys)),
	}
	for _, r := range records {
		id, ok := strings.CutPrefix(r.Key, s.prefix+"worker/")
		if !ok || r.Revoked {
			continue
		}
		disabled := holding.IsDisabled(records, s.prefix, id)
		if count, failing, _ := parseWorker(r.Value); !disabled && count == len(s.keys) {
			p.workers = append(p.workers, shardWorker{
				id: id, session: r.Session, hash: sha256.Sum256([]byte(s.prefix + id)), failing: failing,
				load: len(failing),
			})
			for shard := range failing {
				p.suspect[shard] = true
			}
		}
	}
	slices.SortFunc(p.workers, func(a, b shardWorker) int {
		return bytes.Compare(a.hash[:], b.hash[:])
	})
	for i, key := range s.keys {
		r, taken := holding.Find(records, key)
		p.records[i] = r
		if !taken {
			p.owners[i] = noWorker
			p.free++
			continue
		}
		p.setOwner(i, string(r.Value), r.Session)
	}
	return p
}

// setOwner sets the owner of a shard that is not yet part of a load.
func (p *shardPlan) setOwner(shard int, id string, session uint64) {
	w := p.indexOf(id, session)
	p.owners[shard] = w
	if w >= 0 && !p.workers[w].failing[shard] {
		p.workers[w].load++
	}
	if w >= 0 && !p.suspect[shard] {
		p.workers[w].healthy++
	}
}

// suspectShard makes a shard count as not healthy.
func (p *shardPlan) suspectShard(shard int) {
	if w := p.owners[shard]; w >= 0 && !p.suspect[shard] {
		p.workers[w].healthy--
	}
	p.suspect[shard] = true
}

// indexOf returns the index of a worker, or unknownWorker.
func (p *shardPlan) indexOf(id string, session uint64) int {
	if p.index == nil {
		p.index = make(map[string]int, len(p.workers))
		for i, w := range p.workers {
			p.index[w.id] = i
		}
	}
	w, ok := p.index[id]
	if !ok || p.workers[w].session != session {
		return unknownWorker
	}
	return w
}

// compareHashes orders members differently for each prefix.
func compareHashes(prefix, a, b string) int {
	x, y := sha256.Sum256([]byte(prefix+a)), sha256.Sum256([]byte(prefix+b))
	return bytes.Compare(x[:], y[:])
}

// allotFree allots each free shard to the worker with the smallest load, and counts the shard for
// that worker. It returns the worker of each allotted shard.
func (p *shardPlan) allotFree() map[int]int {
	to := map[int]int{}
	for shard, owner := range p.owners {
		if owner != noWorker {
			continue
		}
		least := noWorker
		for i, w := range p.workers {
			if !w.failing[shard] && (least < 0 || w.load < p.workers[least].load) {
				least = i
			}
		}
		if least >= 0 {
			to[shard] = least
			p.workers[least].load++
			if !p.suspect[shard] {
				p.workers[least].healthy++
			}
		}
	}
	return to
}

// surplus returns how many healthy shards a worker must give up. With k healthy shards for n
// workers, k mod n workers may keep k / n + 1 of them. Only workers with more than k / n are
// chosen, the last workers first.
func (p *shardPlan) surplus(worker int) int {
	total := 0
	for shard, owner := range p.owners {
		if owner != unknownWorker && !p.suspect[shard] {
			total++
		}
	}
	share, rest := total/len(p.workers), total%len(p.workers)
	more := 0 // workers after this one with more than the share
	for _, w := range p.workers[worker+1:] {
		if w.healthy > share {
			more++
		}
	}
	if more < rest {
		share++
	}
	return max(0, p.workers[worker].healthy-share)
}

// hasTaker reports whether another worker could take the shard, and would still have a smaller load
// than the given worker has healthy shards now.
func (p *shardPlan) hasTaker(shard, worker int) bool {
	return slices.ContainsFunc(p.workers, func(w shardWorker) bool {
		return !w.failing[shard] && w.load+1 < p.workers[worker].healthy
	})
}

// stuckMark precedes the number of a stuck shard in the value of a worker's record. Releases that
// do not know the mark ignore the number.
const stuckMark = "!"

// formatWorker returns the value of a worker's record: the number of shards, then the shards that
// the worker cannot take now, and those of them that are stuck a second time with stuckMark. If
// the value would be too long, it omits the last shards. They stay free until this worker takes
// them again.
func formatWorker(count int, failing []int, stuck map[int]bool) []byte {
	value := strconv.AppendInt(nil, int64(count), 10)
	for _, shard := range failing {
		if len(value) > member.MaxValueBytes-16 {
			break
		}
		value = strconv.AppendInt(append(value, ' '), int64(shard), 10)
		if stuck[shard] {
			value = strconv.AppendInt(append(value, " "+stuckMark...), int64(shard), 10)
		}
	}
	return value
}

// parseWorker parses the value of a worker's record. It returns the names of the stuck shards as
// locks.
func parseWorker(value []byte) (count int, failing map[int]bool, stuck []string) {
	failing = map[int]bool{}
	for i, field := range strings.Fields(string(value)) {
		name, isStuck := strings.CutPrefix(field, stuckMark)
		n, err := strconv.Atoi(name)
		switch {
		case err != nil: // another version of Athena wrote the value
		case i == 0:
			count = n
		case isStuck:
			stuck = append(stuck, name)
		case 0 <= n && n < count:
			failing[n] = true
		}
	}
	return count, failing, stuck
}
