// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// graph is a drawn graph of types whose handlers send to each other, and the load on it. A plan
// with a graph has no faults and no applications.
type graph struct {
	Types [len(hopTypes)]hopType
	Loads []hopLoad
}

// hopType is a type of events or requests: its options, and what its handler does.
type hopType struct {
	Queue       int             `json:",omitempty"` // length; 0 means the default
	Policy      receiver.Policy `json:",omitempty"`
	Concurrency int             `json:",omitempty"` // 0 means the default
	Steps       []hopStep
}

// hopStep is one call of a handler or of a sender outside of handlers.
type hopStep struct {
	Verb  string
	To    string        `json:",omitempty"` // of send and request
	Type  int           `json:",omitempty"` // index in hopTypes
	Bytes int           `json:",omitempty"` // of the payload
	Sleep time.Duration `json:",omitempty"` // of sleep
	// Foreign makes a handler send with a context that is not its own.
	Foreign bool `json:",omitempty"`
}

// hopLoad is a number of goroutines outside of handlers that repeat a step.
type hopLoad struct {
	hopStep
	Member, Senders, Events int
	Left, Calls             int // of each hop
}

// The verbs of steps, and the members that they send to.
const (
	verbSend          = "send"
	verbOutcome       = "send with outcome"
	verbBroadcast     = "broadcast"
	verbRequest       = "request"
	verbRequestLeader = "request leader"
	verbSleep         = "sleep"

	toSender = "sender"
	toNext   = "next"
	toSelf   = "self"
	toOther  = "other" // drawn by the hop
)

// hop is the content of every event and request of a graph.
type hop struct {
	Left  int // depth that is left
	Calls int // events and requests that the handlers may still send because of this one
	Lane  int // from 1: the sender outside of handlers; 0 in handlers
	N     int // counts up in a lane
	Draw  uint64
	Pad   []byte
}

// hopA to hopC are the events, hopQ and hopR the requests.
type (
	hopA  hop
	hopB  hop
	hopC  hop
	hopQ  hop
	hopR  hop
	reply struct{}
)

const firstRequest = 3 // index in hopTypes

// hopTypes returns a hop as each of the types.
var hopTypes = [...]func(h hop) any{
	func(h hop) any { return hopA(h) },
	func(h hop) any { return hopB(h) },
	func(h hop) any { return hopC(h) },
	func(h hop) any { return hopQ(h) },
	func(h hop) any { return hopR(h) },
}

// drawGraph draws a graph and its load of at most about 1,500 events and 12 MB.
func drawGraph(r *rand.Rand) *graph {
	g := &graph{}
	foreign := r.IntN(8) == 0
	few := r.IntN(3) == 0 // handlers
	for i := range g.Types {
		n := hopType{
			Queue:  pickOne(r, 0, 1, 1+r.IntN(16), 1+r.IntN(128)),
			Policy: pickOne(r, receiver.Block, receiver.Block, receiver.Drop, receiver.Reject),
		}
		if n.Queue == 0 {
			n.Policy = receiver.Block
		}
		switch {
		case few:
			n.Concurrency = pickOne(r, 0, 1, 1+r.IntN(enoughHandlers), 64)
		default:
			n.Concurrency = pickOne(r, 0, 0, enoughHandlers, enoughHandlers+r.IntN(32))
		}
		for range 1 + r.IntN(3) {
			s := drawStep(r)
			s.Foreign = foreign && r.IntN(2) == 0
			n.Steps = append(n.Steps, s)
		}
		if r.IntN(3) == 0 {
			n.Steps = append(n.Steps, hopStep{Verb: verbSleep, Sleep: drawTime(r, 0, 5*time.Millisecond)})
		}
		g.Types[i] = n
	}
	left, calls, total := r.IntN(9), r.IntN(9), 200+r.IntN(1300)
	for count := 1 + r.IntN(8); len(g.Loads) < count; {
		l := hopLoad{hopStep: drawStep(r), Member: r.IntN(5), Senders: 1, Left: left, Calls: calls}
		if l.Verb == verbRequest || l.Verb == verbRequestLeader || r.IntN(2) == 0 {
			l.Senders = pickOne(r, 1, 10, 100, 200)
		}
		l.Events = 1 + total/count/(1+calls)/l.Senders
		g.Loads = append(g.Loads, l)
	}
	return g
}

func drawStep(r *rand.Rand) hopStep {
	s := hopStep{
		Verb: pickOne(r, verbSend, verbSend, verbSend, verbOutcome, verbBroadcast, verbRequest,
			verbRequest, verbRequestLeader),
		To:    pickOne(r, toSender, toSender, toNext, toSelf, toOther),
		Type:  r.IntN(firstRequest),
		Bytes: pickOne(r, 10, 1000, 4000, 4000, 20_000, r.IntN(100_000)),
	}
	if s.Verb == verbRequest || s.Verb == verbRequestLeader {
		s.Type = firstRequest + r.IntN(len(hopTypes)-firstRequest)
	}
	return s
}

// enoughHandlers is the least Concurrency with handlers that are kept for calls of handlers.
const enoughHandlers = 32

