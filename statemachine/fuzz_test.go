// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// FuzzStep decodes a node, its store and a script from bytes. The script consists of valid, nearly
// valid and arbitrary messages, times, calls and restarts. All inputs are valid. Encoded frames are
// tested in package sim, which may import both this package and package wire.
func FuzzStep(f *testing.F) {
	// Random bytes reach every flow; the corpus adds inputs that go deeper.
	for seed := range uint64(64) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, 32<<(seed%6))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxScript {
			b = b[:maxScript]
		}
		p := newPair(t, &script{b})
		p.begin()
		for len(p.in.b) > 0 {
			p.turn()
		}
		p.unchanged()
	})
}

// maxScript limits the length of a script, and so the time that it takes.
const maxScript = 4096

// pair runs one node as two machines with the same randomness and the same calls. The test also
// inspects the first machine between the calls. Both must produce the same output.
type pair struct {
	t        *testing.T
	in       *script
	self     int
	cfg      statemachine.Config // Rand is set at the start of each run
	one, two *statemachine.Machine
	now      time.Time
	saved    paxos.Durable
	sent     []message.Message          // newest messages that the node sent
	leaders  map[uint64]member.Identity // the leader with authority for each version
	token    uint64                     // greatest version that a node led with authority
	given    []frozen
}

// frozen is a state that a machine received or returned, with its digest at that time.
type frozen struct {
	state  member.State
	digest uint64
}

// nodesBeyond is the number of nodes outside the cluster that also send messages.
const nodesBeyond = 2

// remembered is the number of sent messages that may still be answered.
const remembered = 32

func newPair(t *testing.T, in *script) *pair {
	t.Helper()
	p := &pair{t: t, in: in, now: epoch, leaders: make(map[uint64]member.Identity)}
	p.cfg = statemachine.Config{Size: 1 + in.pick(5), Timings: lan}
	p.self = in.pick(p.cfg.Size + 1)
	p.cfg.Address, p.cfg.Name = addr(p.self), addr(p.self).Host
	for i := range 1 + in.pick(min(3, p.cfg.Size)) {
		p.cfg.Seeds = append(p.cfg.Seeds, addr(i))
	}
	p.cfg.Volatile = in.pick(4) == 0
	p.cfg.JoinOnly = in.pick(8) == 0
	if in.pick(4) == 0 {
		ms := time.Millisecond
		p.cfg.Timings = message.Timings{
			HeartbeatInterval: ms, HeartbeatTimeout: 2 * ms, LeaderTimeout: 4 * ms,
			LeaseTimeout: 4 * ms, TTLTimeout: 4 * ms, RetryInterval: ms,
		}
	}
	p.cfg.SeatTimeout = p.cfg.Timings.TTLTimeout
	p.saved = p.store()
	p.start()
	return p
}

// store returns possible content of the store of a node at its start.
func (p *pair) store() paxos.Durable {
	d := paxos.Durable{StoreID: run(p.self, 0).StoreID}
	if p.cfg.Volatile || p.in.pick(4) == 0 {
		return d
	}
	d.Incarnation = 3
	d.Held = p.led(member.State{Number: number(2, 1), Cluster: ourCluster})
	if p.in.pick(4) == 0 {
		d.Held = member.State{}
	}
	if p.in.pick(2) == 0 {
		d.Promised = p.proposalID(0, p.who())
		d.Promised.Version = d.Held.Version + 1 + uint64(p.in.pick(3))
	}
	if p.in.pick(3) == 0 && !d.Promised.IsZero() {
		d.Accepted = paxos.Accepted{ID: d.Promised, Base: d.Held.Number, State: p.led(d.Held)}
		d.Accepted = p.at(d.Accepted, d.Promised.Version)
	}
	return d
}

// greatestStored is the greatest version that a node has stored at its start. No version exceeds
// member.MaxVersion, and the node has promised one of the next three versions.
const greatestStored = member.MaxVersion - 3

// led returns a state that a node may have taken: its leader is an active member.
func (p *pair) led(base member.State) member.State {
	s := p.state(base)
	s.Version = min(s.Version, greatestStored)
	e, ok := s.Roster.Find(s.Leader)
	if ok && e.Status == member.Active && !s.Number.IsZero() && len(s.Roster) <= p.cfg.Size {
		return s
	}
	s.Leader = addr(0)
	s.Version = max(s.Version, 1)
	s.Roster = member.Roster{{Identity: run(0, 1), Status: member.Active}}
	return s
}

// start starts a run with the saved content.
func (p *pair) start() {
	p.t.Helper()
	p.saved.Incarnation++
	if p.cfg.Volatile {
		p.saved = paxos.Durable{StoreID: p.saved.StoreID, Incarnation: p.saved.Incarnation}
		p.saved.StoreID[2]++
		clear(p.leaders)
		p.token = 0
	}
	p.sent = nil
	for _, m := range []**statemachine.Machine{&p.one, &p.two} {
		cfg := p.cfg
		cfg.Rand = rand.New(rand.NewPCG(p.saved.Incarnation, 7))
		cfg.NewStore = drawStore(cfg.Rand)
		*m = statemachine.New(cfg, p.saved, p.now)
	}
	p.advance(p.now)
}

