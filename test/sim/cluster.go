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

// MaxProcesses is the largest number of processes in a Cluster.
const MaxProcesses = 64

// Setup describes a Cluster. Only Size and Timings must be set.
type Setup struct {
	Seed    uint64 // seed of all randomness
	Size    int    // N
	Timings message.Timings
	// Processes is the number of processes; 0 means Size. Processes in excess of Size wait for a seat.
	Processes int
	// Seeds lists the processes that are seeds. If Seeds is empty, the first Size processes are seeds.
	Seeds []int
	// Volatile lists the processes with a memory store.
	Volatile []int
	// Twins lists processes that share their address with an additional process. Additional processes
	// have the numbers from Processes, and are down until started.
	Twins []int
	// Claimants lists processes whose address an additional process claims by mistake. It listens
	// elsewhere, so no process reaches it by that address. These processes follow the twins, and are
	// down until started.
	Claimants []int `json:",omitempty"`
	// SeatTimeout is the field of statemachine.Config.
	SeatTimeout time.Duration `json:",omitempty"`
	Link        Link          // the initial state of every link
	// Skew gives every process a clock with its own rate and offset.
	Skew bool
	// Slow lists processes whose clocks run at the slowest rate; all others then run at the fastest.
	// If Slow is empty, Skew decides.
	Slow []int `json:",omitempty"`
	// Lag is how late timers fire.
	Lag time.Duration
	// Codec encodes and decodes every message with package wire.
	Codec bool
	// TrustRefusal is the field of statemachine.Config.
	TrustRefusal bool `json:",omitempty"`
	// Rejects lists processes whose hosts refuse connections although the process is running, as a
	// firewall may. It must be empty if TrustRefusal is set.
	Rejects []int `json:",omitempty"`
	// Preferences lists the preference of each process; empty if all have the default. HandOver is
	// the value of HandOverToPreferred in the configuration of every process.
	Preferences []member.Preference `json:",omitempty"`
	HandOver    time.Duration       `json:",omitempty"`
	// Keys is the number of records that processes compete for; 0 disables records.
	Keys int `json:",omitempty"`
	// Workers is the number of workers that compete for the records too.
	Workers int `json:",omitempty"`
	// Floors lists the tokens above which the store of each process was recovered, 0 for a new store;
	// empty if all are new.
	Floors []uint64 `json:",omitempty"`
	// Resizes are changes of the size of one process by an operator, who stops it before. The size
	// stays as it is if the store does not permit the change.
	Resizes []Resize `json:",omitempty"`
	// Releases are requests of an operator to whichever process leads.
	Releases []Release `json:",omitempty"`
	// Record is called for every event. It may be nil.
	Record func(Record) `json:"-"`
}

// Cluster is a set of processes, the network between them, and the checkers, in virtual
// time. Time passes only in RunFor and RunUntil. A Cluster is not safe for concurrent use.
//
// Processes are numbered from 0. All are down at first. Callbacks may be nil.
type Cluster struct {
	// Interrupt is called after every step of a process, before the step takes effect. If crash is
	// true, the process crashes: before the step is saved if sent is negative, otherwise after it has
	// sent that number of messages.
	Interrupt func(process int, out statemachine.Output) (sent int, crash bool)

	// SlowSave returns how long the save of a step takes.
	SlowSave func(process int) SlowSave

	// Lose reports whether the network loses a message.
	Lose func(from, to int, k message.Kind) bool

	// Ended is called when a process stops by itself.
	Ended func(process int, err error)

	setup     Setup
	now       int64
	queue     queue
	procs     []*process
	workers   []*worker
	net       network
	recording *recording
	check     *checker
	register  register
	rand      *rand.Rand // for store ids
	hash      uint64
	steps     int
	stopped   []Stopped
	dialed    []int   // number + 1 of the process that receives a sender's messages to an address
	asked     []int64 // times of questions to addresses that are claimed, indexed by from*processes+to
	greets    []uint8 // results of greetings, indexed by from*processes+to
	routes    *rand.Rand
	happened  Faults // classes of faults that have occurred so far
	cover     Cover
	keys      []string
	input     steplog.Step // the input of the current step, if steps are recorded
	// onTrace receives the decisions of machines. It may be nil.
	onTrace func(process int, t statemachine.Trace)
}

// Stopped describes a process that stopped by itself.
type Stopped struct {
	Process int
	At      time.Duration
	Err     error
}

// The streams of random numbers in a run are independent: an additional draw from one stream does
// not change the other streams. Do not change these numbers: stored runs depend on them.
const (
	streamNetwork = iota + 1
	streamStores
	streamClocks
	streamFaults
	streamOptions
	streamRoutes
	streamJudge
	streamMachines // the first stream of the machines; each run of a machine has its own
)

// streamWallClocks serves the draws for wall clocks that are set forward.
const streamWallClocks = -2

// streamForming is used only in runs with a formation (Plan.Dead).
const streamForming = 0

// These streams serve classes of faults that were added later. streamLater determines which
// are enabled, and streamLaterFaults draws the faults.
const (
	streamLater       = -5
	streamLaterFaults = -6
	streamNewTimings  = -8
	streamTimingSteps = -11
)

func randomStream(seed uint64, of int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(of)*0x9e3779b97f4a7c15))
}

// NewCluster returns a cluster of stopped processes. It panics if the setup is invalid.
func NewCluster(s Setup) *Cluster { return newCluster(s, &recording{}) }