// maxStill returns how long nothing may be handled while calls are pending. Handlers wait for each
// other for about 5 s at most if their types have too few handlers or if they send with other
// contexts, and otherwise not at all.
func (g *graph) maxStill() time.Duration {
	for _, n := range g.Types {
		if n.Concurrency > 0 && n.Concurrency < enoughHandlers {
			return 12 * time.Second
		}
		for _, s := range n.Steps {
			if s.Foreign {
				return 12 * time.Second
			}
		}
	}
	return 2 * time.Second
}

// graphWorld is a cluster that runs a graph.
type graphWorld struct {
	*world
	net     *memnet.Network
	nodes   []*cluster.Node
	pending atomic.Int64 // calls that have not returned, or whose outcome is not known
	moved   atomic.Int64 // how often a handler began or returned
	closing atomic.Bool
	// accepted and handled count the events of each type.
	accepted, handled [len(hopTypes)]atomic.Int64
	last              map[flowKey]int // N of the last hop of each lane at each member; see world.mu
}

// playGraph runs a plan with a graph.
func (w *world) playGraph(t *testing.T) {
	g := &graphWorld{
		world: w, net: memnet.New(), nodes: make([]*cluster.Node, w.plan.Size), last: map[flowKey]int{},
	}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		defer w.countSeconds()()
		g.startNodes()
		var senders sync.WaitGroup
		lane := 0
		for _, l := range w.plan.Graph.Loads {
			for range l.Senders {
				lane++
				senders.Go(g.senderOf(l, lane))
			}
		}
		g.watchProgress()
		g.closing.Store(true)
		for i, n := range g.nodes {
			if err := n.Close(); err != nil {
				g.failRun("close", "node %d: %v", i, err)
			}
		}
		senders.Wait()
		if pending := g.pending.Load(); pending != 0 {
			g.failRun("outcome", "%d outcomes are missing after Close", pending)
		}
	})
}

func graphAddress(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7001 + i)}
}

// startNodes starts all nodes and waits until they are active.
func (g *graphWorld) startNodes() {
	var starts sync.WaitGroup
	for i := range g.nodes {
		cfg := cluster.Config{
			Addr: graphAddress(i).String(), Name: fmt.Sprint("n", i), Size: g.plan.Size, Memory: true,
			Receiver: receiver.NewMux(),
		}
		for seed := range g.nodes {
			cfg.Seeds = append(cfg.Seeds, graphAddress(seed).String())
		}
		registerHop[hopA](g, i, 0, cfg.Receiver)
		registerHop[hopB](g, i, 1, cfg.Receiver)
		registerHop[hopC](g, i, 2, cfg.Receiver)
		registerRequest[hopQ](g, i, 3, cfg.Receiver)
		registerRequest[hopR](g, i, 4, cfg.Receiver)
		listen := func(transport.Config) (transport.Network, error) {
			return g.net.Listen(graphAddress(i))
		}
		starts.Go(func() {
			n, err := cluster.Start(context.Background(), cfg, cluster.WithTransport(listen),
				cluster.WithClock(time.Now), cluster.WithLogger(slog.New(slog.DiscardHandler)))
			if err == nil {
				err = n.WaitActive(context.Background(), g.plan.Size)
			}
			if g.nodes[i] = n; err != nil {
				panic(err)
			}
		})
	}
	starts.Wait()
}

func registerHop[E hopA | hopB | hopC](g *graphWorld, at, typ int, mux *receiver.Mux) {
	receiver.Handle(mux, func(ctx context.Context, from member.Member, e E) error {
		return g.onHop(ctx, at, typ, from.Address, hop(e))
	}, g.optionsOf(typ)...)
}

func registerRequest[E hopQ | hopR](g *graphWorld, at, typ int, mux *receiver.Mux) {
	receiver.HandleRequest(mux, func(ctx context.Context, from member.Member, e E) (reply, error) {
		return reply{}, g.onHop(ctx, at, typ, from.Address, hop(e))
	}, g.optionsOf(typ)...)
}

func (g *graphWorld) optionsOf(typ int) (opts []receiver.Option) {
	n := g.plan.Graph.Types[typ]
	if n.Queue > 0 {
		opts = append(opts, receiver.Queue(n.Queue, n.Policy))
	}
	if n.Concurrency > 0 {
		opts = append(opts, receiver.Concurrency(n.Concurrency))
	}
	return opts
}

// onHop is the handler of all types. It checks the order of events and takes the steps of its type.
func (g *graphWorld) onHop(
	ctx context.Context, at, typ int, from member.Address, h hop,
) (failed error) {
	g.moved.Add(1)
	g.handled[typ].Add(1)
	defer g.moved.Add(1)
	if typ < firstRequest && h.Lane > 0 {
		g.mu.Lock()
		key := flowKey{lane: h.Lane, to: at}
		if last := g.last[key]; h.N <= last {
			g.failLocked("order", "event %d of lane %d reached node %d after %d", h.N, h.Lane, at, last)
		}
		g.last[key] = h.N
		g.mu.Unlock()
	}
	steps := g.plan.Graph.Types[typ].Steps
	for i, s := range steps {
		if s.Verb == verbSleep {
			sleepUntil(ctx, s.Sleep)
			continue
		}
		copies := 1
		if s.Verb == verbBroadcast {
			copies = len(g.nodes)
		}
		given := max(h.Calls/(len(steps)-i), copies) // for this step and what follows from it
		if h.Left == 0 || given > h.Calls {
			continue
		}
		h.Calls -= given
		h.Draw = h.Draw*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		ctx := ctx
		if s.Foreign {
			ctx = context.Background()
		}
		err := g.takeStep(ctx, at, from, s, hop{
			Left: h.Left - 1, Calls: given/copies - 1, Draw: h.Draw, Pad: make([]byte, s.Bytes),
		})
		failed = errors.Join(failed, err)
	}
	return failed
}