// begin puts the node into the role that the script selects.
func (p *pair) begin() {
	p.t.Helper()
	role, other := p.in.pick(4), p.who()
	s := member.State{
		Number: number(p.held().Version+3, 0), Cluster: p.cluster(), Leader: p.cfg.Address,
	}
	if role == 1 {
		s.Leader = other.Address
	}
	self := p.one.View(p.now).Self
	s.Roster = s.Roster.With(member.Member{Identity: self, Status: member.Active})
	if p.cfg.Size > 1 {
		s.Roster = s.Roster.With(member.Member{Identity: other, Status: member.Active})
	}
	for i := 0; i < p.cfg.Size && len(s.Roster) < p.cfg.Size; i++ {
		if _, ok := s.Roster.Find(addr(i)); !ok && p.in.pick(8) != 0 {
			s.Roster = s.Roster.With(p.entry(run(i, 1)))
		}
	}
	switch _, led := s.Roster.Find(s.Leader); {
	case role == 1 && led:
		in := p.message(other, s.Claim())
		in.Body = message.ClusterAlignment{State: s}
		p.step(in)
	case role == 2:
		in := p.message(other, member.Claim{})
		in.Body = message.LeaderElected{State: s}
		p.step(in)
		p.support(s)
	case role == 3:
		p.pass(3 * p.cfg.Timings.TTLTimeout)
		p.pass(p.cfg.Timings.RetryInterval)
	}
}

// support makes all nodes of s echo a stamp of their leader.
func (p *pair) support(s member.State) {
	p.t.Helper()
	for _, e := range s.Roster {
		if e.Address == p.cfg.Address {
			continue
		}
		in := p.message(e.Identity, s.Claim())
		in.Body = message.LeaderKeepAlive{
			Number: s.Number, Digest: s.Digest(), Echo: message.Stamp{
				Version: s.Version, Incarnation: p.saved.Incarnation, Clock: p.now.UnixNano(),
			},
		}
		p.step(in)
	}
}

// turn runs the next step of the script.
func (p *pair) turn() {
	p.t.Helper()
	if p.one.Deadline().IsZero() {
		p.start()
	}
	switch k := p.in.pick(16); k {
	case 0, 1, 2, 3, 4, 5:
		p.step(p.answer())
	case 6, 7, 8, 9:
		p.step(p.arbitrary())
	case 10, 11:
		p.toDeadline()
	case 12:
		p.pass(p.cfg.Timings.HeartbeatInterval * time.Duration(p.in.pick(256)) / 16)
	case 13:
		p.pass([...]time.Duration{
			0, -time.Hour, 1, p.cfg.Timings.HeartbeatTimeout, p.cfg.Timings.LeaderTimeout,
			p.cfg.Timings.LeaseTimeout, p.cfg.Timings.TTLTimeout, 3 * p.cfg.Timings.TTLTimeout,
		}[p.in.pick(8)])
	case 14:
		p.operate()
	case 15:
		p.look()
	}
}

func (p *pair) operate() {
	p.t.Helper()
	switch p.in.pick(8) {
	case 0:
		p.call("Leave", func(m *statemachine.Machine) statemachine.Output { return m.Leave(p.now) })
	case 1:
		p.call("Drain", func(m *statemachine.Machine) statemachine.Output { return m.Drain(p.now) })
	case 2, 3, 4:
		to := p.target()
		var errs []error
		p.call("Transfer", func(m *statemachine.Machine) statemachine.Output {
			out, err := m.Transfer(p.now, to)
			errs = append(errs, err)
			return out
		})
		if err := errs[0]; err != errs[1] || err != nil && !errors.Is(err, statemachine.ErrNotLeader) &&
			!errors.Is(err, statemachine.ErrNotActive) {
			p.t.Fatalf("Transfer to %v: got %v and %v", to, err, errs[1])
		}
	case 5:
		to := p.who()
		p.call("AskPeer", func(m *statemachine.Machine) statemachine.Output {
			return m.AskPeer(p.now, to.Address, to.StoreID)
		})
	default:
		p.start()
	}
}

func (p *pair) target() member.Address {
	if p.in.pick(2) == 0 {
		return member.Address{}
	}
	return p.who().Address
}

// pass advances the clock by d. A machine must have nothing to do before its deadline.
func (p *pair) pass(d time.Duration) {
	p.t.Helper()
	p.advance(p.now.Add(d))
}

func (p *pair) toDeadline() {
	p.t.Helper()
	if d := p.one.Deadline(); !d.IsZero() {
		p.advance(d)
	}
}

func (p *pair) advance(now time.Time) {
	p.t.Helper()
	if now.After(p.now) {
		p.now = now
	}
	// Pass now to the machine even if it is earlier than p.now.
	p.call("Advance", func(m *statemachine.Machine) statemachine.Output { return m.Advance(now) })
}

