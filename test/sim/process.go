// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// never is the time of an event that is not scheduled.
const never = math.MaxInt64

// maxInbox bounds the items that wait for a paused process. If there are more, the oldest is
// dropped.
const maxInbox = 4096

// maxSpin bounds consecutive calls to Advance at the same instant.
const maxSpin = 100

// process always has a store, and has a machine while it is up.
type process struct {
	index int
	home  int // index of the process itself, or of the process whose address it shares
	// claims is set if the process listens elsewhere than at its address.
	claims bool
	shared bool // whether another process claims to have its address
	cfg    statemachine.Config
	clock  clock

	store           paxos.Durable // the contents of its disk
	copied          diskCopy      // an earlier copy of it
	restored        bool          // it is such a copy, and has forgotten something
	floor           uint64        // its store was recovered above this token; 0 if it was not
	owed            statemachine.Owed
	nextIncarnation uint64 // the lowest incarnation for its next run
	// clockSetBack reports whether its wall clock was ever set back, and clockSetForward whether its
	// wall clock was set forward since the process last read it.
	clockSetBack, clockSetForward bool

	misfit       misfit
	greet        message.Greet         // the greeting of its current or last run
	machine      *statemachine.Machine // nil while the process is down
	runs         int
	lastRun      member.Identity // the identity of its current or last run
	wake         int64           // when Advance is due, or never
	spins        int             // consecutive calls to Advance at spinAt
	spinAt       int64
	paused       bool
	sleptSince   int64 // when its clock stopped, plus one; 0 while it runs
	pendingWrite write // the write that was in progress when it was paused
	// starting is the wait before its run, or nil.
	starting *startWait
	waited   time.Duration // since the end of its last run

	saving       *save                   // the save in progress, or nil
	stepAt       int64                   // when its machine was last called
	stepTime     time.Time               // stepAt by its own clock
	inbox        []item                  // items that arrived while it was paused or saving
	renewed      bool                    // the current step began a new run
	leaving      bool                    // Leave was called in this run
	drained      bool                    // Drain was called in this run
	releases     bool                    // whether this run was ever asked to remove seats
	traits       member.Traits           // the preference and the labels of this run
	couldLead    bool                    // whether this run was ever allowed to lead
	asked        bool                    // whether an operator requests something in this step
	requests     uint64                  // number of requests for records so far
	openRequests []message.RecordRequest // requests of this run that have no answer yet
	wasLeading   bool                    // whether the process led when its clock stopped
	shownView    member.View             // the last view that the process showed
	sent         flood

	trustsUntil time.Time // the machine's trust deadline after the last step
	holdings    []holding // indexed like the keys of the cluster
}

func (p *process) isUp() bool { return p.machine != nil }

func (p *process) identity() member.Identity {
	return member.Identity{
		Address:     p.cfg.Address,
		StoreID:     p.store.StoreID,
		Incarnation: p.store.Incarnation,
	}
}

func (p *process) voter() member.Voter {
	return member.Voter{Address: p.cfg.Address, StoreID: p.store.StoreID}
}

// Start starts a process with the contents of its store, or with a new store if the store
// is in memory. A process with a durable store first waits until the promises of its last
// run have expired. Start does nothing if the process is already started.
func (c *Cluster) Start(i int) {
	p := c.procs[i]
	if p.isStarted() || c.check.first != nil || !p.cfg.Volatile && c.startWaiting(p) {
		return
	}
	c.beginRun(p)
}

// beginRun starts the next run of a process.
func (c *Cluster) beginRun(p *process) {
	p.cfg.LastRun, p.cfg.Clock = 0, c.procs[p.home].nextIncarnation
	if p.cfg.Volatile || p.store.StoreID.IsZero() {
		p.store = paxos.Durable{StoreID: c.newStoreID(), Incarnation: c.procs[p.home].nextIncarnation}
		if p.floor > 0 {
			p.store.Floor = p.floor
		}
	} else {
		p.cfg.LastRun = p.store.Incarnation
		p.store.Incarnation = max(p.store.Incarnation+1, p.nextIncarnation)
	}
	c.procs[p.home].nextIncarnation = max(c.procs[p.home].nextIncarnation, p.store.Incarnation+1)
	if !p.store.Held.IsZero() {
		p.cfg.JoinOnly = false // the process has joined, so the operator removes the flag
	}
	p.runs++
	p.cfg.Rand = randomStream(c.setup.Seed, streamMachines+p.index+p.runs*MaxProcesses)
	p.cfg.NewStore = func() (id member.StoreID) {
		for i := 0; i < len(id); i += 8 {
			binary.LittleEndian.PutUint64(id[i:], p.cfg.Rand.Uint64())
		}
		return id
	}
	p.spins, p.leaving, p.drained, p.releases, p.sent = 0, false, false, false, flood{}
	p.traits, p.couldLead = p.cfg.Traits, p.cfg.Traits.Preference != member.NeverLeads
	p.trustsUntil, p.holdings = time.Time{}, nil
	p.clockSetForward = false
	c.noteProcess(p, Started, "")
	c.check.noteStart(c.now, p)
	cfg := p.nextConfig()
	p.owed = statemachine.OwedBy(cfg.Timings, cfg.OtherTimings)
	p.greet = p.makeGreet(cfg)
	c.forgetGreets(p.index)
	p.machine = statemachine.New(cfg, p.store, p.clock.at(c.now))
	c.recordStart(p, cfg)
	p.shownView = p.machine.View(p.clock.at(c.now))
	p.lastRun = p.identity()
	c.advanceMachine(p)
}

