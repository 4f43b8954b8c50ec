// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/clock"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/recordtable"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// ErrWorking means that the observer is a worker already.
var ErrWorking = errors.New("observer: this observer is a worker already")

// errTwice means that a member greets a worker twice on one stream.
var errTwice = errors.New("observer: a member greets a worker twice")

// Worker owns records without being a member: package lock and package election take its Records.
// Its messages to the leader travel through one member at a time, which it replaces by another one
// when it does not answer. Its records end when no leader has heard it for HoldTimeout of the
// cluster.
type Worker struct {
	o       *Observer
	machine *statemachine.Machine // used by the loop only
	clock   func() time.Time
	steps   clock.StepWatch
	table   *recordtable.Table

	in    chan message.Message
	out   chan message.Message
	calls chan workerCall
	life  context.Context
	stop  context.CancelCauseFunc
	work  sync.WaitGroup

	mu      sync.Mutex
	view    member.View
	changed chan struct{} // closed when view changes
}

// workerCall is an operation on the machine that a caller waits for.
type workerCall struct {
	verb  recordtable.Verb
	reply chan error // of capacity 1
}

// maxUnsent bounds the messages of a worker that wait for its member. Further ones are lost.
const maxUnsent = 64

// Work makes the observer a worker. It blocks until a member has greeted it or ctx is done; then it
// returns the error of the last attempt. After Close the error is leader.ErrClosed.
func (o *Observer) Work(ctx context.Context) (*Worker, error) {
	if !o.working.CompareAndSwap(false, true) {
		return nil, ErrWorking
	}
	w := &Worker{
		o: o, clock: o.cfg.clock, in: make(chan message.Message), changed: make(chan struct{}),
		out: make(chan message.Message, maxUnsent), calls: make(chan workerCall),
	}
	if w.clock == nil {
		w.clock = clock.New()
	}
	w.life, w.stop = context.WithCancelCause(o.life)
	greeted := make(chan message.Timings, 1)
	w.work.Go(func() { w.exchangeMessages(greeted) })
	select {
	case t := <-greeted:
		w.startMachine(t)
		return w, nil
	case <-ctx.Done():
		w.stop(messaging.ErrClosed)
		w.work.Wait()
		o.working.Store(false)
		return nil, errors.Join(fmt.Errorf("observer: no member lets this observer work: %w",
			context.Cause(ctx)), o.lastFailure())
	}
}

// startMachine starts the machine with the timings of the cluster.
func (w *Worker) startMachine(t message.Timings) {
	w.machine = statemachine.NewWorker(statemachine.Config{Timings: t}, w.o.self.StoreID, w.clock())
	w.view = w.machine.View(w.clock())
	w.steps = clock.StepWatch{
		Wall:  func() time.Time { return time.Now().Round(0) },
		Limit: t.LeaseTimeout / 20,
	}
	w.table = recordtable.New(recordtable.Config{
		Node: workerNode{w}, Self: w.o.self.Address.String(), Life: w.life, Clock: w.clock,
		HoldTimeout: t.HoldTimeout(), Guard: t.HeartbeatInterval / 2,
		ReportLate: func(string, time.Duration) {},
	})
	w.work.Go(w.runLoop)
}

// Records returns the records of the cluster as this worker sees them. Its id in them is
// Session.Member. Store.Members lists the active members of the cluster, but no workers.
func (w *Worker) Records() record.Store { return w.table }

// Close ends the leases of the worker. Its records end after HoldTimeout, unless they were released
// before.
func (w *Worker) Close() error {
	wait := w.table.EndLeases(messaging.ErrClosed)
	w.stop(messaging.ErrClosed)
	w.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return wait(ctx)
}

// runLoop is the one goroutine that uses the machine.
func (w *Worker) runLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var out statemachine.Output
		var now time.Time
		answer := func() {}
		select {
		case <-w.life.Done():
			w.table.EndLeases(context.Cause(w.life))
			return
		case m := <-w.in:
			now = w.readClock()
			out = w.machine.Step(now, m)
		case c := <-w.calls:
			now = w.readClock()
			var err error
			out, err = c.verb(now, w.machine)
			answer = func() { c.reply <- err }
		case <-timer.C:
			now = w.readClock()
			out = w.machine.Advance(now)
		}
		w.table.Update(now, w.machine, out.Changed || len(out.Answers) > 0)
		w.publishView(now, out.Changed)
		w.table.DeliverAnswers(out.Answers)
		for _, m := range out.Send {
			select {
			case w.out <- m:
			default: // lost, as on a network
			}
		}
		answer()
		if at := w.machine.Deadline(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(at.Sub(w.clock()))
		}
	}
}

