// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

// Result is what one run showed.
type Result struct {
	Options  Options      // with Size and For as drawn
	Faults   Faults       // classes that could happen
	Happened [classes]int // how often each class did
	Timings  string

	Steps    int
	Virtual  time.Duration // global time that passed
	Messages Messages
	Versions int // leaders chosen
	Changes  int // of the process with authority
	// Gap is the smallest time from the end of one leader's authority to the
	// next one's; negative when authority never changed hands, or was not promised
	// to do so with one.
	Gap time.Duration
	// Writes were accepted by the fenced register, Fenced were refused: they
	// came from leaders whose time was over.
	Writes, Fenced int

	// Void says why invariants between nodes were not promised any more, with
	// memory stores; empty when they were to the end.
	Void string
	// Hopeless says why no leader was demanded after the faults; empty when
	// one was.
	Hopeless string
	// Measures of the calm part, each in units of what bounds it.
	Measures []Measure
	Cover    Cover // rules that were reached, by the faults that had happened

	Violation *Violation // nil when all is well
	Hash      uint64     // of everything that happened

	read   bool // from a Replay: the seed alone makes another run
	timely bool // from one in which nothing happens to messages
}

// Measure is how long something took, against the bound that protocol.md
// section 11 gives for 99 of 100 runs. A run that takes longer is no failure; the
// limits that no run may pass are checked apart.
type Measure struct {
	Name     string
	Took     time.Duration
	Bound    time.Duration
	Expected bool // the bound is not of section 11: what the simulator expects
}

// String is a line for each thing of interest.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: N=%d, %d steps in %v, %d versions, %d changes of leader, faults: %v",
		r.Options.Seed, r.Options.Size, r.Steps, r.Virtual.Round(time.Millisecond),
		r.Versions, r.Changes, r.listFaults())
	if r.Void != "" {
		fmt.Fprintf(&b, "\nnot promised: %s", r.Void)
	}
	if r.Hopeless != "" {
		fmt.Fprintf(&b, "\nno leader demanded: %s", r.Hopeless)
	}
	if r.Violation != nil {
		fmt.Fprintf(&b, "\n%v", r.Violation)
		if !r.read {
			fmt.Fprintf(&b, "\nreplay: %s", r.Options.Replay())
		}
	}
	return b.String()
}

// listFaults lists what happened; what could is more.
func (r Result) listFaults() string {
	n := r.Happened
	n[Loss.index()], n[Duplication.index()] = r.Messages.Lost, r.Messages.Duplicated
	if r.timely {
		n[Delay.index()] = 0
	}
	return listHappened(n)
}

// Run does one run to its end or to the first invariant that breaks. It panics
// where Options.Validate has an error.
func Run(o Options) Result {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	p := drawPlan(o)
	r := runPlan(p, &tape{}, o.Record)
	o.Size, o.For, o.Record = p.Setup.Size, p.For, nil
	r.Options = o
	return r
}

// runPlan does a run that was drawn or written down.
func runPlan(p Plan, t *tape, record func(Record)) Result {
	p.Setup.Record = record
	c := newCluster(p.Setup, t)
	x := newChaos(c, p)
	j := &judge{
		c: c, x: x, rand: randomStream(p.Setup.Seed, streamJudge),
		orders: randomStream(p.Setup.Seed, streamOrders),
	}
	x.startFaults()
	if p.Dead > 0 {
		j.formCluster()
	}
	c.RunFor(p.For)
	x.stopFaults()
	if c.check.first == nil {
		j.judgeRun()
	}
	r := Result{
		Options:   Options{Seed: p.Setup.Seed, Size: p.Setup.Size, For: p.For},
		Faults:    p.Faults,
		Happened:  x.counts,
		Timings:   fmt.Sprintf("%+v", p.Setup.Timings),
		Steps:     c.steps,
		Virtual:   c.Now(),
		Messages:  c.net.stats,
		Versions:  len(c.check.order),
		Changes:   c.check.changes,
		Gap:       -1,
		Writes:    c.register.accepted,
		Fenced:    c.register.fenced,
		Void:      c.check.void,
		Hopeless:  j.hopeless,
		Measures:  j.measures,
		Cover:     c.cover,
		Violation: c.check.first,
		Hash:      c.hash,
		read:      t.isReplay(),
		timely:    t.isReplay() && len(t.known) == 0,
	}
	if c.check.gap != never && c.check.void == "" {
		r.Gap = time.Duration(c.check.gap)
	}
	if v := r.Violation; v != nil {
		c.noteRun(Broke, "%v", v)
		v.Text += c.Describe()
	}
	return r
}

// epilogue is what happens in a healed cluster.
type epilogue int

