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

// streamHolders is used only in runs with records (Setup.Keys).
const streamHolders = -1

// holders simulates the applications on all processes. They acquire records as jobs do, and drop
// their own records and records of others.
type holders struct {
	c    *Cluster
	rand *rand.Rand
	keys []string
	pace float64 // mean time between requests
}

// startHolders schedules requests for records if there are keys.
func (c *Cluster) startHolders() {
	h := &holders{c: c, rand: randomStream(c.setup.Seed, streamHolders)}
	for i := range c.setup.Keys {
		h.keys = append(h.keys, fmt.Sprintf("k%d", i))
	}
	if len(h.keys) > 0 {
		interval := float64(c.setup.Timings.HeartbeatInterval)
		h.pace = drawSpread(h.rand, interval/8, 8*interval)
		if len(c.setup.Slow) > 0 {
			// Requests must be frequent enough that another process acquires a record
			// within an interval if it is dropped too early.
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

// sendRequest makes a process send one request.
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
		// At the margins (Setup.Slow), all processes acquire free records, but only processes with fast
		// clocks release them. So a process with a slow clock owns a record most of the time.
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
	case 0, 1, 2, 3: // acquire, as a job does
		r.Conditions = []message.Condition{{Key: key}}
		r.Changes = []message.Change{set(key)}
	case 4: // acquire two together
		r.Conditions = []message.Condition{{Key: key}, {Key: other}}
		r.Changes = []message.Change{set(key)}
		if other != key {
			r.Changes = append(r.Changes, set(other))
		}
	case 5: // set without a condition
		r.Changes = []message.Change{set(key)}
	case 6: // drop without a condition, as an operator does
		r.Changes = []message.Change{{Key: key, Drop: true}}
	case 7: // set, owned by no process
		r.Conditions = []message.Condition{{Key: key}}
		r.Changes = []message.Change{{Key: key, Value: []byte(p.cfg.Name)}}
	default: // release by its token
		r.Conditions = []message.Condition{{Key: key, Token: held.Token}}
		r.Changes = []message.Change{{Key: key, Drop: true}}
	}
	h.c.Commit(i, r)
}

// Commit makes a process request changes of records. Commit assigns the id of the request.
func (c *Cluster) Commit(i int, r message.RecordRequest) {
	for _, change := range r.Changes {
		if !slices.Contains(c.keys, change.Key) {
			c.keys = append(c.keys, change.Key)
		}
	}
	c.giveOrder(i, fmt.Sprintf("ask for %v", r), func(p *process, now time.Time) statemachine.Output {
		p.requests++
		r.ID = p.requests
		p.openRequests = append(p.openRequests, r)
		return p.machine.Commit(now, r)
	})
}

// Holds returns the token of the record under key if a process currently owns and trusts the
// record. Otherwise it returns the zero Token.
func (c *Cluster) Holds(i int, key string) member.Token {
	p := c.procs[i]
	if !p.isUp() {
		return member.Token{}
	}
	token, _ := p.machine.Holds(p.clock.at(c.now), key)
	return token
}

// Records returns the table that a process shows, or nil if it is down.
func (c *Cluster) Records(i int) member.Records {
	p := c.procs[i]
	if !p.isUp() {
		return member.Records{}
	}
	return p.machine.Records()
}

// readAnswers handles the answers in the output of a step. Each request gets one answer.
func (c *Cluster) readAnswers(p *process, out statemachine.Output) {
	for _, a := range out.Answers {
		i := slices.IndexFunc(p.openRequests, func(r message.RecordRequest) bool { return r.ID == a.ID })
		if i < 0 {
			c.check.noteViolation("records", "%s got an answer to request %d, which is not pending",
				p.cfg.Name, a.ID)
			return
		}
		r := p.openRequests[i]
		p.openRequests = slices.Delete(p.openRequests, i, i+1)
		if a.Reason != message.ReasonNone {
			c.noteReached(ruleReasons + rule(a.Reason))
			continue
		}
		if c.check.commits[a.Number.Version] <= a.Number.Revision {
			c.check.noteBroken("I4", "%s got the answer that %v was committed by %v, but it was not",
				p.cfg.Name, r, member.Token(a.Number))
		}
		c.check.noteSet(p, r, member.Token(a.Number))
	}
}

// recordsLimit is the maximum time that a record outlives its owner.
func (j *judge) recordsLimit() time.Duration {
	t := j.c.setup.Timings
	return t.HoldTimeout()*rateMax/rateUnit + 4*t.HeartbeatInterval
}

// checkRecords checks that in a healed cluster no record has an owner that is gone.
func (j *judge) checkRecords() {
	c := j.c
	if len(c.keys) == 0 {
		return
	}
	c.noteRun(Phase, "records must end with their owners")
	before := c.leaderVersion()
	c.RunFor(j.recordsLimit())
	if c.leaderVersion() != before {
		c.RunFor(j.recordsLimit()) // a new leader counts the silence of owners from its election
	}
	if c.check.first != nil || c.Leader() < 0 {
		return
	}
	for e := range c.procs[c.Leader()].machine.Records().All() {
		lives := slices.ContainsFunc(c.procs, func(p *process) bool {
			return p.isUp() && p.identity() == e.Owner
		}) || slices.ContainsFunc(c.workers, func(w *worker) bool { return w.identity() == e.Owner })
		if e.IsOwned() && !lives {
			j.noteFailure("records", "record %s is still owned by %v, but that process is gone",
				e.Key, e.Owner)
		}
	}
}