func (p *pair) step(in message.Message) {
	p.t.Helper()
	p.freeze(in.Body)
	before := p.standing()
	out := p.call(in.Body.Kind().String(), func(m *statemachine.Machine) statemachine.Output {
		return m.Step(p.now, in)
	})
	for _, msg := range out.Send {
		p.freeze(msg.Body)
	}
	if !before.trusts(in.From) {
		p.checkUnmoved(in, before)
	}
}

// maxPasses limits the calls at one instant. After them a machine must have nothing left to do.
const maxPasses = 4

// call makes the same call to both machines, compares their outputs, and then advances both at that
// instant.
func (p *pair) call(
	what string, f func(*statemachine.Machine) statemachine.Output,
) statemachine.Output {
	p.t.Helper()
	out := p.once(what, f)
	for n := 0; ; n++ {
		d := p.one.Deadline()
		if d.IsZero() || d.After(p.now) {
			return out
		}
		if n == maxPasses {
			p.t.Fatalf("after %s: %d times advanced to %v, and the deadline is %v: it spins",
				what, n, p.now, d)
		}
		p.once("Advance", func(m *statemachine.Machine) statemachine.Output { return m.Advance(p.now) })
	}
}

func (p *pair) once(
	what string, f func(*statemachine.Machine) statemachine.Output,
) statemachine.Output {
	p.t.Helper()
	before, stopped := p.one.Durable(), p.one.Deadline().IsZero()
	out, again := f(p.one), f(p.two)
	switch {
	case !reflect.DeepEqual(out, again):
		p.t.Fatalf("%s: one machine returned\n%+v\nits twin\n%+v", what, out, again)
	case !p.one.Deadline().Equal(p.two.Deadline()):
		p.t.Fatalf("%s: deadlines %v and %v", what, p.one.Deadline(), p.two.Deadline())
	case stopped && (out.Stop != nil || out.Persist != nil || len(out.Send) > 0):
		p.t.Fatalf("%s: a stopped machine returned %+v", what, out)
	}
	if err := p.one.Check(); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	p.checkSaved(what, before, out)
	p.checkSent(what, before, out)
	p.checkTimes(what, out, stopped)
	p.sent = append(p.sent, out.Send...)
	p.sent = p.sent[max(0, len(p.sent)-remembered):]
	return out
}

// checkTimes checks that a running machine has a deadline within its timeouts.
func (p *pair) checkTimes(what string, out statemachine.Output, stopped bool) {
	p.t.Helper()
	d := p.one.Deadline()
	latest := p.now.Add(2*p.cfg.Timings.RetryInterval + p.cfg.Timings.LeaderTimeout)
	switch {
	case (stopped || out.Stop != nil) != d.IsZero():
		p.t.Fatalf("%s: stop %v, deadline %v", what, out.Stop, d)
	case d.After(latest):
		p.t.Fatalf("%s: at %v the deadline is %v", what, p.now, d)
	}
}

// look inspects only the first machine. Inspecting it must change nothing. The version in which a
// machine has authority never decreases and belongs to one run.
func (p *pair) look() {
	p.t.Helper()
	at := p.now.Add(p.cfg.Timings.HeartbeatInterval * time.Duration(p.in.pick(64)-16) / 4)
	v := p.one.View(at)
	if !v.Members.IsSorted() || len(v.Members) > p.cfg.Size {
		p.t.Fatalf("view %+v", v)
	}
	p.one.RosterLost()
	version, until := p.one.Authority(at)
	if version == 0 {
		return
	}
	first, known := p.leaders[version]
	longest := p.now.Add(message.LeaseMargin(p.cfg.Timings.LeaseTimeout))
	if at.After(p.now) && p.cfg.Size == 1 {
		longest = at.Add(message.LeaseMargin(p.cfg.Timings.LeaseTimeout))
	}
	switch {
	case version < p.token || version != v.Version || v.Leader != p.cfg.Address || !v.Quorate:
		p.t.Fatalf("authority for version %d after %d, view %+v", version, p.token, v)
	case !until.After(at) || until.After(longest):
		p.t.Fatalf("at %v authority until %v, want at most %v", at, until, longest)
	case known && first != v.Self:
		p.t.Fatalf("run %v leads version %d, which %v led", v.Self, version, first)
	}
	p.token, p.leaders[version] = version, v.Self
}

// freeze records the states in a message, which must not be modified afterwards.
func (p *pair) freeze(b message.Body) {
	var s member.State
	switch b := b.(type) {
	case message.ClusterAlignment:
		s = b.State
	case message.Proposal:
		s = b.State
	case message.LeaderElected:
		s = b.State
	case message.Vote:
		s = b.State
	}
	if !s.IsZero() {
		p.given = append(p.given, frozen{s, s.Digest()})
	}
}

func (p *pair) unchanged() {
	p.t.Helper()
	i := slices.IndexFunc(p.given, func(f frozen) bool { return f.state.Digest() != f.digest })
	if i >= 0 {
		p.t.Fatalf("a state was changed in place; it is now %+v", p.given[i].state)
	}
}