const (
	quiet    epilogue = iota // nothing
	disturb                  // a minority has faults
	failover                 // the leader crashes
	cutOff                   // the leader is isolated, and comes back
	depart                   // leadership moves, a member leaves
	epilogues
)

// judge heals a cluster and demands what protocol.md section 11 promises.
type judge struct {
	c        *Cluster
	x        *chaos
	rand     *rand.Rand
	orders   *rand.Rand // of what operators do
	hopeless string
	measures []Measure
}

func (j *judge) judgeRun() {
	c, t := j.c, j.c.setup.Timings
	j.healAll()
	if j.hopeless = c.whyNoQuorum(); j.hopeless != "" || c.check.void != "" {
		c.noteRun(Phase, "no leader is demanded: %s%s", j.hopeless, c.check.void)
		c.RunFor(4 * t.TTLTimeout)
		return
	}
	start, drained := c.now, j.drainedFor()
	// L1: a quorate leader within 2 x TTLTimeout.
	if limit := j.leaderLimit() + drained; !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) {
		j.noteFailure("L1", "no quorate leader %v after the heal", limit)
		return
	}
	j.measureSince("leader after faults", start, 2*t.LeaderTimeout+drained)
	// L2: one leader, every node active within 2 x TTLTimeout + 5 RetryInterval.
	limit := 2*t.TTLTimeout + 5*t.RetryInterval + drained
	if !c.RunUntil(limit-time.Duration(c.now-start), c.Settled) {
		j.noteFailure("L2", "not all are active under one leader %v after the heal", limit)
		return
	}
	j.measureSince("all active after faults", start, t.TTLTimeout+8*t.RetryInterval+drained)
	if c.hasWaiting() {
		j.checkSeats()
	}
	j.checkRecords()
	c.RunFor(2 * t.HeartbeatInterval)
	if c.check.first == nil && c.Settled() {
		j.runEpilogue()
	}
}

// leaderLimit is the bound of L1. Where TTLTimeout is no longer than
// LeaderTimeout, 2 x TTLTimeout is too short for the longest way: a founding
// that loses its leader, and is finished in the name of that one.
func (j *judge) leaderLimit() time.Duration {
	t := j.c.setup.Timings
	return max(2*t.TTLTimeout, 2*t.LeaderTimeout+5*t.RetryInterval)
}

// noteFailure notes that a demand was not met, unless nobody could have met it: a
// leader may have given a seat away just before its new owner went down.
func (j *judge) noteFailure(invariant, format string, args ...any) {
	if j.c.check.void != "" {
		return
	}
	if j.hopeless = j.c.whyNoQuorum(); j.hopeless == "" {
		j.c.check.noteViolation(invariant, format, args...)
	}
}

// healAll ends all faults, and all processes but a few are up. A twin makes room,
// unless it has taken the seat.
func (j *judge) healAll() {
	c, r := j.c, j.rand
	c.noteRun(Phase, "faults end")
	c.healLinks(calmLink(c.setup.Timings))
	c.net.calm = true
	for i := range c.procs {
		c.Resume(i, r.IntN(2) == 0)
	}
	j.waitWhile(func(p *process) bool { return p.saving != nil })
	for _, p := range c.procs[c.setup.Processes:] {
		if !p.isStarted() {
			continue
		}
		if c.hasVote(p) && !c.hasVote(c.procs[p.home]) {
			c.Crash(p.home)
		} else {
			c.Crash(p.index)
		}
		// A leader may hold a place for the one that is gone.
		c.RunFor(3 * c.setup.Timings.RetryInterval)
	}
	// What was late is a fault until it has arrived.
	c.RunFor(time.Duration(max(c.queue.lastMessageTime()-c.now, 0)) + 1)
	// A process that is leaving, or that has another configuration, starts again.
	for i, p := range c.procs {
		other := !p.misfit.isZero() || p.cfg.Timings != c.setup.Timings
		if p.isStarted() && (p.leaving || other) {
			p.misfit = misfit{}
			c.Reconfigure(i, c.setup.Timings)
		}
		p.misfit, p.cfg.Timings = misfit{}, c.setup.Timings
		if i < c.setup.Processes && !c.isOccupied(p) {
			c.Start(i)
		}
	}
	j.waitWhile(func(p *process) bool { return p.starting != nil })
	if r.IntN(3) == 0 {
		for _, i := range r.Perm(c.setup.Processes)[:r.IntN(c.setup.Size-c.check.quorum+1)] {
			j.leaveDown(i)
		}
	}
	j.drainSome()
}

// waitWhile lets time pass as long as any process is so.
func (j *judge) waitWhile(is func(*process) bool) {
	for slices.ContainsFunc(j.c.procs, is) && j.c.check.first == nil {
		j.c.RunFor(j.c.setup.Timings.HeartbeatInterval)
	}
}

