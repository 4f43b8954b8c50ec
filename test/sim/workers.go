// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// This file simulates workers: processes without a place in the roster that own records
// (protocol.md 10, workers). Each sends its messages to the leader through a member, its home, and
// moves to another one now and then. Its messages are lost, late, duplicated and overtaken, and it
// pauses.

// maxWorkers bounds Setup.Workers.
const maxWorkers = 4

// streamWorkers determines how many workers a run has; streamWorkerFaults draws what they do, and
// the fates of their messages.
const (
	streamWorkers      = -31
	streamWorkerFaults = -32
)

// worker is a worker and the member through which it sends its messages.
type worker struct {
	*process
	c      *Cluster
	rand   *rand.Rand
	home   int
	lag    float64 // mean time between its questions for the newest state
	wakeAt int64
}

// drawWorkers draws the number of workers of a run with records.
func drawWorkers(r *rand.Rand, p *Plan) {
	if n := r.IntN(2 * maxWorkers); n <= maxWorkers {
		p.Setup.Workers = n
	}
}

// startWorkers starts the workers of the setup.
func (c *Cluster) startWorkers() {
	for i := range c.setup.Workers {
		r := randomStream(c.setup.Seed, streamWorkerFaults*(i+1))
		w := &worker{c: c, rand: r}
		w.process = &process{index: len(c.procs) + i, home: len(c.procs) + i, clock: steadyClock()}
		if c.setup.Skew {
			w.clock = drawClock(r)
		}
		c.workers = append(c.workers, w)
		w.lag = float64(c.setup.Timings.HeartbeatInterval) * drawSpread(r, 0.2, 10)
		w.beginRun()
		w.schedulePlans()
		w.scheduleQuestion()
	}
}

// beginRun starts the next run of a worker, which has a new key.
func (w *worker) beginRun() {
	var id member.StoreID
	for i := range id {
		id[i] = byte(w.rand.Uint32())
	}
	self := member.WorkerIdentity(id)
	p := w.process
	p.cfg = statemachine.Config{
		Address: self.Address, Name: fmt.Sprintf("w%d", w.index-len(w.c.procs)+1),
		Timings: w.c.setup.Timings,
	}
	p.store.StoreID, p.store.Incarnation = self.StoreID, self.Incarnation
	p.trustsUntil, p.holdings, p.openRequests = time.Time{}, nil, nil
	p.requests = w.rand.Uint64N(member.MaxCount / 2)
	p.machine = statemachine.NewWorker(p.cfg, id, p.clock.at(w.c.now))
	w.moveHome()
}

// moveHome makes another member the home of a worker.
func (w *worker) moveHome() { w.home = w.rand.IntN(len(w.c.procs)) }

// scheduleQuestion schedules when a worker next asks its home for the newest state.
func (w *worker) scheduleQuestion() {
	w.c.After(time.Duration(w.rand.ExpFloat64()*w.lag), func() {
		w.askForState()
		w.scheduleQuestion()
	})
}

// schedulePlans schedules what the application and the host of a worker do.
func (w *worker) schedulePlans() {
	pace := float64(w.c.setup.Timings.HeartbeatInterval)
	w.c.After(time.Duration(w.rand.ExpFloat64()*pace), func() {
		switch n := w.rand.IntN(100); {
		case n < 1:
			w.pauseWorker()
		case n < 2 && !w.c.net.calm:
			w.c.check.endTrust(w.index) // it dies
			w.beginRun()
		case n < 6:
			w.moveHome()
		case n < 50:
			w.sendRequest()
		}
		w.schedulePlans()
	})
}

// pauseWorker freezes a worker for about as long as its trust lasts.
func (w *worker) pauseWorker() {
	hold := w.c.setup.Timings.HoldTimeout()
	if w.paused || w.c.net.calm {
		return
	}
	w.paused = true
	w.c.After(time.Duration(w.rand.Int64N(int64(2*hold))), func() {
		w.paused = false
		w.advanceWorker()
	})
}

