// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// diskCopy is a copy of a store, with what the run that made it owes.
type diskCopy struct {
	store paxos.Durable
	owed  statemachine.Owed
}

// CopyDisk keeps a copy of the store of a process.
func (c *Cluster) CopyDisk(i int) {
	p := c.procs[i]
	p.copied = diskCopy{p.store, p.owed}
}

// RestoreDisk replaces the store of a process that is down with the copy.
func (c *Cluster) RestoreDisk(i int) {
	p := c.procs[i]
	if p.isStarted() || p.copied.store.StoreID.IsZero() {
		return
	}
	c.noteProcess(p, DiskRestored, "")
	p.store, p.owed, p.restored = p.copied.store, p.copied.owed, true
	c.check.restored, c.check.copied = true, append(c.check.copied, p.cfg.Address)
}

// checkCopy checks that a restored copy is found only if there is one.
func (k *checker) checkCopy(p *process, t statemachine.Trace) {
	switch {
	case t.Kind != statemachine.FoundCopy && t.Kind != statemachine.FoundLater:
	case !k.restored:
		k.noteViolation("copy", "%s finds a restored copy, but none was restored: %v of %v",
			p.cfg.Name, t.Kind, t.Peer)
	case t.Kind == statemachine.FoundLater && k.void == "":
		k.noteViolation("copy", "%s reports that voters have forgotten the state of %v, but none has",
			p.cfg.Name, t.Peer)
	}
}

// endCopy reports whether a process gives up a store that was restored from a copy, or, because of
// a late refusal, one that is no longer such a copy or that it has instead: a message of the
// simulator can reach a later run, or another process at the address. Its operator does not let it
// found a cluster.
func (k *checker) endCopy(p *process, old paxos.Durable) bool {
	ends := slices.Contains(k.copied, p.cfg.Address) || k.restored && !hasVoted(old)
	p.restored = false
	p.cfg.JoinOnly = p.cfg.JoinOnly || ends && p.isSeed()
	return ends
}

// hasForgotten reports whether a store has forgotten votes or states.
func (k *checker) hasForgotten(v member.Voter, d paxos.Durable) bool {
	l := k.historyOf(v)
	forgot := func(last, id paxos.ID) bool {
		return last.Compare(id) < 0 && d.Held.Version < id.Version
	}
	return d.Held.Number.Less(l.held) || forgot(d.Accepted.ID, l.accepted) ||
		forgot(d.Promised, l.granted) || forgot(d.Promised, l.promised)
}

// noteCopyActs records that a restored store voted, took a state or supports a leader, although it
// has forgotten votes or states, as it does if no other node that remembers has heard it before.
func (k *checker) noteCopyActs(p *process, d paxos.Durable) {
	if k.void == "" && p.restored && k.hasForgotten(p.voter(), d) {
		k.void = fmt.Sprintf("by %v, %s acted with a store that was restored from a copy",
			time.Duration(k.now), p.cfg.Name)
	}
}

// streamCopies draws the faults. The stream before it determines whether a run has them.
const streamCopies = -21

// drawCopy draws a process whose store is copied. Args[0] is the time until it returns with the
// copy, after the time Lasts.
func (x *chaos) drawCopy(f *Fault) {
	t := x.plan.Setup.Timings
	f.Who, f.Lasts = x.drawVictim(), x.drawDowntime()
	f.Args = []int64{int64(drawSpread(x.rand, float64(t.HeartbeatInterval), 4*float64(t.TTLTimeout)))}
}

// restoreCopy restores a copy if the protocol tolerates the loss of the store, and no other copy
// was restored: the process may give the store up.
func (x *chaos) restoreCopy(f Fault) bool {
	p := x.c.procs[f.Who]
	if len(f.Args) == 0 || p.cfg.Volatile || p.claims {
		return false
	}
	x.c.CopyDisk(f.Who)
	x.callLater(time.Duration(f.Args[0]), func() {
		other := func(o *process) bool { return o.restored && o != p }
		if slices.ContainsFunc(x.c.procs, other) || p.copied.store.StoreID != p.store.StoreID ||
			!x.c.check.founded || !x.c.mayForget(f.Who) {
			return
		}
		x.c.Crash(f.Who)
		x.c.RestoreDisk(f.Who)
		x.countFault(RestoredCopies)
		x.restartLater(f.Who, f.Lasts)
	})
	return false
}

// checkCopies lets one member, or a majority, return with earlier copies of their stores.
func (j *judge) checkCopies() {
	c := j.c
	members := j.rand.Perm(c.setup.Processes)
	members = slices.DeleteFunc(members, func(i int) bool {
		return !c.procs[i].isUp() || !c.hasVote(c.procs[i])
	})
	isCopy := func(p *process) bool { return p.restored }
	if len(c.setup.Volatile) > 0 || c.setup.Size < 3 || len(members) < c.setup.Size ||
		slices.ContainsFunc(c.procs, isCopy) || c.check.void != "" {
		j.checkSteady(2*c.setup.Timings.TTLTimeout, "without faults")
		return
	}
	for i := range c.procs {
		c.CopyDisk(i)
	}
	for range 1 + j.rand.IntN(3) {
		if !j.moveOn() {
			return
		}
	}
	if j.rand.IntN(2) == 0 {
		j.checkOneCopy(members[0])
	} else {
		j.checkMajorityOfCopies(members[:c.check.quorum], members[c.check.quorum:])
	}
}