// leaveDown leaves a process down where the others can do without it: with M
// voters, and with a seed for those that know nobody.
func (j *judge) leaveDown(i int) {
	p := j.c.procs[i]
	if !p.isUp() || p.cfg.Volatile || !j.c.check.founded || j.c.whyNoQuorum() != "" {
		return
	}
	j.c.Crash(i)
	seedUp := slices.ContainsFunc(j.c.procs, func(o *process) bool { return o.isUp() && o.isSeed() })
	if !seedUp || j.c.whyNoQuorum() != "" {
		j.c.Start(i)
	}
}

// hasVote reports whether a process is a voter of the newest state.
func (c *Cluster) hasVote(p *process) bool {
	var newest member.State
	for _, o := range c.procs {
		if newest.Less(o.store.Held.Number) {
			newest = o.store.Held
		}
	}
	return newest.Roster.IsVoter(p.voter())
}

// isOccupied reports whether a process is started at the address of another.
func (c *Cluster) isOccupied(p *process) bool {
	return slices.ContainsFunc(c.procs, func(o *process) bool {
		return o.home == p.home && o.isStarted()
	})
}

func (j *judge) measureSince(name string, since int64, bound time.Duration) {
	j.measures = append(j.measures, Measure{name, time.Duration(j.c.now - since), bound, false})
}

// expectSince measures what section 11 does not bound.
func (j *judge) expectSince(name string, since int64, bound time.Duration) {
	j.measures = append(j.measures, Measure{name, time.Duration(j.c.now - since), bound, true})
}

// hasWaiting reports whether a process that is up has no place.
func (c *Cluster) hasWaiting() bool {
	l := c.Leader()
	return l >= 0 && slices.ContainsFunc(c.procs, func(p *process) bool {
		return p.isUp() && c.hasNoPlace(p, c.procs[l].store.Held)
	})
}

// checkSeats demands that a process that waits gets the seat of one that is gone.
func (j *judge) checkSeats() {
	c, t := j.c, j.c.setup.Timings
	free := func() bool {
		l := c.Leader()
		return l >= 0 && slices.ContainsFunc(c.procs[l].store.Held.Roster, func(m member.Member) bool {
			return m.Status != member.Active
		})
	}
	c.noteRun(Phase, "a process waits for a seat")
	limit := 2*t.TTLTimeout + 10*t.RetryInterval
	if !c.RunUntil(limit, func() bool { return c.Settled() && !(c.hasWaiting() && free()) }) {
		j.noteFailure("L2", "a process waits for a seat that nobody uses, %v after all were active",
			limit)
	}
}

func (j *judge) runEpilogue() {
	c := j.c
	what := j.x.plan.Epilogue
	if c.votersUp(c.procs[c.Leader()].store.Held.Roster) <= c.check.quorum {
		what = quiet // nobody can be missed
	}
	if c.procs[c.Leader()].drained && what == disturb {
		what = quiet // it hands over to a member that comes back and is not drained
	}
	switch what {
	case disturb:
		j.disturbMinority()
	case failover:
		j.crashLeader()
	case cutOff:
		j.cutOff()
	case depart:
		j.leaveInOrder()
	default:
		j.checkSteady(2*c.setup.Timings.TTLTimeout, "in peace")
	}
}

// checkSteady demands L3: the leader stays, and stays quorate, and who follows it now
// goes on to, active, but for those that are weak.
func (j *judge) checkSteady(d time.Duration, why string, weak ...int) {
	c := j.c
	leader := c.Leader()
	version := c.Authority(leader)
	calm := func(p *process) bool {
		m, ok := c.procs[leader].store.Held.Roster.Find(p.cfg.Address)
		return ok && m.Status == member.Active && p.isUp() && p.seen.Role == member.Following &&
			p.seen.Leader == c.procs[leader].cfg.Address
	}
	var followers []*process
	for _, p := range c.procs {
		if calm(p) && !slices.Contains(weak, p.index) {
			followers = append(followers, p)
		}
	}
	lost := func() bool { return c.Leader() != leader || c.Authority(leader) != version }
	disturbed := func() bool {
		return slices.ContainsFunc(followers, func(p *process) bool { return !calm(p) })
	}
	if !c.RunUntil(d, func() bool { return lost() || disturbed() }) {
		return
	}
	if c.procs[leader].drained && len(j.listSuccessors(leader)) > 0 {
		return // It hands over to a member that got its place just now.
	}
	if lost() {
		j.noteFailure("L3", "%s lost its authority for version %d %s", nameOf(leader), version, why)
		return
	}
	j.noteFailure("L3", "a member of %s was disturbed %s", nameOf(leader), why)
}