func (w *worker) sendRequest() {
	keys := w.c.keys
	if len(keys) == 0 || w.paused {
		return
	}
	key := keys[w.rand.IntN(len(keys))]
	held, _ := w.machine.Records().Find(key)
	r := message.RecordRequest{Conditions: []message.Condition{{Key: key}}}
	switch what := w.rand.IntN(8); {
	case what < 4:
		r.Changes = []message.Change{{Key: key, Owned: true, Session: w.rand.Uint64()}}
	case what == 4: // as an operator does
		r.Conditions, r.Changes = nil, []message.Change{{Key: key, Drop: true}}
	default:
		r.Conditions[0].Token = held.Token
		r.Changes = []message.Change{{Key: key, Drop: true}}
	}
	w.requests++
	r.ID = w.requests
	w.openRequests = append(w.openRequests, r)
	w.settleOutput(w.machine.Commit(w.clock.at(w.c.now), r))
}

// advanceWorker calls the machine of a worker.
func (w *worker) advanceWorker() {
	if !w.paused {
		w.settleOutput(w.machine.Advance(w.clock.at(w.c.now)))
	}
}

// deliverMessage hands a message to a worker.
func (w *worker) deliverMessage(m message.Message) {
	switch {
	case m.To != w.cfg.Address: // of an earlier run
	case w.paused:
		w.c.After(w.c.setup.Timings.HeartbeatInterval, func() { w.deliverMessage(m) })
	default:
		w.settleOutput(w.machine.Step(w.clock.at(w.c.now), m))
	}
}

// settleOutput makes a step of a worker take effect.
func (w *worker) settleOutput(out statemachine.Output) {
	c := w.c
	c.steps++
	for _, m := range out.Send {
		w.carryMessage(func() { c.relayMessage(w.home, m) })
	}
	c.check.now = c.now
	c.check.checkHoldings(w.process, c.keys, out)
	c.readAnswers(w.process, out)
	if slices.ContainsFunc(w.holdings, func(h holding) bool { return !h.token.IsZero() }) {
		c.noteReached(ruleWorkerTrusts)
	}
	if d := w.machine.Deadline(); !d.IsZero() {
		at := max(c.now+1, w.clock.globalTime(d))
		if w.wakeAt <= c.now || at < w.wakeAt {
			w.wakeAt = at
			c.After(time.Duration(at-c.now), w.advanceWorker)
		}
	}
}

// carryMessage calls f for each arrival of a message between a worker and its home.
func (w *worker) carryMessage(f func()) {
	link, copies := w.c.setup.Link, 1
	if !w.c.net.calm {
		switch w.rand.IntN(20) {
		case 0:
			copies = 0
		case 1:
			copies = 2
		}
	}
	for range copies {
		d := link.Delay + time.Duration(w.rand.ExpFloat64()*float64(link.Jitter))
		late := !w.c.net.calm && w.rand.IntN(20) == 0
		if late {
			d += time.Duration(w.rand.Int64N(int64(2 * w.c.setup.Timings.HoldTimeout())))
		}
		w.c.After(d, func() {
			if !late || !w.c.net.calm { // a late one must not prolong a record when faults have ended
				f()
			}
		})
	}
}

// askForState makes the home of a worker send the newest state that it knows to be committed.
func (w *worker) askForState() {
	p := w.c.procs[w.home]
	if !p.takesInput() {
		return
	}
	s := p.machine.CommittedState()
	if s.IsZero() {
		return
	}
	m := message.Message{
		From: p.identity(), To: w.cfg.Address, Body: message.ClusterAlignment{State: s},
	}
	w.carryMessage(func() { w.deliverMessage(m) })
}

// relayMessage makes a member relay a message of a worker.
func (c *Cluster) relayMessage(home int, m message.Message) {
	p := c.procs[home]
	switch {
	case !p.isUp():
	case !p.takesInput():
		p.keepItem(item{run: func() { c.relayMessage(home, m) }})
	default:
		if c.setup.Codec {
			m = c.encodeDecode(p, m)
		}
		c.noteInput(p, steplog.Step{Event: steplog.Order})
		c.settleStep(p, p.machine.Relay(c.readClock(p), m))
	}
}

// deliverRelayed carries the leader's answers to the workers that follow a member.
func (c *Cluster) deliverRelayed(out statemachine.Output) {
	for _, m := range out.Relayed {
		for _, w := range c.workers {
			if w.cfg.Address == m.To {
				w.carryMessage(func() { w.deliverMessage(m) })
			}
		}
	}
}
