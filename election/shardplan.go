// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/member"
)

// shardPlan decides which worker takes or gives up which shard. All workers compute the same plan
// from the same records. A worker acts only on its own part, and only if the records still allow
// it. So if workers see different records, the worst result is additional moves.
//
// The load of a worker is the number of its shards, including the shards that it has given up after
// failed work. If failed shards did not count, the worker would get healthy shards in their place.
// The loads of two workers may differ by 1.
type shardPlan struct {
	workers []shardWorker // in an order that depends on the set
	owners  []int         // for each shard, the index of its worker, or noWorker or unknownWorker
	free    int           // shards without an owner
}

const (
	noWorker      = -1 // no record: the shard is free
	unknownWorker = -2 // the owner is leaving, or holds the shard as a lock
)

// shardWorker is a worker that may own shards.
type shardWorker struct {
	id      string
	session uint64
	failing map[int]bool // shards that the worker does not take now
	load    int
}

// readPlan returns the plan for the records of a set, which are sorted by key.
func (s *Shards) readPlan(records []member.Record) *shardPlan {
	p := &shardPlan{owners: make([]int, len(s.keys))}
	for _, r := range records {
		id, ok := strings.CutPrefix(r.Key, s.prefix+"worker/")
		if !ok || r.Revoked {
			continue
		}
		disabled := jobrecord.IsDisabled(records, s.prefix, id)
		if count, failing := parseWorker(r.Value); !disabled && count == len(s.keys) {
			p.workers = append(p.workers, shardWorker{
				id: id, session: r.Session, failing: failing, load: len(failing),
			})
		}
	}
	slices.SortFunc(p.workers, func(a, b shardWorker) int {
		return compareHashes(s.prefix, a.id, b.id)
	})
	for i, key := range s.keys {
		r, taken := jobrecord.Find(records, key)
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
}

// indexOf returns the index of a worker, or unknownWorker.
func (p *shardPlan) indexOf(id string, session uint64) int {
	w := slices.IndexFunc(p.workers, func(w shardWorker) bool {
		return w.id == id && w.session == session
	})
	if w < 0 {
		return unknownWorker
	}
	return w
}

// compareHashes orders members differently for each prefix.
func compareHashes(prefix, a, b string) int {
	x, y := sha256.Sum256([]byte(prefix+a)), sha256.Sum256([]byte(prefix+b))
	return bytes.Compare(x[:], y[:])
}

// allotFree allots each free shard to the worker with the smallest load, and adds the shard to that
// load. It returns the worker of each allotted shard.
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
			p.workers[least].load++
			to[shard] = least
		}
	}
	return to
}

// surplus returns how many shards a worker must give up. With k shards for n workers, k mod n
// workers may keep k / n + 1 shards. Only workers with more than k / n shards are chosen, the last
// workers first.
func (p *shardPlan) surplus(worker int) int {
	total := p.free
	for _, w := range p.workers {
		total += w.load
	}
	share, rest := total/len(p.workers), total%len(p.workers)
	more := 0 // workers after this one with more than the share
	for _, w := range p.workers[worker+1:] {
		if w.load > share {
			more++
		}
	}
	if more < rest {
		share++
	}
	return max(0, p.workers[worker].load-share)
}

// hasTaker reports whether another worker could take the shard, and would still have a smaller load
// than the given worker has now.
func (p *shardPlan) hasTaker(shard, worker int) bool {
	return slices.ContainsFunc(p.workers, func(w shardWorker) bool {
		return !w.failing[shard] && w.load+1 < p.workers[worker].load
	})
}

// isFailing reports whether the work of a shard has just failed on any worker.
func (p *shardPlan) isFailing(shard int) bool {
	return slices.ContainsFunc(p.workers, func(w shardWorker) bool { return w.failing[shard] })
}

// formatWorker returns the value of a worker's record: the number of shards, then the shards that
// the worker does not take now. If the value would be too long, it omits the last shards. They stay
// free until this worker takes them again.
func formatWorker(count int, failing []int) []byte {
	value := strconv.AppendInt(nil, int64(count), 10)
	for _, shard := range failing {
		if len(value) > member.MaxValueBytes-8 {
			break
		}
		value = strconv.AppendInt(append(value, ' '), int64(shard), 10)
	}
	return value
}

// parseWorker parses the value of a worker's record.
func parseWorker(value []byte) (count int, failing map[int]bool) {
	failing = map[int]bool{}
	for i, field := range strings.Fields(string(value)) {
		n, err := strconv.Atoi(field)
		switch {
		case err != nil: // another version of Athena wrote the value
		case i == 0:
			count = n
		case n < count:
			failing[n] = true
		}
	}
	return count, failing
}
