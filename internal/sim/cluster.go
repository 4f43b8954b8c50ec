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

// MaxProcesses bounds the processes of a Cluster.
const MaxProcesses = 64

// Setup describes a Cluster. Only Size and Timings must be set.
type Setup struct {
	Seed    uint64 // of all randomness
	Size    int    // N
	Timings message.Timings
	// Processes beyond Size wait for a seat; 0 means Size.
	Processes int
	// Seeds lists which processes are seeds; empty means all of the first Size.
	Seeds []int
	// Volatile lists the processes with a memory store.
	Volatile []int
	// Twins lists processes whose address further processes share: one beyond
	// Processes for each. They are down until they are started.
	Twins []int
	Link  Link // of every link at the start
	// Skew gives every process a clock with its own rate and offset.
	Skew bool
	// Slow lists the processes whose clocks have the slowest rate while all others have the
	// fastest. If it is empty, Skew decides.
	Slow []int `json:",omitempty"`
	// Lag is how late timers fire.
	Lag time.Duration
	// Codec sends messages through package wire.
	Codec bool
	// TrustRefusal is that of statemachine.Config.
	TrustRefusal bool `json:",omitempty"`
	// Rejects lists the processes whose hosts refuse their ports although they run,
	// as a firewall may. It must be empty with TrustRefusal.
	Rejects []int `json:",omitempty"`
	// Keys is how many records the processes take from each other; 0 for none.
	Keys int `json:",omitempty"`
	// Record gets everything that happens, where it is set.
	Record func(Record) `json:"-"`
}

// Cluster is a set of processes, the network between them, and the checkers,
// in virtual time. Time passes only in RunFor and RunUntil. A Cluster belongs
// to one goroutine.
//
// Processes are numbered from 0. All are down at first.
type Cluster struct {
	// Interrupt, where it is set, is asked after every step of a process what
	// happens before the step has had its effects. Where crash is true the
	// process dies: before the step is saved when sent is negative, else
	// after that many of its messages left.
	Interrupt func(process int, out statemachine.Output) (sent int, crash bool)

	// SlowSave, where it is set, says how long the save of a step takes.
	SlowSave func(process int) SlowSave

	// Lose, where it is set, says which messages are lost on their way.
	Lose func(from, to int, k message.Kind) bool

	// Ended, where it is set, is told of a process that ended by itself.
	Ended func(process int, err error)

	setup    Setup
	now      int64
	queue    queue
	procs    []*process
	net      network
	tape     *tape
	check    *checker
	register register
	rand     *rand.Rand // of stores
	hash     uint64
	steps    int
	stopped  []Stopped
	dialed   []int   // process + 1 that a sender's messages to an address go to
	greets   []uint8 // verdicts, from*processes+to
	routes   *rand.Rand
	happened Faults // classes that happened so far
	cover    Cover
	keys     []string // of records
	// noticed, where it is set, gets the decisions of machines.
	noticed func(process int, t statemachine.Trace)
}

// Stopped tells of a process that ended by itself.
type Stopped struct {
	Process int
	At      time.Duration
	Err     error
}

// The streams of randomness of one run are independent, so that one more
// draw in one of them does not change the others. Their numbers stay as they
// are: the runs that are kept in files depend on them.
const (
	streamNetwork = iota + 1
	streamStores
	streamClocks
	streamFaults
	streamOptions
	streamRoutes
	streamJudge
	streamMachines // and above, for as many runs of machines as there are
)

// streamWallClocks is of the draws about wall clocks that are set forward.
const streamWallClocks = -2

// streamForming is of the draws that only runs with a formation have (Plan.Dead).
const streamForming = 0

// streamLater is of classes of faults that were added later, the others of the faults
// themselves.
const (
	streamLater       = -5
	streamLaterFaults = -6
	streamNewTimings  = -8
)

func randomStream(seed uint64, of int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(of)*0x9e3779b97f4a7c15))
}

// NewCluster makes a cluster. It panics where the setup makes none.
func NewCluster(s Setup) *Cluster { return newCluster(s, &tape{}) }

func newCluster(s Setup, t *tape) *Cluster {
	if s.Processes == 0 {
		s.Processes = s.Size
	}
	if s.Size < 1 || s.Processes+len(s.Twins) > MaxProcesses {
		panic(fmt.Sprintf("sim: Size %d with %d processes: want 1 to %d",
			s.Size, s.Processes, MaxProcesses))
	}
	if len(s.Seeds) == 0 {
		for i := range s.Size {
			s.Seeds = append(s.Seeds, i)
		}
	}
	total := s.Processes + len(s.Twins)
	c := &Cluster{
		setup: s,
		net:   newNetwork(total, s.Link, randomStream(s.Seed, streamNetwork), t),
		tape:  t,
		rand:  randomStream(s.Seed, streamStores),
		hash:  s.Seed,

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
	c.check = newChecker(s.Size, seeds, total)
	c.startHolders()
	return c
}

// newProcess makes process i, which is down. A twin has the address of another process.
func newProcess(s Setup, i int, seeds []member.Address, clocks *rand.Rand) *process {
	home := i
	if i >= s.Processes {
		home = s.Twins[i-s.Processes]
	}
	p := &process{index: i, home: home, clock: steadyClock(), wake: never, next: 1}
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
	}
	return p
}

func nameOf(i int) string { return fmt.Sprintf("n%02d", i+1) }

// addressOf is the address of a process. Ports tell the processes apart
// quickly; hosts give the order.
func addressOf(i int) member.Address {
	return member.Address{Host: nameOf(i), Port: uint16(7001 + i)}
}

// Address is the address of a process.
func (c *Cluster) Address(i int) member.Address { return c.procs[i].cfg.Address }

// Processes counts the processes, twins included.
func (c *Cluster) Processes() int { return len(c.procs) }

// Now is the global time since the start.
func (c *Cluster) Now() time.Duration { return time.Duration(c.now) }

// Violation is the first invariant that broke; nil while none did.
func (c *Cluster) Violation() *Violation { return c.check.first }

// Stopped lists the processes that ended by themselves, in order.
func (c *Cluster) Stopped() []Stopped { return c.stopped }

// Messages counts what became of messages so far.
func (c *Cluster) Messages() Messages { return c.net.stats }

// Steps counts the calls of machines so far.
func (c *Cluster) Steps() int { return c.steps }

// Hash is a hash of everything that happened so far.
func (c *Cluster) Hash() uint64 { return c.hash }

// After calls f once d has passed.
func (c *Cluster) After(d time.Duration, f func()) {
	c.queue.push(c.now+max(int64(d), 0), item{run: f})
}

// RunFor lets time pass. It ends early when an invariant breaks.
func (c *Cluster) RunFor(d time.Duration) {
	c.RunUntil(d, func() bool { return false })
}

// RunUntil lets time pass until done says so, at most for limit, and reports
// whether done did. It ends early when an invariant breaks.
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

// runNext lets the next thing happen, if it is due before end.
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

// mixHash puts a number into the hash of the run.
func (c *Cluster) mixHash(v uint64) {
	h := (c.hash ^ v) * 0x9e3779b97f4a7c15
	c.hash = h ^ h>>29
}
