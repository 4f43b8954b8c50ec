// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
)

// fewSeeds is the largest number of seeds to which the start rule for few seeds applies
// (protocol.md section 4).
const fewSeeds = 5

// drawForming plans the formation of a cluster with more than fewSeeds seeds. The greatest seeds
// stay down until the other processes have a leader and one node that is not a seed has joined.
// There are no other faults.
func drawForming(r *rand.Rand, p *Plan) {
	s := &p.Setup
	s.Processes, s.Twins, s.Volatile, s.Skew = s.Size, nil, nil, false
	s.Seeds = r.Perm(s.Size)[:fewSeeds+1+r.IntN(s.Size-fewSeeds)]
	s.Rejects = slices.DeleteFunc(s.Rejects, func(i int) bool { return i >= s.Processes })
	s.Link = calmLink(s.Timings)
	p.Faults, p.Reckless = NoFaults, false
	most := min(len(s.Seeds)-member.Quorum(len(s.Seeds)), s.Size-member.Quorum(s.Size))
	p.Dead = 1 + r.IntN(most)
	stagger := s.Timings.RetryInterval / 4
	joins := stagger + p.formLimit()
	p.Starts = p.Starts[:s.Processes]
	for i := range p.Starts {
		switch {
		case p.isDead(i):
			p.Starts[i] = joins + p.joinLimit()
		case i == p.lateProcess():
			p.Starts[i] = joins
		default:
			p.Starts[i] = time.Duration(r.Int64N(int64(stagger)))
		}
	}
	p.For = s.Timings.LeaderTimeout
}

// isDead reports whether process i is one of the p.Dead seeds with the greatest addresses,
// which start last.
func (p Plan) isDead(i int) bool {
	greater := 0
	for _, s := range p.Setup.Seeds {
		if s > i {
			greater++
		}
	}
	return slices.Contains(p.Setup.Seeds, i) && greater < p.Dead
}

// lateProcess returns a process that is not a seed and joins after the others have formed a
// cluster. It returns -1 if all processes are seeds, or if the others are not a quorum.
func (p Plan) lateProcess() int {
	if p.Setup.Size-p.Dead-1 < member.Quorum(p.Setup.Size) {
		return -1
	}
	for i := range p.Setup.Processes {
		if !slices.Contains(p.Setup.Seeds, i) {
			return i
		}
	}
	return -1
}

// formLimit is the time that invariant L2 allows for a start without the greatest seeds.
func (p Plan) formLimit() time.Duration {
	t, seeds := p.Setup.Timings, len(p.Setup.Seeds)
	turn := min(t.RetryInterval/2, t.TTLTimeout/time.Duration(seeds))
	limit := t.RetryInterval*3/2 + time.Duration(p.Dead-1)*turn + t.HeartbeatInterval*9/5
	if seeds < p.Setup.Size {
		limit += t.RetryInterval
	}
	return limit
}

// joinLimit is the time that invariant L2 allows for a new node to join a cluster without the
// greatest seeds.
func (p Plan) joinLimit() time.Duration {
	t := p.Setup.Timings
	rounds := math.Ceil(math.Log2(float64(p.Dead)/3 + 1))
	return t.RetryInterval*5/4*time.Duration(rounds) + t.HeartbeatInterval*9/5
}

// checkFormation checks invariant L2 for a start without the greatest seeds, and for a new
// node that joins while they are down.
func (j *judge) checkFormation() {
	c, p, last := j.c, j.x.plan, time.Duration(0)
	late := p.lateProcess()
	for i, at := range p.Starts {
		if i != late && !p.isDead(i) {
			last = max(last, at)
		}
	}
	c.RunFor(last)
	start := c.now
	if !c.RunUntil(p.formLimit(), c.Settled) {
		j.noteFailure("L2",
			"not all members are active %v after a start in which %d of %d seeds stayed down",
			p.formLimit(), p.Dead, len(p.Setup.Seeds))
		return
	}
	j.recordMeasure("all active after a start", start, p.formLimit())
	if late < 0 {
		return
	}
	c.RunFor(p.Starts[late] - c.Now())
	start = c.now
	if !c.RunUntil(p.joinLimit(), func() bool { return c.Up(late) && c.Settled() }) {
		j.noteFailure("L2", "%s is not active %v after its start, while %d of %d seeds are down",
			nameOf(late), p.joinLimit(), p.Dead, len(p.Setup.Seeds))
		return
	}
	j.recordMeasure("active without seeds", start, p.joinLimit())
}