// moveOn hands leadership over, or restarts the leader, and reports whether another leadership
// began. Other checks require that.
func (j *judge) moveOn() bool {
	c, t := j.c, j.c.setup.Timings
	version := c.leaderVersion()
	if j.rand.IntN(2) == 0 {
		c.Restart(c.Leader())
	} else {
		_ = c.Transfer(c.Leader(), -1) // there may be no successor
	}
	return c.RunUntil(2*t.TTLTimeout+5*t.RetryInterval, func() bool {
		return c.leaderVersion() > version && c.Settled()
	})
}

// restoreAll restores the stores of some processes simultaneously, and starts the processes.
func (j *judge) restoreAll(who []int) {
	for _, i := range who {
		j.c.Crash(i)
		j.c.RestoreDisk(i)
	}
	for _, i := range who {
		j.c.Start(i)
		j.c.RunFor(time.Duration(j.rand.Int64N(int64(j.c.setup.Timings.HeartbeatInterval))))
	}
}

// checkOneCopy checks that a member that returns with a copy gives it up, and that nothing breaks.
func (j *judge) checkOneCopy(who int) {
	c, t, p := j.c, j.c.setup.Timings, j.c.procs[who]
	c.noteRun(Phase, "%s returns with a copy of its store", p.cfg.Name)
	old := p.store.StoreID
	found := j.countFindings(statemachine.FoundCopy)
	j.restoreAll([]int{who})
	limit := 2*t.TTLTimeout + 5*t.RetryInterval + t.HeartbeatTimeout
	done := c.RunUntil(limit, func() bool {
		return p.store.StoreID != old && (c.Settled() || !c.hasCandidate(who)) // only witnesses are left
	})
	if !done || found[who] != 1 || len(found) < 2 || c.check.void != "" {
		c.check.noteViolation("copy", "%s, with a copy of its store, became another member: %v; found "+
			"by %v within %v, want itself once and another one; %s", p.cfg.Name, done, found, limit,
			c.check.void)
	}
}

// checkMajorityOfCopies checks that a majority of copies is reported. The other members remember
// more. Sometimes they return only when the copies have elected a leader. If a token was used
// twice, all must report it that remain voters of the leader until it exceeds the token that the
// others remember. Only if the others never were down, so many copies may be given up that there
// is no leader.
func (j *judge) checkMajorityOfCopies(who, others []int) {
	c, t := j.c, j.c.setup.Timings
	c.noteRun(Phase, "%s return with copies of their stores", processNames(who))
	used, holder := c.leaderVersion(), c.procs[c.Leader()].identity()
	found := j.countFindings(statemachine.FoundLater)
	late := j.rand.IntN(2) == 0
	for _, i := range others {
		if late {
			c.Crash(i)
		}
	}
	j.restoreAll(who)
	limit := 2*t.TTLTimeout + 5*t.RetryInterval
	if late && !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) {
		c.check.noteViolation("copy", "a majority of copies has no leader within %v", limit)
		return
	}
	again := c.leaderVersion() // 0 if the others never were down
	for _, i := range others {
		c.Start(i)
	}
	isVoter := func(i int) bool {
		return c.procs[c.Leader()].store.Held.Roster.IsVoter(c.procs[i].voter())
	}
	bound := slices.Concat(who, others)
	exceeds := func() bool { // or the leader, which is no copy, still leads
		if c.Leader() >= 0 {
			bound = slices.DeleteFunc(bound, func(i int) bool { return !isVoter(i) })
		}
		return c.Settled() && (c.leaderVersion() > used ||
			c.leaderVersion() == used && c.procs[c.Leader()].identity() == holder)
	}
	silent := func(i int) bool { return found[i] == 0 }
	limit += t.LeaseTimeout + t.TTLTimeout
	switch is := c.RunUntil(limit, exceeds); {
	case !is && c.Leader() >= 0 && !slices.ContainsFunc(others, isVoter):
		// Their places went to other processes while they were down: only voters are believed.
	case !is && (late || c.whyNoQuorum() == ""):
		c.check.noteViolation("copy", "after a majority of copies the leader has the version %d after %d",
			c.leaderVersion(), used)
	case is && again > 0 && again <= used && slices.ContainsFunc(bound, silent):
		c.check.noteViolation("copy", "the token %d was used again after %d, but only %v of %v report it",
			again, used, found, bound)
	}
}

// countFindings counts how often each process makes a decision of the given kind, from now on.
func (j *judge) countFindings(kind statemachine.TraceKind) map[int]int {
	by := map[int]int{}
	j.c.onTrace = func(p int, t statemachine.Trace) {
		if t.Kind == kind {
			by[p]++
		}
	}
	return by
}
