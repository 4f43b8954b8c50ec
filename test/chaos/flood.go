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
	// floodTimeout bounds a Send. Its context serves many sends, and is made anew
	// after floodRenewal: Send may also find it nearly over.
	floodTimeout = 5 * time.Second
	floodRenewal = time.Second
	// floodPause follows a Send that failed, as one to a member that is gone does
	// at once.
	floodPause = 5 * time.Millisecond

	// Most events have a body of up to smallBytes, every largeFloodEvery-th one of up
	// to largeFloodBytes.
	leastBytes      = 32
	smallBytes      = 200
	largeFloodEvery = 50
	leastLargeBytes = 1 << 10
	largeFloodBytes = 20 << 10
	noiseBytes      = 64 << 10

	// A slow handler sleeps up to napTime every napEvery events, and sleepTime after
	// sleepEvery.
	napEvery   = 2000
	napTime    = 5 * time.Millisecond
	sleepEvery = 20 * time.Second
	sleepTime  = 2 * time.Second
)

// What the runner says to a node that floods, a line each.
const (
	sayStop = "stop"  // sends no more
	saySend = "send " // and the name of a node: begins to send to it
)

// floodTask makes a node send as fast as it can, or at a pace.
type floodTask struct {
	Run   int           // number of this start of the node, from 1
	Dir   string        // of the tapes
	Room  uint64        // events for which a tape has room
	To    []string      // nodes that it sends to from its start on
	Bytes int           // of each body; 0 for mixed sizes
	Every time.Duration // between two events to one node; 0 for none
	Slow  bool          // its handler sleeps now and then
	Stuck bool          // its handler never returns
}

// flooded is the event that these nodes send each other.
type flooded struct {
	From string
	Run  int
	Seq  uint64
	Sum  uint32
	Body []byte
}

// checksum is the checksum over all that the event says.
func (e *flooded) checksum() uint32 {
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:8], uint64(e.Run))
	binary.LittleEndian.PutUint64(head[8:], e.Seq)
	table := crc32.MakeTable(crc32.Castagnoli) // made once, by the package
	c := crc32.Update(0, table, head[:])
	c = crc32.Update(c, table, []byte(e.From))
	return crc32.Update(c, table, e.Body)
}

// flood is what a node sends and gets.
type flood struct {
	task  floodTask
	name  string
	node  *cluster.Node
	addrs map[string]member.Address
	sent  map[string]*tape[uint32]
	heard map[member.Address]*hearing
	noise []byte

	ctx     context.Context // until it is to stop
	stop    context.CancelFunc
	senders sync.WaitGroup
	idle    atomic.Bool // all senders are done
}

// hearing is what comes from one node.
type hearing struct {
	name   string
	tape   *tape[uint64]
	inside atomic.Int32 // handlers that run
	slept  time.Time    // when it slept last
	left   int          // events until the next nap
}

// newFlood makes the tapes of a node.
func newFlood(t nodeTask) (*flood, error) {
	f := &flood{
		task: *t.Flood, name: t.Name, addrs: map[string]member.Address{},
		sent: map[string]*tape[uint32]{}, heard: map[member.Address]*hearing{},
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
		path := func(end string) string { return tapePath(f.task.Dir, t.Name, f.task.Run, other, end) }
		h := &hearing{name: other, slept: time.Now(), left: napEvery}
		f.heard[to] = h
		if h.tape, err = makeTape[uint64](path(heardEnd), f.task.Room); err != nil {
			return nil, err
		}
		if f.sent[other], err = makeTape[uint32](path(sentEnd), f.task.Room); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// addHandler adds the handler.
func (f *flood) addHandler(mux *receiver.Mux) { receiver.Handle(mux, f.onFlooded) }

// startSending sends to those whom the task names.
func (f *flood) startSending(n *cluster.Node) {
	f.node = n
	for _, name := range f.task.To {
		f.startSendingTo(name)
	}
}

// obeyLine does what the runner says.
func (f *flood) obeyLine(line string) {
	if name, ok := strings.CutPrefix(line, saySend); ok {
		f.startSendingTo(name)
	}
	if line == sayStop {
		f.stop()
		go func() {
			f.senders.Wait()
			f.idle.Store(true)
		}()
	}
}

// startSendingTo begins to send to a node.
func (f *flood) startSendingTo(name string) {
	if tape, known := f.sent[name]; known {
		f.senders.Go(func() { f.sendEvents(f.addrs[name], tape) })
	}
}

// sendEvents sends numbered events to one member until it is to stop, each in its turn.
func (f *flood) sendEvents(to member.Address, tape *tape[uint32]) {
	random := rand.New(rand.NewPCG(uint64(f.task.Run), uint64(to.Port)))
	for next := uint64(1); next > 0 && f.ctx.Err() == nil; {
		next = f.sendSome(to, tape, random, next)
	}
}

// sendSome sends with one context, until a Send fails or it is time for another
// one. It returns the number of the next event, 0 where there is no room for it.
func (f *flood) sendSome(
	to member.Address, tape *tape[uint32], random *rand.Rand, seq uint64,
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
			noteTold(tape, e.Seq, outcomeMark(err))
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

// makeBody is a part of the noise.
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

// outcomeMark says which mark an outcome leaves.
func outcomeMark(err error) uint32 {
	switch {
	case err == nil:
		return toldDone
	case errors.Is(err, cluster.ErrUnknownOutcome), errors.Is(err, cluster.ErrClosed):
		return toldUnknown
	default:
		return toldNotRun
	}
}

func (f *flood) onFlooded(_ context.Context, from member.Member, e flooded) error {
	h := f.heard[from.Address]
	if h == nil {
		fmt.Fprintln(os.Stderr, "chaos: evidence: an event of a stranger:", from)
		os.Exit(exitEvidence)
	}
	mark := heardOf(e.Run, e.Seq)
	if e.From != h.name || e.Sum != e.checksum() {
		mark |= heardBad
	}
	if h.inside.Add(1) > 1 {
		mark |= heardBeside
	}
	at := noteHeard(h.tape, mark)
	if at == nil {
		fmt.Fprintln(os.Stderr, "chaos: evidence: no room for an event of", h.name)
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

// sleepSometimes sleeps now and then.
func (h *hearing) sleepSometimes() {
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
	atomic.AddUint64(&h.tape.head.Slept, 1)
}

// isIdle reports whether it has stopped and knows all outcomes.
func (f *flood) isIdle() bool {
	if !f.idle.Load() {
		return false
	}
	for _, t := range f.sent {
		// Taken last: an event may be told before Send returns.
		known := atomic.LoadUint64(&t.head.Done) + atomic.LoadUint64(&t.head.Lost)
		if known < atomic.LoadUint64(&t.head.Taken) {
			return false
		}
	}
	return true
}

// reportDone says that the process was done in order: no outcome comes after this.
func (f *flood) reportDone() {
	f.stop()
	f.senders.Wait()
	for _, t := range f.sent {
		atomic.StoreUint64(&t.head.Ended, 1)
	}
}
