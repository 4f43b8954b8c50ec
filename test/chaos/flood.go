// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

const (
	// floodTimeout bounds a Send. One context serves many sends and is replaced after floodRenewal, so
	// that some sends have a context that has almost expired.
	floodTimeout = 5 * time.Second
	floodRenewal = time.Second
	// floodPause is the pause after a failed Send, because Send to a member that is gone fails
	// immediately.
	floodPause = 5 * time.Millisecond

	// Most events have a body of up to smallBytes, but one in largeFloodEvery has a body of up to
	// largeFloodBytes.
	leastBytes      = 32
	smallBytes      = 200
	largeFloodEvery = 50
	leastLargeBytes = 1 << 10
	largeFloodBytes = 20 << 10
	noiseBytes      = 64 << 10

	// A slow handler sleeps up to napTime once every napEvery events, and sleepTime once
	// every sleepEvery.
	napEvery   = 2000
	napTime    = 5 * time.Millisecond
	sleepEvery = 20 * time.Second
	sleepTime  = 2 * time.Second
)

// The lines that the runner sends to a node during a flood.
const (
	lineStop = "stop"  // stop sending
	lineSend = "send " // followed by the name of a node: start sending to it
)

// floodTask makes a node send events as fast as it can, or with pauses between them.
type floodTask struct {
	Run   int           // number of this start of the node, from 1
	Dir   string        // folder of the recordings
	Room  uint64        // capacity of a recording, in events
	To    []string      // nodes that get events from the start
	Bytes int           // size of each body; 0 for mixed sizes
	Every time.Duration // pause between two events to a node
	Slow  bool          // the handler sleeps sometimes
	Stuck bool          // the handler never returns
	Work  bool          // the node also leads a job, takes a lock and runs shards
}

// flooded is the event of a flood.
type flooded struct {
	From string
	Run  int
	Seq  uint64
	Sum  uint32
	Body []byte
}

// checksum returns the checksum of the other fields of the event.
func (e *flooded) checksum() uint32 {
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:8], uint64(e.Run))
	binary.LittleEndian.PutUint64(head[8:], e.Seq)
	table := crc32.MakeTable(crc32.Castagnoli) // cached by the package
	c := crc32.Update(0, table, head[:])
	c = crc32.Update(c, table, []byte(e.From))
	return crc32.Update(c, table, e.Body)
}

// flood is the state of a node in a flood.
type flood struct {
	task  floodTask
	name  string
	node  *cluster.Node
	addrs map[string]member.Address
	sent  map[string]*recording[uint32]
	heard map[member.Address]*incoming
	noise []byte

	ctx     context.Context // done when the node must stop sending
	stop    context.CancelFunc
	senders sync.WaitGroup
	idle    atomic.Bool // all senders have finished
}

// incoming is what the node receives from one sender.
type incoming struct {
	name      string
	recording *recording[uint64]
	inside    atomic.Int32 // number of running handlers
	slept     time.Time    // time of the last sleep
	left      int          // events until the next nap
}

