// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// Result describes a completed run.
type Result struct {
	Options  Options      // the options, with Size and For as drawn
	Faults   Faults       // classes that could happen
	Happened [classes]int // number of faults of each class
	Timings  string

	Steps    int
	Virtual  time.Duration // global time that passed
	Messages Messages
	Versions int // leaders chosen
	Changes  int // number of times that authority passed to another process
	// Gap is the shortest time from the end of a leader's authority to the start of the next leader's
	// authority. It is negative if authority never moved, or if Void is set.
	Gap time.Duration
	// Writes is the number of writes that the fenced register accepted. Fenced is the number of writes
	// that it refused because a later leader had written.
	Writes, Fenced int

	// Void is the reason why the invariants between nodes did not apply to the end of the run, which
	// is possible only with memory stores. Void is empty if they applied.
	Void string
	// Hopeless is the reason why the run does not require a leader after the faults. It is
	// empty if a leader was required.
	Hopeless string
	// Emptied is the number of stores that an operator emptied after the faults, because their nodes
	// had no vote and were bound above the version of the leader.
	Emptied int
	// Measures lists the durations measured after the heal, with their bounds.
	Measures []Measure
	Cover    Cover // rules reached, with the classes of faults that had happened

	Violation *Violation // nil if no invariant broke
	Hash      uint64     // hash of everything that happened
	largest   int        // number of members of the largest roster
	smallest  int        // the smallest size of a process that had authority
	mixed     bool       // in the end, the processes have different sizes

	read   bool // the run was read from a Replay, so the seed alone gives another run
	timely bool // the Replay delays no message
}

// Measure is a measured duration and the bound that protocol.md section 11 gives for 99 of 100
// runs. A longer duration does not fail the run. Other checks enforce the limits for every run.
type Measure struct {
	Name     string
	Took     time.Duration
	Bound    time.Duration
	Expected bool // the bound is not in section 11
}

// String returns a summary, one fact per line.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: N=%d, %d steps in %v, %d versions, %d leader changes, faults: %v",
		r.Options.Seed, r.Options.Size, r.Steps, r.Virtual.Round(time.Millisecond),
		r.Versions, r.Changes, r.listFaults())
	if r.Void != "" {
		fmt.Fprintf(&b, "\ninvariants not required: %s", r.Void)
	}
	if r.Hopeless != "" {
		fmt.Fprintf(&b, "\nno leader required: %s", r.Hopeless)
	}
	if r.Violation != nil {
		fmt.Fprintf(&b, "\n%v", r.Violation)
		if !r.read {
			fmt.Fprintf(&b, "\nreplay: %s", r.Options.Replay())
		}
	}
	return b.String()
}

// listFaults lists the faults that happened. Faults also contains classes that only could happen.
func (r Result) listFaults() string {
	n := r.Happened
	n[Loss.bitIndex()], n[Duplication.bitIndex()] = r.Messages.Lost, r.Messages.Duplicated
	if r.timely {
		n[Delay.bitIndex()] = 0
	}
	return listHappened(n)
}

// Run runs to the end or to the first broken invariant. It panics if Options.Validate
// returns an error.
func Run(o Options) Result {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	p := drawPlan(o)
	r := runPlan(p, &recording{}, o.Record)
	o.Size, o.For, o.Record = p.Setup.Size, p.For, nil
	r.Options = o
	return r
}