// readClock reads the clock. If the wall clock was set forward, the machine may have been paused
// together with its clocks, so the worker trusts none of its records until they are confirmed.
func (w *Worker) readClock() time.Time {
	now, step := w.steps.Read(w.clock)
	if step > 0 {
		w.machine.EndTrust(now)
	}
	return now
}

func (w *Worker) publishView(now time.Time, changed bool) {
	if !changed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view = w.machine.View(now)
	close(w.changed)
	w.changed = make(chan struct{})
}

// exchangeMessages carries the messages of the worker through one member after the other, first the
// one that the observer follows.
func (w *Worker) exchangeMessages(greeted chan<- message.Timings) {
	home, limit, failures := w.o.currentHome(), probeStep, 0
	for w.life.Err() == nil {
		timings, err := w.exchangeWith(home, limit, greeted)
		if err != nil {
			w.o.setFailure(err)
		}
		failures++
		if timings.HoldTimeout() > 0 {
			limit, failures = timings.HoldTimeout()/workAttempts, 0
		}
		select {
		case <-time.After(retryPause / 10 << min(failures, maxWorkDoublings)):
		case <-w.life.Done():
		}
		home = w.o.homeAfter(home)
	}
}

const (
	// workAttempts is how many members a worker can try in turn within HoldTimeout.
	workAttempts = 8
	// maxWorkDoublings bounds the pause before the next attempt to 0.64 s.
	maxWorkDoublings = 6
)

// homeAfter returns the member that is followed, or another one if that was the last one.
func (o *Observer) homeAfter(last member.Address) member.Address {
	if home := o.currentHome(); home != last {
		return home
	}
	return o.listCandidates()[0]
}

// exchangeWith carries messages through a member until it does not answer. The limit is for its
// greeting. It returns the timings in the greeting, if it got one.
func (w *Worker) exchangeWith(
	home member.Address, limit time.Duration, greeted chan<- message.Timings,
) (t message.Timings, err error) {
	ctx, cancel := context.WithTimeout(w.life, limit)
	s, err := w.o.messages.OpenWork(ctx, home)
	cancel()
	if err != nil {
		return t, err
	}
	defer s.Close()
	// A member answers each keep-alive, so it is silent if nothing arrives for several.
	silence := time.AfterFunc(limit, func() { _ = s.Close() })
	defer silence.Stop()
	ended := make(chan struct{})
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(ended)
	r := bufio.NewReader(s)
	for shown := (member.State{}); ; {
		m, err := messaging.ReadWork(r, wire.MaxFrameBytes)
		if err == nil {
			m.Body, err = messaging.ReadState(m.Body, &shown)
		}
		if err != nil {
			return t, err
		}
		switch b := m.Body.(type) {
		case message.Greet:
			if t.HoldTimeout() > 0 {
				return t, errTwice
			}
			if err := b.Timings.Validate(); err != nil {
				return t, fmt.Errorf("observer: greeting of %s: %w", home, err)
			}
			t = b.Timings
			select {
			case greeted <- t:
			default:
			}
			writing.Go(func() { w.writeMessages(s, ended) })
		case message.SeedKeepAlive: // the member is there
		default:
			select {
			case w.in <- m:
			case <-w.life.Done():
				return t, messaging.ErrClosed
			}
		}
		silence.Reset(t.HoldTimeout() / 2)
	}
}

// writeMessages sends the messages of the worker to its member.
func (w *Worker) writeMessages(s interface{ Write([]byte) (int, error) }, ended <-chan struct{}) {
	for {
		select {
		case m := <-w.out:
			if messaging.WriteWork(s, m) != nil {
				return
			}
		case <-ended:
			return
		}
	}
}

// workerNode implements recordtable.Node.
type workerNode struct{ w *Worker }

// Do calls a verb in the loop.
func (n workerNode) Do(ctx context.Context, verb recordtable.Verb) error {
	c := workerCall{verb, make(chan error, 1)}
	select {
	case n.w.calls <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.w.life.Done():
		return context.Cause(n.w.life)
	}
	return <-c.reply
}

// View returns the newest view.
func (n workerNode) View() member.View {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.view
}

// WaitLeader blocks until a leader has authority, as far as the worker knows.
func (n workerNode) WaitLeader(ctx context.Context) error {
	for {
		n.w.mu.Lock()
		quorate, changed := n.w.view.Quorate, n.w.changed
		n.w.mu.Unlock()
		if quorate {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.w.life.Done():
			return context.Cause(n.w.life)
		}
	}
}