// newFlood creates the recordings of a node.
func newFlood(t nodeTask) (*flood, error) {
	f := &flood{
		task: *t.Flood, name: t.Name, addrs: map[string]member.Address{},
		sent: map[string]*recording[uint32]{}, heard: map[member.Address]*incoming{},
		noise: make([]byte, noiseBytes),
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	source := rand.NewChaCha8([32]byte{byte(f.task.Run)})
	_, _ = source.Read(f.noise) // never fails
	for address, other := range t.Names {
		if other == t.Name {
			continue
		}
		to, err := member.ParseAddress(address)
		if err != nil {
			return nil, err
		}
		f.addrs[other] = to
		path := func(end string) string {
			return recordingPath(f.task.Dir, t.Name, f.task.Run, other, end)
		}
		h := &incoming{name: other, slept: time.Now(), left: napEvery}
		f.heard[to] = h
		if h.recording, err = createRecording[uint64](path(heardEnd), f.task.Room); err != nil {
			return nil, err
		}
		if f.sent[other], err = createRecording[uint32](path(sentEnd), f.task.Room); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// addHandler registers the handler.
func (f *flood) addHandler(mux *receiver.Mux) { receiver.Handle(mux, f.onFlooded) }

// startSending starts sending to the nodes of the task.
func (f *flood) startSending(n *cluster.Node) {
	f.node = n
	for _, name := range f.task.To {
		f.startSendingTo(name)
	}
}

// runLine executes a line of the runner.
func (f *flood) runLine(line string) {
	if name, ok := strings.CutPrefix(line, lineSend); ok {
		f.startSendingTo(name)
	}
	if line == lineStop {
		f.stop()
		go func() {
			f.senders.Wait()
			f.idle.Store(true)
		}()
	}
}

// startSendingTo starts sending to a node.
func (f *flood) startSendingTo(name string) {
	if tape, known := f.sent[name]; known {
		f.senders.Go(func() { f.sendEvents(f.addrs[name], tape) })
	}
}

// sendEvents sends numbered events to one member, one at a time, until it must stop.
func (f *flood) sendEvents(to member.Address, tape *recording[uint32]) {
	random := rand.New(rand.NewPCG(uint64(f.task.Run), uint64(to.Port)))
	for next := uint64(1); next > 0 && f.ctx.Err() == nil; {
		next = f.sendSome(to, tape, random, next)
	}
}

// sendSome sends with one context until a Send fails or the context has to be replaced. It returns
// the number of the next event, or 0 if the recording is full.
func (f *flood) sendSome(
	to member.Address, tape *recording[uint32], random *rand.Rand, seq uint64,
) (next uint64) {
	ctx, cancel := context.WithTimeout(f.ctx, floodTimeout)
	defer cancel()
	for since := time.Now(); time.Since(since) < floodRenewal; seq++ {
		if !noteTry(tape, seq) {
			return 0
		}
		e := flooded{From: f.name, Run: f.task.Run, Seq: seq, Body: f.makeBody(random)}
		e.Sum = e.checksum()
		err := f.node.Send(ctx, to, e, cluster.WithOutcome(func(_ member.Address, err error) {
			noteOutcome(tape, e.Seq, outcomeMark(err))
		}))
		noteSent(tape, seq, err)
		if err != nil {
			time.Sleep(floodPause)
			return seq + 1
		}
		time.Sleep(f.task.Every)
	}
	return seq
}

// makeBody returns a slice of the noise.
func (f *flood) makeBody(random *rand.Rand) []byte {
	size := leastBytes + random.IntN(smallBytes-leastBytes+1)
	switch {
	case f.task.Bytes > 0:
		size = f.task.Bytes
	case random.IntN(largeFloodEvery) == 0:
		size = leastLargeBytes + random.IntN(largeFloodBytes-leastLargeBytes+1)
	}
	at := random.IntN(len(f.noise) - size + 1)
	return f.noise[at : at+size]
}

// outcomeMark returns the mark for an outcome.
func outcomeMark(err error) uint32 {
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, cluster.ErrUnknownOutcome), errors.Is(err, cluster.ErrClosed):
		return outcomeUnknown
	default:
		return outcomeNotRun
	}
}

func (f *flood) onFlooded(_ context.Context, from member.Member, e flooded) error {
	h := f.heard[from.Address]
	if h == nil {
		fmt.Fprintln(os.Stderr, "chaos: evidence: event from an unknown sender:", from)
		os.Exit(exitEvidence)
	}
	mark := heardOf(e.Run, e.Seq)
	if e.From != h.name || e.Sum != e.checksum() {
		mark |= heardBad
	}
	if h.inside.Add(1) > 1 {
		mark |= heardBeside
	}
	at := noteHeard(h.recording, mark)
	if at == nil {
		fmt.Fprintln(os.Stderr, "chaos: evidence: the recording is full:", h.name)
		os.Exit(exitEvidence)
	}
	if f.task.Stuck {
		select {}
	}
	if f.task.Slow {
		h.sleepSometimes()
	}
	h.inside.Add(-1)
	atomic.StoreUint64(at, mark|heardReturned)
	return nil
}

// sleepSometimes sleeps if a nap or a sleep is due.
func (h *incoming) sleepSometimes() {
	now := time.Now()
	h.left--
	switch {
	case now.Sub(h.slept) > sleepEvery:
		time.Sleep(sleepTime)
		h.slept = time.Now()
	case h.left <= 0:
		h.left = napEvery
		time.Sleep(rand.N(napTime))
	default:
		return
	}
	atomic.AddUint64(&h.recording.head.Slept, 1)
}

// isIdle reports whether the node has stopped sending and knows all outcomes.
func (f *flood) isIdle() bool {
	if !f.idle.Load() {
		return false
	}
	for _, t := range f.sent {
		// Accepted is read last, because an outcome may arrive before Send returns.
		known := atomic.LoadUint64(&t.head.Done) + atomic.LoadUint64(&t.head.Lost)
		if known < atomic.LoadUint64(&t.head.Accepted) {
			return false
		}
	}
	return true
}

// reportDone marks the recordings as complete: no outcome arrives after this.
func (f *flood) reportDone() {
	f.stop()
	f.senders.Wait()
	for _, t := range f.sent {
		atomic.StoreUint64(&t.head.Ended, 1)
	}
}