// runPlan runs a plan that was drawn or read from a file.
func runPlan(p Plan, t *recording, record func(Record)) Result {
	p.Setup.Record = record
	c := newCluster(p.Setup, t)
	x := newChaos(c, p)
	j := &judge{
		c: c, x: x, rand: randomStream(p.Setup.Seed, streamJudge),
		orders: randomStream(p.Setup.Seed, streamOrders),
	}
	x.startFaults()
	if p.Dead > 0 {
		j.checkFormation()
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
		Emptied:   j.emptied,
		Measures:  j.measures,
		Cover:     c.cover,
		Violation: c.check.first,
		Hash:      c.hash,
		largest:   c.check.largest,
		smallest:  c.check.smallest,
		mixed: slices.ContainsFunc(c.procs, func(p *process) bool {
			return p.cfg.Size != c.setup.Size
		}),
		read:   t.isReplay(),
		timely: t.isReplay() && len(t.known) == 0,
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

// epilogue is the last phase of a run, in a healed cluster.
type epilogue int

const (
	quiet    epilogue = iota // no faults
	disturb                  // a minority of the members has faults
	failover                 // the leader crashes
	cutOff                   // the leader is isolated and reconnected
	depart                   // leadership is handed over and a member leaves
	slowed                   // disks are slow, and the leader is lost
	restored                 // one member or a majority returns with an earlier copy of its store
	epilogues
)

// judge heals a cluster and checks the invariants of protocol.md section 11 that apply after a
// heal.
type judge struct {
	c        *Cluster
	x        *chaos
	rand     *rand.Rand
	orders   *rand.Rand
	hopeless string
	emptied  int // number of stores emptied by the operator
	measures []Measure
}

func (j *judge) judgeRun() {
	c, t := j.c, j.c.setup.Timings
	j.healAll()
	if j.hopeless = c.whyNoQuorum(); j.hopeless != "" || c.check.void != "" {
		c.noteRun(Phase, "no leader is required: %s%s", j.hopeless, c.check.void)
		c.RunFor(4 * t.TTLTimeout)
		return
	}
	start, drained := c.now, j.drainedDelay()
	// L1: a quorate leader within 2 x TTLTimeout.
	if limit := j.leaderLimit() + drained; !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) {
		j.noteFailure("L1", "still no quorate leader %v after the heal", limit)
		return
	}
	j.recordMeasure("leader after faults", start, 2*t.LeaderTimeout+drained)
	j.emptyBound()
	// L2: one leader and every node active within 2 x TTLTimeout + 5 RetryInterval.
	limit := 2*t.TTLTimeout + 5*t.RetryInterval + drained
	if slices.ContainsFunc(c.procs, func(p *process) bool { return p.isUp() && !c.hasVote(p) }) {
		limit += t.HeartbeatTimeout // the leader holds the address for the store that it knows
	}
	if !c.RunUntil(limit-time.Duration(c.now-start), c.Settled) {
		j.noteFailure("L2", "not all members are active under one leader %v after the heal", limit)
		return
	}
	j.recordMeasure("all active after faults", start, t.TTLTimeout+8*t.RetryInterval+drained)
	if c.hasWaiting() {
		j.checkSeats()
	}
	if !j.awaitHandOver() {
		return
	}
	j.checkRecords()
	c.RunFor(2 * t.HeartbeatInterval)
	if c.check.first == nil && c.Settled() {
		j.runEpilogue()
	}
}

// leaderLimit is the time that invariant L1 allows. In the worst case, a founding loses its leader
// and another proposer completes it. If TTLTimeout is at most LeaderTimeout, 2 x TTLTimeout is too
// short for that.
func (j *judge) leaderLimit() time.Duration {
	t := j.c.setup.Timings
	return max(2*t.TTLTimeout, 2*t.LeaderTimeout+5*t.RetryInterval)
}

// noteFailure records a violation of a liveness invariant. It ignores violations that no cluster
// could prevent, for example if a leader gave a seat away and the new owner then went down.
func (j *judge) noteFailure(invariant, format string, args ...any) {
	if j.c.check.void != "" {
		return
	}
	if j.hopeless = j.c.whyNoQuorum(); j.hopeless == "" {
		j.c.check.noteViolation(invariant, format, args...)
	}
}

// healAll ends all faults and starts all processes except a few. If a process and its twin are
// running, it stops the process without the seat. It stops all claimants.
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
		if !p.claims && c.hasVote(p) && !c.hasVote(c.procs[p.home]) {
			c.Crash(p.home)
		} else {
			c.Crash(p.index)
		}
		// The leader may still hold a seat for the stopped process.
		c.RunFor(3 * c.setup.Timings.RetryInterval)
	}
	// Delayed messages count as faults until they have arrived.
	c.RunFor(time.Duration(max(c.queue.lastMessageTime()-c.now, 0)) + 1)
	// Restart processes that are leaving or have a different configuration.
	for i, p := range c.procs {
		other := !p.misfit.isZero() || p.cfg.Timings != c.setup.Timings ||
			p.cfg.OtherTimings != message.Timings{}
		if p.isStarted() && (p.leaving || other) {
			p.misfit = misfit{}
			c.Reconfigure(i, c.setup.Timings, message.Timings{})
		}
		p.misfit, p.cfg.Timings = misfit{}, c.setup.Timings
		p.cfg.OtherTimings = message.Timings{}
		if i < c.setup.Processes && !c.isOccupied(p) {
			c.Start(i)
		}
	}
	j.waitWhile(func(p *process) bool { return p.starting != nil })
	if r.IntN(3) == 0 {
		for _, i := range r.Perm(c.setup.Processes)[:r.IntN(c.setup.Size-c.check.quorum+1)] {
			j.tryLeaveDown(i)
		}
	}
	j.drainSome()
}

// waitWhile runs the cluster while the condition holds for any process.
func (j *judge) waitWhile(is func(*process) bool) {
	for slices.ContainsFunc(j.c.procs, is) && j.c.check.first == nil {
		j.c.RunFor(j.c.setup.Timings.HeartbeatInterval)
	}
}

