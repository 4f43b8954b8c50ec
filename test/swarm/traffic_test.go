// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// event is a numbered event of one lane of a process.
type event struct {
	Run, Lane, N int
	Slow         time.Duration // how long the handler takes
	Fails        bool          // the handler fails
	Pad          []byte
}

// datagram is an event that may be lost or overtake others.
type datagram struct{ Event event }

// flowKey identifies the events of one lane to one node.
type flowKey struct{ run, lane, to int }

// flow is what became of the events of a lane at one node.
type flow struct {
	last    int          // number of the last event handled in order
	handled map[int]bool // by number
	refused map[int]bool // the sender got an error by which no handler gets them
	pending map[int]int  // accepted with an outcome: how many outcomes are to come
}

// flowLocked returns a flow. world.mu must be held.
func (w *world) flowLocked(key flowKey) *flow {
	f := w.flows[key]
	if f == nil {
		f = &flow{handled: map[int]bool{}, refused: map[int]bool{}, pending: map[int]int{}}
		w.flows[key] = f
	}
	return f
}

// makePad returns bytes that depend on n.
func makePad(n, size int) []byte { return bytes.Repeat([]byte{byte(n)}, size) }

func isPad(b []byte, n int) bool {
	return len(b) == 0 || b[0] == byte(n) && bytes.Equal(b[1:], b[:len(b)-1])
}

// registerHandlers registers the handlers of a process.
func (p *proc) registerHandlers(mux *receiver.Mux) {
	receiver.Handle(mux, func(ctx context.Context, from member.Member, e event) error {
		p.handlers.addName("event")
		defer p.handlers.removeName("event")
		return p.onEvent(ctx, from, e, true)
	})
	receiver.Handle(mux, func(ctx context.Context, from member.Member, d datagram) error {
		return p.onEvent(ctx, from, d.Event, false)
	})
	receiver.HandleRequest(mux, p.onQuestion)
	receiver.HandleStream(mux, "echo", p.onStream)
}

// onEvent checks that an event was handled at most once and, if ordered, not after a later one.
func (p *proc) onEvent(ctx context.Context, from member.Member, e event, ordered bool) error {
	p.mu.Lock()
	key := flowKey{e.Run, e.Lane, p.node}
	f := p.flowLocked(key)
	sender := p.procs[e.Run]
	switch {
	case p.dead:
	case sender == nil || p.Cluster.Address(sender.node) != from.Address || !isPad(e.Pad, e.N):
		p.failLocked("corrupt", "event %d of %v from %v is not what was sent", e.N, key, from.Address)
	case f.handled[e.N]:
		p.failLocked("twice", "event %d of %v was handled twice", e.N, key)
	case ordered && e.N < f.last:
		p.failLocked("order", "event %d of %v was handled after %d", e.N, key, f.last)
	case f.refused[e.N]:
		p.failLocked("refused", "event %d of %v was handled, but Send failed", e.N, key)
	default:
		f.handled[e.N], f.last = true, max(f.last, e.N)
	}
	p.mu.Unlock()
	if e.Slow > 0 {
		sleepUntil(ctx, e.Slow)
	}
	if e.Fails && e.N%2 == 0 {
		panic(errDrawn)
	} else if e.Fails {
		return errDrawn
	}
	return nil
}

// notRun reports whether an error promises that no handler has run or will run.
func notRun(err error) bool {
	return errors.Is(err, cluster.ErrNotActive) || errors.Is(err, cluster.ErrTooLarge) ||
		errors.Is(err, cluster.ErrUnknownType) || errors.Is(err, cluster.ErrBusy) ||
		errors.Is(err, cluster.ErrNotDelivered)
}

// runSend sends numbered events to all nodes.
func runSend(p *proc, r *rand.Rand, lane int) {
	small, slow := r.IntN(3) > 0, r.IntN(4) == 0
	for n := 1; !p.hasEnded(); n++ {
		e := event{Run: p.run, Lane: lane, N: n, Pad: makePad(n, r.IntN(200))}
		switch {
		case !small && r.IntN(10) == 0:
			e.Pad = makePad(n, r.IntN(p.plan.payloadSize(cluster.MaxEventBytes+1000)))
		case slow && r.IntN(20) == 0:
			e.Slow = drawTime(r, 0, time.Second)
		}
		e.Fails = r.IntN(20) == 0
		p.sendEvent(r, e)
		if r.IntN(4) > 0 {
			p.takeRest(r, 60*time.Millisecond)
		}
	}
}

// runBurst sends more large events than fit into the queue of their handler, which is slow, so that
// connections are replaced while events wait.
func runBurst(p *proc, r *rand.Rand, lane int) {
	for n := 1; !p.hasEnded(); {
		p.takeRest(r, 4*time.Second)
		to := r.IntN(p.plan.Size)
		for range r.IntN(40) {
			e := event{Run: p.run, Lane: lane, N: n, Slow: drawTime(r, 0, 60*time.Millisecond)}
			e.Pad = makePad(n, p.plan.payloadSize(64<<10))
			err := p.timeCall("Send", 2*time.Second, func(ctx context.Context) error {
				return p.n.Send(ctx, p.Address(to), e)
			})
			p.recordSent(e, to, err, false)
			if n++; err != nil {
				break
			}
		}
	}
}