// senderOf returns a function that sends the events of one sender outside of handlers.
func (g *graphWorld) senderOf(l hopLoad, lane int) func() {
	r := rand.New(rand.NewPCG(g.plan.Seed, uint64(lane)))
	at, pad := l.Member%len(g.nodes), make([]byte, l.Bytes)
	return func() {
		for n := range l.Events {
			_ = g.takeStep(context.Background(), at, graphAddress(at), l.hopStep, hop{
				Left: l.Left, Calls: l.Calls, Lane: lane, N: n + 1, Draw: r.Uint64(), Pad: pad,
			})
		}
	}
}

// takeStep makes one call and checks its error.
func (g *graphWorld) takeStep(
	ctx context.Context, at int, from member.Address, s hopStep, h hop,
) (err error) {
	n, event := g.nodes[at], hopTypes[s.Type](h)
	to := map[string]member.Address{
		toSender: from, toSelf: graphAddress(at), toNext: graphAddress((at + 1) % len(g.nodes)),
		toOther: graphAddress(int(h.Draw>>32) % len(g.nodes)),
	}[s.To]
	g.calls.Add(1)
	g.pending.Add(1)
	defer g.pending.Add(-1)
	switch s.Verb {
	case verbSend:
		err = n.Send(ctx, to, event)
		g.countAccepted(s.Type, err)
	case verbOutcome:
		g.pending.Add(1)
		err = n.Send(ctx, to, event, cluster.WithOutcome(func(_ member.Address, err error) {
			g.checkError(s, err)
			g.countAccepted(s.Type, err)
			g.pending.Add(-1)
		}))
		if err != nil {
			g.pending.Add(-1)
		}
	case verbBroadcast:
		var results []cluster.Result
		err = n.Broadcast(ctx, event, cluster.WithResults(&results), cluster.WithSelf())
		for _, result := range results {
			g.checkError(s, result.Err)
			g.countAccepted(s.Type, result.Err)
		}
		return err
	case verbRequest:
		_, err = cluster.Request[reply](ctx, n, to, event)
	case verbRequestLeader:
		_, err = cluster.RequestLeader[reply](ctx, n, event)
	}
	g.checkError(s, err)
	return err
}

// countAccepted counts an event that a handler gets, unless a queue drops it.
func (g *graphWorld) countAccepted(typ int, err error) {
	if _, failed := errors.AsType[*cluster.HandlerError](err); err == nil || failed {
		g.accepted[typ].Add(1)
	}
}

// checkError checks that a call has succeeded, or was refused for one of the reasons that exist
// without faults.
func (g *graphWorld) checkError(s hopStep, err error) {
	_, failed := errors.AsType[*cluster.HandlerError](err)
	if err != nil && !failed && !errors.Is(err, cluster.ErrBusy) && !g.closing.Load() {
		g.failRun("error", "%+v: %v", s, err)
	}
}

// watchProgress returns when nothing is left to do, or after a minute: handlers that wait for each
// other again and again take that long. It fails the run if nothing is handled for too long.
func (g *graphWorld) watchProgress() {
	const every = 250 * time.Millisecond
	limit := g.plan.Graph.maxStill()
	before, still := int64(-1), time.Duration(0)
	for began := time.Now(); time.Since(began) < time.Minute; still += every {
		time.Sleep(every)
		now, pending, queued := g.moved.Load(), g.pending.Load(), g.countQueued()
		if now != before {
			before, still = now, 0
		}
		switch {
		case still > limit:
			g.failRun("still", "nothing was handled for %v; %d calls are pending and %d events queued:\n%s",
				still, pending, queued, stacksWith("bubble"))
			return
		case still >= time.Second && pending == 0 && queued == 0:
			g.checkHandled()
			return
		}
	}
}

// countQueued returns the number of events in the queues of all nodes.
func (g *graphWorld) countQueued() (queued int) {
	for _, n := range g.nodes {
		for _, s := range n.Status().Receivers {
			queued += s.Queued
		}
	}
	return queued
}

// checkHandled checks that all accepted events were handled if their queue drops none.
func (g *graphWorld) checkHandled() {
	for typ, n := range g.plan.Graph.Types[:firstRequest] {
		if got, want := g.handled[typ].Load(), g.accepted[typ].Load(); got > want ||
			got < want && n.Policy == receiver.Block {
			g.failRun("lost", "%d events of type %d were accepted, %d handled", want, typ, got)
		}
	}
}