func newCluster(s Setup, t *recording) *Cluster {
	if s.Processes == 0 {
		s.Processes = s.Size
	}
	if s.Size < 1 || s.total() > MaxProcesses {
		panic(fmt.Sprintf("sim: Size %d with %d processes: both must be 1 to %d",
			s.Size, s.Processes, MaxProcesses))
	}
	if len(s.Seeds) == 0 {
		for i := range s.Size {
			s.Seeds = append(s.Seeds, i)
		}
	}
	total := s.total()
	c := &Cluster{
		setup:     s,
		net:       newNetwork(total, s.Link, randomStream(s.Seed, streamNetwork), t),
		recording: t,
		rand:      randomStream(s.Seed, streamStores),
		hash:      s.Seed,

		routes: randomStream(s.Seed, streamRoutes),
		dialed: make([]int, total*total),
		greets: make([]uint8, total*total),
	}
	seeds := make([]member.Address, len(s.Seeds))
	for i, n := range s.Seeds {
		seeds[i] = addressOf(n)
	}
	slices.SortFunc(seeds, member.Address.Compare)
	clocks := randomStream(s.Seed, streamClocks)
	for i := range total {
		c.procs = append(c.procs, newProcess(s, i, seeds, clocks))
	}
	c.noteShared()
	c.check = newChecker(s.Size, seeds, total)
	c.check.floors = s.Floors
	c.planResizes(s)
	c.startHolders()
	c.startWorkers()
	c.recordSetup(seeds)
	return c
}

// newProcess returns process i, which is down. A twin shares the address of another
// process, and a claimant claims it.
func newProcess(s Setup, i int, seeds []member.Address, clocks *rand.Rand) *process {
	home := i
	if i >= s.Processes {
		home = slices.Concat(s.Twins, s.Claimants)[i-s.Processes]
	}
	p := &process{index: i, home: home, clock: steadyClock(), wake: never, nextIncarnation: 1}
	p.claims = i >= s.Processes+len(s.Twins)
	if s.Skew {
		p.clock = drawClock(clocks)
	}
	switch {
	case slices.Contains(s.Slow, i):
		p.clock.rate = rateMin
	case len(s.Slow) > 0:
		p.clock.rate = rateMax
	}
	p.cfg = statemachine.Config{
		Address:  addressOf(home),
		Name:     nameOf(home),
		Seeds:    seeds,
		Size:     s.Size,
		Timings:  s.Timings,
		Volatile: slices.Contains(s.Volatile, home),

		TrustRefusal: s.TrustRefusal,

		HandOverToPreferred: s.HandOver,
		SeatTimeout:         s.SeatTimeout,
	}
	if i < len(s.Floors) && !p.cfg.Volatile {
		p.floor = s.Floors[i]
	}
	if len(s.Preferences) > 0 {
		p.cfg.Traits = member.Traits{Preference: s.Preferences[home], Labels: labelsOf(int64(home))}
	}
	return p
}

func nameOf(i int) string { return fmt.Sprintf("n%02d", i+1) }

// addressOf returns the address of a process. The host decides the order of addresses; the
// port differs so that comparing addresses is fast.
func addressOf(i int) member.Address {
	return member.Address{Host: nameOf(i), Port: uint16(7001 + i)}
}

// total returns the number of processes, including twins and claimants.
func (s Setup) total() int { return s.Processes + len(s.Twins) + len(s.Claimants) }

// Address returns the address of a process.
func (c *Cluster) Address(i int) member.Address { return c.procs[i].cfg.Address }

// Processes returns the number of processes, including twins and claimants.
func (c *Cluster) Processes() int { return len(c.procs) }

// Now returns the global time since the start.
func (c *Cluster) Now() time.Duration { return time.Duration(c.now) }

// Violation returns the first broken invariant, or nil.
func (c *Cluster) Violation() *Violation { return c.check.first }

// Stopped lists the processes that stopped by themselves, in order.
func (c *Cluster) Stopped() []Stopped { return c.stopped }

// Messages returns counters of delivered, lost and duplicated messages.
func (c *Cluster) Messages() Messages { return c.net.stats }

// Steps returns the number of calls to machines.
func (c *Cluster) Steps() int { return c.steps }

// Hash returns a hash of all events of the run.
func (c *Cluster) Hash() uint64 { return c.hash }

// After calls f when d has passed.
func (c *Cluster) After(d time.Duration, f func()) {
	c.queue.push(c.now+max(int64(d), 0), item{run: f})
}

// RunFor runs the cluster for d. It returns early if an invariant breaks.
func (c *Cluster) RunFor(d time.Duration) {
	c.RunUntil(d, func() bool { return false })
}

// RunUntil runs the cluster until the function done returns true, for at most the limit, and
// returns the last result of done. It returns false early if an invariant breaks.
func (c *Cluster) RunUntil(limit time.Duration, done func() bool) bool {
	end := c.now + int64(limit)
	for c.check.first == nil {
		if done() {
			return true
		}
		if !c.runNext(end) {
			c.now = end
			return done()
		}
	}
	return false
}

// runNext executes the next event that is due before end and reports whether there was one.
func (c *Cluster) runNext(end int64) bool {
	at, who := int64(never), -1
	for i, p := range c.procs {
		if p.wake < at {
			at, who = p.wake, i
		}
	}
	if c.queue.len() > 0 && c.queue.nextTime() <= at {
		at, who = c.queue.nextTime(), -1
	}
	if at >= end {
		return false
	}
	c.now = max(c.now, at)
	c.check.now = c.now
	if who >= 0 {
		c.advanceMachine(c.procs[who])
		return true
	}
	c.deliverItem(c.queue.pop())
	return true
}

// mixHash mixes a number into the hash of the run.
func (c *Cluster) mixHash(v uint64) {
	h := (c.hash ^ v) * 0x9e3779b97f4a7c15
	c.hash = h ^ h>>29
}
