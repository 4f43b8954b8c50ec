// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// streamHolders is of the draws that only runs with records have (Setup.Keys).
const streamHolders = -1

// holders are the applications of all processes: they take records, as latches do, and
// drop their own and others'.
type holders struct {
	c    *Cluster
	rand *rand.Rand
	keys []string
	pace float64 // mean time between requests
}

// startHolders begins to ask for records, where there are keys.
func (c *Cluster) startHolders() {
	h := &holders{c: c, rand: randomStream(c.setup.Seed, streamHolders)}
	for i := range c.setup.Keys {
		h.keys = append(h.keys, fmt.Sprintf("k%d", i))
	}
	if len(h.keys) > 0 {
		interval := float64(c.setup.Timings.HeartbeatInterval)
		h.pace = drawSpread(h.rand, interval/8, 8*interval)
		if len(c.setup.Slow) > 0 {
			// A record that is dropped too early must be taken within an interval.
			h.pace = interval / 4
		}
		h.scheduleNext()
	}
}

func (h *holders) scheduleNext() {
	h.c.After(time.Duration(h.rand.ExpFloat64()*h.pace), func() {
		h.sendRequest(h.rand.IntN(len(h.c.procs)))
		h.scheduleNext()
	})
}

// sendRequest lets a process ask for one thing.
func (h *holders) sendRequest(i int) {
	p := h.c.procs[i]
	key, what, session := h.keys[h.rand.IntN(len(h.keys))], h.rand.IntN(10), h.rand.Uint64()
	other := h.keys[h.rand.IntN(len(h.keys))]
	if !p.isUp() || p.paused {
		return
	}
	if slow := h.c.setup.Slow; len(slow) > 0 {
		owns := !p.machine.Owns(key).IsZero()
		if owns && (slices.Contains(slow, i) || what > 2) {
			return
		}
		// At the margins (Setup.Slow) each process takes a free record, and only one with a fast
		// clock releases it. So a slow one owns it most of the time, until it is silent.
		if what = 0; owns {
			what = 8
		}
	}
	held, _ := p.machine.Records().Find(key)
	var r message.RecordRequest
	set := func(key string) message.Change {
		return message.Change{Key: key, Value: []byte(p.cfg.Name), Owned: true, Session: session}
	}
	switch what {
	case 0, 1, 2, 3: // as a latch is taken
		r.Conditions = []message.Condition{{Key: key}}
		r.Changes = []message.Change{set(key)}
	case 4: // two at once
		r.Conditions = []message.Condition{{Key: key}, {Key: other}}
		r.Changes = []message.Change{set(key)}
		if other != key {
			r.Changes = append(r.Changes, set(other))
		}
	case 5: // whatever is there
		r.Changes = []message.Change{set(key)}
	case 6: // as an operator drops it, whoever has it
		r.Changes = []message.Change{{Key: key, Drop: true}}
	case 7: // one that nobody owns
		r.Conditions = []message.Condition{{Key: key}}
		r.Changes = []message.Change{{Key: key, Value: []byte(p.cfg.Name)}}
	default: // as it is released, by its token
		r.Conditions = []message.Condition{{Key: key, Token: held.Token}}
		r.Changes = []message.Change{{Key: key, Drop: true}}
	}
	h.c.Commit(i, r)
}

// Commit lets a process ask for changes of records, by an id that it is given here.
func (c *Cluster) Commit(i int, r message.RecordRequest) {
	for _, change := range r.Changes {
		if !slices.Contains(c.keys, change.Key) {
			c.keys = append(c.keys, change.Key)
		}
	}
	c.giveOrder(i, fmt.Sprintf("ask for %v", r), func(p *process, now time.Time) statemachine.Output {
		p.asked++
		r.ID = p.asked
		p.open = append(p.open, r)
		return p.machine.Commit(now, r)
	})
}

// Holds is the token of the record under key that a process owns and trusts now, zero
// for none.
func (c *Cluster) Holds(i int, key string) member.Token {
	p := c.procs[i]
	if !p.isUp() {
		return member.Token{}
	}
	token, _ := p.machine.Holds(p.clock.at(c.now), key)
	return token
}

// Records is the table that a process shows; none when it is down.
func (c *Cluster) Records(i int) member.Records {
	p := c.procs[i]
	if !p.isUp() {
		return nil
	}
	return p.machine.Records()
}

// readAnswers lets a process read the answers of a step. Each request has one.
func (c *Cluster) readAnswers(p *process, out statemachine.Output) {
	for _, a := range out.Answers {
		i := slices.IndexFunc(p.open, func(r message.RecordRequest) bool { return r.ID == a.ID })
		if i < 0 {
			c.check.noteViolation("records", "%s got an answer to request %d, which is not open",
				p.cfg.Name, a.ID)
			return
		}
		r := p.open[i]
		p.open = slices.Delete(p.open, i, i+1)
		if a.Reason != message.ReasonNone {
			c.noteReached(ruleReasons + rule(a.Reason))
			continue
		}
		if c.check.commits[a.Number.Version] <= a.Number.Revision {
			c.check.noteBroken("I4", "%s was told that %v is committed by %v, which is not",
				p.cfg.Name, r, member.Token(a.Number))
		}
		c.check.noteSet(p, r, member.Token(a.Number))
	}
}

// recordsLimit is how long the records of one that is gone may stay.
func (j *judge) recordsLimit() time.Duration {
	t := j.c.setup.Timings
	return t.HoldTimeout()*rateMax/rateUnit + 4*t.HeartbeatInterval
}

// checkRecords demands that in a healed cluster each record has an owner that lives, or none,
// and that each key can be taken.
func (j *judge) checkRecords() {
	c := j.c
	if len(c.keys) == 0 {
		return
	}
	c.noteRun(Phase, "records end with their owners")
	c.RunFor(j.recordsLimit())
	if c.check.first != nil || c.Leader() < 0 {
		return
	}
	for _, e := range c.procs[c.Leader()].machine.Records() {
		lives := slices.ContainsFunc(c.procs, func(p *process) bool {
			return p.isUp() && p.identity() == e.Owner
		})
		if e.IsOwned() && !lives {
			j.noteFailure("records", "%s is still owned by %v, which is gone", e.Key, e.Owner)
		}
	}
}
