// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// bus is a cluster of machines with a virtual clock. A message arrives after one latency, or is
// lost if its link is cut. Package sim adds random faults; here each test controls the steps.
type bus struct {
	t       *testing.T
	now     time.Time
	latency time.Duration
	nodes   []*node
	wire    []flight
	seeds   []member.Address
	size    int
	timings message.Timings
	// cut reports whether a message is lost.
	cut func(message.Message) bool
	// sent collects every message with the time at which it was sent.
	sent []flight
}

type node struct {
	*statemachine.Machine
	addr    member.Address
	durable paxos.Durable
	up      bool
	stop    error
	trace   []statemachine.Trace
	answers []message.RecordResponse
	relayed []message.Message
	asked   uint64 // ID of the newest request
	conf    func(*statemachine.Config)
}

type flight struct {
	at  time.Time
	msg message.Message
}

// epoch is the start time of each bus.
var epoch = time.Unix(1000, 0)

var lan = message.Timings{
	HeartbeatInterval: 100 * time.Millisecond,
	HeartbeatTimeout:  400 * time.Millisecond,
	LeaderTimeout:     time.Second,
	LeaseTimeout:      time.Second,
	TTLTimeout:        10 * time.Second,
	RetryInterval:     500 * time.Millisecond,
}

// newBus returns a bus with a number of nodes n1, n2, ...; the first ones are seeds. It does not
// start the nodes.
func newBus(t *testing.T, size, seeds int) *bus {
	t.Helper()
	b := &bus{t: t, now: epoch, latency: time.Millisecond, size: size, timings: lan}
	for i := range size {
		b.add(i)
		if i < seeds {
			b.seeds = append(b.seeds, b.nodes[i].addr)
		}
	}
	return b
}

func (b *bus) add(i int) *node {
	n := &node{addr: addr(i)}
	n.durable.StoreID[0] = byte(i + 1)
	b.nodes = append(b.nodes, n)
	return n
}

func addr(i int) member.Address {
	return member.Address{Host: fmt.Sprintf("n%d", i+1), Port: 7000}
}

// start starts a new run of each node on its store.
func (b *bus) start(ids ...int) {
	b.t.Helper()
	for _, i := range ids {
		n := b.nodes[i]
		last := n.durable.Incarnation
		if last == 0 && !n.durable.Held.IsZero() {
			last = 1 // a test gave it a state
		}
		n.durable.Incarnation++
		cfg := statemachine.Config{
			Address: n.addr,
			Name:    n.addr.Host,
			Seeds:   b.seeds,
			Size:    b.size,
			Timings: b.timings,
			LastRun: last,
			Rand:    rand.New(rand.NewPCG(uint64(i), n.durable.Incarnation)),
		}
		cfg.NewStore = drawStore(cfg.Rand)
		if n.conf != nil {
			n.conf(&cfg)
		}
		n.Machine = statemachine.New(cfg, n.durable, b.now)
		n.up, n.stop = true, nil
		b.take(n, n.Advance(b.now))
	}
}

// drawStore returns a function that makes store ids from r.
func drawStore(r *rand.Rand) func() member.StoreID {
	return func() (id member.StoreID) {
		for i := 0; i < len(id); i += 8 {
			binary.LittleEndian.PutUint64(id[i:], r.Uint64())
		}
		return id
	}
}

func (b *bus) crash(ids ...int) {
	for _, i := range ids {
		b.nodes[i].up = false
	}
}

// take applies an output.
func (b *bus) take(n *node, out statemachine.Output) {
	b.t.Helper()
	if out.Persist != nil {
		n.durable = *out.Persist
	}
	n.trace = append(n.trace, out.Trace...)
	n.answers = append(n.answers, out.Answers...)
	n.relayed = append(n.relayed, out.Relayed...)
	for _, msg := range out.Send {
		b.sent = append(b.sent, flight{b.now, msg})
		if b.cut == nil || !b.cut(msg) {
			b.wire = append(b.wire, flight{b.now.Add(b.latency), msg})
		}
	}
	if out.Stop != nil {
		n.up, n.stop = false, out.Stop
	}
	if err := n.Check(); err != nil {
		b.t.Fatalf("at %v %v: %v", b.since(), n.addr, err)
	}
}