func (c *Cluster) newStoreID() (id member.StoreID) {
	for i := range id {
		id[i] = byte(c.rand.Uint32())
	}
	return id
}

// Crash stops a process immediately. It does nothing if the process is down.
func (c *Cluster) Crash(i int) {
	p := c.procs[i]
	if !p.isStarted() {
		return
	}
	if p.starting != nil {
		p.starting = nil
		c.noteProcess(p, Crashed, "before its run began")
		return
	}
	c.recordCrash(p)
	if v := p.saving; v != nil && v.Written {
		c.replaceStore(p, *v.step.out.Persist)
	}
	c.noteProcess(p, Crashed, "")
	c.endRun(p)
}

func (c *Cluster) endRun(p *process) {
	c.wakeClock(p)
	p.machine, p.wake, p.paused, p.inbox, p.pendingWrite = nil, never, false, nil, write{}
	p.openRequests, p.saving, p.renewed = nil, nil, false
	p.restored = p.restored && c.check.hasForgotten(p.voter(), p.store)
	c.check.noteEnd(c.now, p)
}

// Restart crashes a process and starts it again.
func (c *Cluster) Restart(i int) {
	c.Crash(i)
	c.Start(i)
}

// LoseDisk erases the store of a process that is down. A seed is then started with
// JoinOnly until it holds a state (protocol.md section 4).
func (c *Cluster) LoseDisk(i int) {
	p := c.procs[i]
	if p.isStarted() {
		return
	}
	c.noteProcess(p, DiskLost, "")
	p.store, p.owed, p.restored = paxos.Durable{}, statemachine.Owed{}, false
	p.cfg.JoinOnly = p.isSeed()
}

// Pause freezes a process while its clock runs on. Input is queued until Resume.
func (c *Cluster) Pause(i int) {
	p := c.procs[i]
	if p.isUp() && !p.paused {
		c.noteProcess(p, Paused, "")
		p.paused, p.wake = true, never
		p.pendingWrite = c.nextWrite(p)
	}
}

// Suspend freezes a process and its clock. Leases do not tolerate a stopped clock (protocol.md
// section 5). So if the process had authority before the suspension, the checkers do not compare it
// with the authority of others. They still compare its tokens.
func (c *Cluster) Suspend(i int) {
	p := c.procs[i]
	if !p.isUp() || p.paused {
		return
	}
	c.Pause(i)
	p.sleptSince = c.now + 1
	c.check.noteClockStopped(c.now, p)
}

// wakeClock restarts the stopped clock of a process at its last reading.
func (c *Cluster) wakeClock(p *process) {
	if p.sleptSince > 0 {
		p.clock.offset -= p.clock.timePassed(c.now) - p.clock.timePassed(p.sleptSince-1)
		p.sleptSince = 0
		c.check.noteAwake(c.now, p.index, p.wasLeading, p.longestTimings())
		p.wasLeading = false
	}
}

// Resume continues a paused process. If timersFirst is set, the process handles due timers before
// the queued input, otherwise after the queued input.
func (c *Cluster) Resume(i int, timersFirst bool) {
	p := c.procs[i]
	if !p.isUp() || !p.paused {
		return
	}
	c.noteProcess(p, Resumed, "")
	p.paused = false
	c.wakeClock(p)
	c.finishWrite(p)
	switch {
	case p.saving == nil:
		c.handleQueued(p, timersFirst)
	case p.saving.ended:
		c.endSave(p)
	}
}

// Leave makes a process leave the cluster gracefully.
func (c *Cluster) Leave(i int) {
	c.giveOrder(i, "leave", func(p *process, now time.Time) statemachine.Output {
		p.leaving = true
		p.holdings = nil // package cluster ends the holdings before it leaves
		return p.machine.Leave(now)
	})
}

// Close makes a process stop without leaving, as Node.Close does. A leader gives up its leadership.
func (c *Cluster) Close(i int) {
	c.giveOrder(i, "close", func(p *process, now time.Time) statemachine.Output {
		p.holdings = nil // package cluster ends the holdings first
		return p.machine.StopLeading(now)
	})
}

// Drain makes a process lead only if no other member can.
func (c *Cluster) Drain(i int) {
	c.giveOrder(i, "drain", func(p *process, now time.Time) statemachine.Output {
		p.drained = true
		return p.machine.Drain(now)
	})
}

// Transfer makes a process hand leadership over to another process, or to any process if its number
// is negative. It returns the error of the machine.
func (c *Cluster) Transfer(i, to int) error {
	var refused error
	var addr member.Address
	if to >= 0 {
		addr = c.Address(to)
	}
	c.giveOrder(i, "transfer to "+addr.String(), func(p *process, now time.Time) statemachine.Output {
		out, err := p.machine.Transfer(now, addr)
		refused = err
		return out
	})
	return refused
}

func (c *Cluster) giveOrder(i int, verb string, f func(*process, time.Time) statemachine.Output) {
	p := c.procs[i]
	if !p.isUp() || p.paused {
		return
	}
	if p.saving != nil {
		p.keepItem(item{run: func() { c.giveOrder(i, verb, f) }})
		return
	}
	c.noteProcess(p, Ordered, verb)
	c.noteInput(p, steplog.Step{Event: steplog.Order})
	p.asked = true
	c.settleStep(p, f(p, c.readClock(p)))
	p.asked = false
}