// chatInterval is the time between the bursts of runChat.
const chatInterval = 250 * time.Millisecond

// runChat sends small events in bursts. All nodes begin at the same instant, and pairs of nodes
// send to each other, so both dial if they have no connection: events then use two connections.
func runChat(p *proc, _ *rand.Rand, lane int) {
	for n := 1; !p.hasEnded(); {
		next := time.Now().Truncate(chatInterval).Add(chatInterval)
		sleepUntil(p.life, time.Until(next))
		size := p.plan.Size
		to := (int(next.UnixNano()/int64(chatInterval))%size + size - p.node) % size
		for range 20 {
			e := event{Run: p.run, Lane: lane, N: n}
			err := p.timeCall("Send", time.Second, func(ctx context.Context) error {
				return p.n.Send(ctx, p.Address(to), e)
			})
			p.recordSent(e, to, err, false)
			if n++; err != nil {
				break
			}
			passTime(time.Millisecond)
		}
	}
}

// sendEvent sends an event in a randomly chosen way.
func (p *proc) sendEvent(r *rand.Rand, e event) {
	to := r.IntN(p.plan.Size)
	limit := drawTime(r, 0, 3*time.Second)
	switch r.IntN(8) {
	case 0:
		e.Lane = -e.Lane - 1
		_ = p.timeCall("Send BestEffort", limit, func(ctx context.Context) error {
			return p.n.Send(ctx, p.Address(to), datagram{e}, cluster.BestEffort())
		})
	case 1, 2:
		p.broadcastEvent(e, limit)
	case 3, 4:
		err := p.timeCall("Send with outcome", limit, func(ctx context.Context) error {
			return p.n.Send(ctx, p.Address(to), e, cluster.WithOutcome(p.outcomeOf(e)))
		})
		p.recordSent(e, to, err, true)
	default:
		err := p.timeCall("Send", limit, func(ctx context.Context) error {
			return p.n.Send(ctx, p.Address(to), e)
		})
		p.recordSent(e, to, err, false)
	}
}

func (p *proc) broadcastEvent(e event, limit time.Duration) {
	var results []cluster.Result
	outcome := e.N%2 == 0
	err := p.timeCall("Broadcast", limit, func(ctx context.Context) error {
		opts := []cluster.SendOption{cluster.WithResults(&results), cluster.WithSelf()}
		if outcome {
			opts = append(opts, cluster.WithOutcome(p.outcomeOf(e)))
		}
		return p.n.Broadcast(ctx, e, opts...)
	})
	to := map[int]error{}
	for _, result := range results {
		to[p.nodeAt(result.To.Address)] = result.Err
	}
	for node := range p.plan.Size {
		if failed, ok := to[node]; ok {
			p.recordSent(e, node, failed, outcome)
		} else {
			p.recordSent(e, node, fmt.Errorf("%w: not among the results: %w", cluster.ErrNotDelivered, err),
				outcome)
		}
	}
}

func (w *world) nodeAt(addr member.Address) int {
	for node := range w.plan.Size {
		if w.Cluster.Address(node) == addr {
			return node
		}
	}
	return -1
}

// recordSent records the result of a Send.
func (p *proc) recordSent(e event, to int, err error, outcome bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flowLocked(flowKey{e.Run, e.Lane, to})
	switch {
	case p.dead:
	case err == nil && outcome:
		f.pending[e.N]++
	case err != nil && outcome && f.pending[e.N] != 0:
		p.failLocked("outcome", "event %d of run %d to node %d has an outcome, but Send failed: %v",
			e.N, e.Run, to, err)
	}
	if notRun(err) {
		p.refuseLocked(e, to, err)
	}
}

// refuseLocked records that no handler may get an event. p.mu must be held.
func (p *proc) refuseLocked(e event, to int, err error) {
	f := p.flowLocked(flowKey{e.Run, e.Lane, to})
	if f.refused[e.N] = true; f.handled[e.N] {
		p.failLocked("refused", "event %d of run %d was handled by node %d, but: %v", e.N, e.Run, to, err)
	}
}

// outcomeOf returns the function that gets the outcomes of an event.
func (p *proc) outcomeOf(e event) func(member.Address, error) {
	return func(at member.Address, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		to := p.nodeAt(at)
		f := p.flowLocked(flowKey{e.Run, e.Lane, to})
		_, failed := errors.AsType[*cluster.HandlerError](err)
		f.pending[e.N]--
		switch {
		case p.dead:
		case f.pending[e.N] < -1:
			p.failLocked("outcome", "event %d of run %d to node %d has two outcomes, the second is %v",
				e.N, e.Run, to, err)
		case (err == nil || failed) && (!f.handled[e.N] || e.Fails != failed):
			p.failLocked("outcome", "event %d of run %d to node %d: outcome %v, handled: %v, fails: %v",
				e.N, e.Run, to, err, f.handled[e.N], e.Fails)
		case notRun(err):
			p.refuseLocked(e, to, err)
		}
	}
}

// checkOutcomes checks that a process that has ended got the outcomes of all its events.
func (p *proc) checkOutcomes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, f := range p.flows {
		for n, pending := range f.pending {
			if key.run == p.run && pending != 0 && !p.dead {
				p.failLocked("outcome", "event %d of %v has %d outcomes too few", n, key, pending)
			}
		}
	}
}