func (b *bus) since() time.Duration { return b.now.Sub(epoch) }

// step advances to the next message or timer, but not past the given end.
func (b *bus) step(end time.Time) bool {
	b.t.Helper()
	next := end
	var who *node
	for _, n := range b.nodes {
		if d := deadlineOf(n); !d.IsZero() && d.Before(next) {
			next, who = d, n
		}
	}
	if len(b.wire) > 0 && !b.wire[0].at.After(next) {
		f := b.wire[0]
		b.wire = b.wire[1:]
		b.now = f.at
		b.deliver(f.msg)
		return true
	}
	if who == nil {
		b.now = end
		return false
	}
	if next.After(b.now) {
		b.now = next
	}
	b.take(who, who.Advance(b.now))
	return true
}

func deadlineOf(n *node) time.Time {
	if !n.up {
		return time.Time{}
	}
	return n.Deadline()
}

// deliver delivers a message to every process at its address. Two processes at one address are a
// configuration error that nodes must survive.
func (b *bus) deliver(msg message.Message) {
	b.t.Helper()
	for _, n := range b.nodes {
		if n.addr == msg.To && n.up {
			b.take(n, n.Step(b.now, msg))
		}
	}
}

// run advances the clock by d.
func (b *bus) run(d time.Duration) {
	b.t.Helper()
	end := b.now.Add(d)
	for n := 0; b.step(end); n++ {
		if n > 1_000_000 {
			b.t.Fatalf("at %v: a million steps within %v", b.since(), d)
		}
	}
}

// until advances the clock until cond holds and returns the elapsed time. It fails the
// test after limit.
func (b *bus) until(limit time.Duration, what string, cond func() bool) time.Duration {
	b.t.Helper()
	from, end := b.now, b.now.Add(limit)
	for !cond() {
		if !b.step(end) {
			b.t.Fatalf("within %v: got no %s\n%s", limit, what, b)
		}
	}
	return b.now.Sub(from)
}

// quorate returns the index of the node with authority, or -1. It fails the test if there are two.
func (b *bus) quorate() int {
	b.t.Helper()
	found := -1
	for i, n := range b.nodes {
		if !n.up {
			continue
		}
		if v, _ := n.Authority(b.now); v != 0 {
			if found >= 0 {
				b.t.Fatalf("at %v: n%d and n%d both lead\n%s", b.since(), found+1, i+1, b)
			}
			found = i
		}
	}
	return found
}

// settled reports whether all running nodes follow one quorate leader and it has n active members.
func (b *bus) settled(active int) bool {
	b.t.Helper()
	l := b.quorate()
	if l < 0 {
		return false
	}
	for _, n := range b.nodes {
		if !n.up {
			continue
		}
		v := n.View(b.now)
		if v.Leader != b.nodes[l].addr || !v.Quorate || v.Members.Count(member.Active) != active {
			return false
		}
	}
	return true
}

// String returns each node's view.
func (b *bus) String() string {
	s := fmt.Sprintf("at %v\n", b.since())
	for _, n := range b.nodes {
		if n.Machine == nil {
			s += fmt.Sprintf("  %s not started\n", n.addr.Host)
			continue
		}
		v := n.View(b.now)
		d := n.Durable()
		s += fmt.Sprintf("  %s up=%v %v leader=%v v%d.%d quorate=%v held=%v bound=%d promised=%v:",
			n.addr.Host, n.up, v.Role, v.Leader, v.Version, v.Revision, v.Quorate,
			d.Held.Number, d.Bound(), d.Promised)
		for _, e := range v.Members {
			s += fmt.Sprintf(" %s=%v", e.Address.Host, e.Status)
		}
		s += "\n"
	}
	return s
}