// tryLeaveDown leaves a process down if the others can form a cluster without it. A quorum of
// voters must be up. A seed must be up too, because a node that knows no other member needs a seed.
func (j *judge) tryLeaveDown(i int) {
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

// hasVote reports whether a process is a voter in the newest held state.
func (c *Cluster) hasVote(p *process) bool {
	var newest member.State
	for _, o := range c.procs {
		if newest.Less(o.store.Held.Number) {
			newest = o.store.Held
		}
	}
	return newest.Roster.IsVoter(p.voter())
}

// isOccupied reports whether p or another process with its address is started.
func (c *Cluster) isOccupied(p *process) bool {
	return slices.ContainsFunc(c.procs, func(o *process) bool {
		return o.home == p.home && o.isStarted()
	})
}

func (j *judge) recordMeasure(name string, since int64, bound time.Duration) {
	j.measures = append(j.measures, Measure{name, time.Duration(j.c.now - since), bound, false})
}

// recordExpected measures a duration for which section 11 gives no bound.
func (j *judge) recordExpected(name string, since int64, bound time.Duration) {
	j.measures = append(j.measures, Measure{name, time.Duration(j.c.now - since), bound, true})
}

// hasWaiting reports whether a running process has no seat.
func (c *Cluster) hasWaiting() bool {
	l := c.Leader()
	return l >= 0 && slices.ContainsFunc(c.procs, func(p *process) bool {
		return p.isUp() && !p.claims && c.hasNoPlace(p, c.procs[l].store.Held)
	})
}

// checkSeats checks that a waiting process receives the seat of a member that is gone.
func (j *judge) checkSeats() {
	c, t := j.c, j.c.setup.Timings
	free := func() bool {
		l := c.Leader()
		return l >= 0 && slices.ContainsFunc(c.procs[l].store.Held.Roster, func(m member.Member) bool {
			return m.Status != member.Active
		})
	}
	c.noteRun(Phase, "a process waits for a seat")
	limit := 2*t.TTLTimeout + 10*t.RetryInterval + c.setup.SeatTimeout
	done := func() bool { return c.Settled() && !(c.hasWaiting() && free()) }
	leader := c.Leader()
	for !c.RunUntil(limit, done) && leader != c.Leader() {
		leader = c.Leader() // it is more preferred, and counts SeatTimeout from its election
	}
	if !done() {
		j.noteFailure("L2", "a process still waits after %v, although a seat is free", limit)
	}
}

func (j *judge) runEpilogue() {
	c := j.c
	what := j.x.plan.Epilogue
	if c.votersUp(c.procs[c.Leader()].store.Held.Roster) <= c.check.quorum {
		what = quiet // every voter is needed
	}
	if !c.procs[c.Leader()].mayLead() && what == disturb {
		what = quiet // the leader hands over to a returning member that may lead
	}
	if c.setup.HandOver > 0 {
		what = quiet // the leader may hand over to a returning member
	}
	defer j.startClaims()()
	switch what {
	case disturb:
		j.checkMinorityFaults()
	case failover:
		j.checkCrash()
	case cutOff:
		j.isolateLeader()
	case depart:
		j.checkLeaving()
	case slowed:
		j.checkSlowDisks()
	case restored:
		j.checkCopies()
	default:
		j.checkSteady(2*c.setup.Timings.TTLTimeout, "without faults")
	}
}

// checkSteady checks invariant L3 for the duration d: the leader stays quorate, and its current
// followers stay active and follow it. The processes in weak are exempt.
func (j *judge) checkSteady(d time.Duration, why string, weak ...int) {
	c, start := j.c, j.c.now
	leader := c.Leader()
	version := c.Authority(leader)
	calm := func(p *process) bool {
		m, ok := c.procs[leader].store.Held.Roster.Find(p.cfg.Address)
		return ok && m.Status == member.Active && p.isUp() && p.shownView.Role == member.Following &&
			p.shownView.Leader == c.procs[leader].cfg.Address
	}
	var followers []*process
	for _, p := range c.procs {
		if calm(p) && !p.claims && !slices.Contains(weak, p.index) {
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
	if j.handsOver(leader) || c.check.preferredAt > start {
		return // the leader hands over to a member with a new seat, or to one that just crashed
	}
	if j.exceedsStopped(leader, version) {
		return
	}
	if lost() {
		j.noteFailure("L3", "%s lost its authority for version %d %s", nameOf(leader), version, why)
		return
	}
	j.noteFailure("L3", "a member of the cluster led by %s was disturbed %s", nameOf(leader), why)
}

// exceedsStopped reports whether a leader has been elected again to exceed the bound of a member
// that has stopped meanwhile (protocol.md section 6, above the bound).
func (j *judge) exceedsStopped(leader int, version uint64) bool {
	l := j.c.procs[leader]
	return l.store.Held.Version > version && l.store.Held.Leader == l.cfg.Address &&
		slices.ContainsFunc(j.c.procs, func(p *process) bool {
			return !p.isUp() && p.store.Bound() > version
		})
}
