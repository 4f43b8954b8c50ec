// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// This file draws and checks the traits of members: their preference and their labels (protocol.md
// section 3).

// streamPreferences draws the preferences of a run, and streamTraits the changes at run time.
const (
	streamPreferences = -9
	streamTraits      = -10
)

// drawTraits draws the preference of each process in one run of three. In half of these runs,
// leaders hand over to more preferred members. At most a minority of the processes are witnesses.
func drawTraits(r *rand.Rand, p *Plan) {
	if r.IntN(3) > 0 {
		return
	}
	s := &p.Setup
	s.Preferences = make([]member.Preference, s.Processes)
	for i := range s.Preferences {
		s.Preferences[i] = member.Preference(r.IntN(2) * r.IntN(4))
	}
	for _, i := range r.Perm(s.Processes)[:r.IntN((s.Size-1)/2+1)] {
		s.Preferences[i] = member.NeverLeads
	}
	if r.IntN(2) == 0 {
		leader := float64(s.Timings.LeaderTimeout)
		s.HandOver = time.Duration(drawSpread(r, leader, 4*leader))
	}
	if r.IntN(2) == 0 {
		p.Faults |= NewTraits
	}
}

// drawChange draws a change of the preference or the labels of a process. Args[0] is the
// preference. If the labels change, Args[0] is NeverLeads - 1 and Args[1] selects the labels.
func (x *chaos) drawChange(f *Fault) {
	f.Who = x.drawVictim()
	f.Args = []int64{x.rand.Int64N(2) * (x.rand.Int64N(5) + int64(member.NeverLeads)), 0}
	if x.rand.IntN(2) == 0 {
		f.Args = []int64{int64(member.NeverLeads) - 1, x.rand.Int64N(8)}
	}
}

// changeTraits applies the change if at least one process is not a witness afterwards.
func (x *chaos) changeTraits(f Fault) bool {
	p := x.c.procs[f.Who]
	if !p.isUp() || p.paused || len(f.Args) < 2 {
		return false
	}
	n := member.Preference(f.Args[0])
	if n < member.NeverLeads {
		x.c.SetLabels(f.Who, labelsOf(f.Args[1]))
		return true
	}
	others := func(o *process) bool {
		return o != p && !o.claims && o.traits.Preference != member.NeverLeads
	}
	if n == member.NeverLeads && !slices.ContainsFunc(x.c.procs, others) {
		return false
	}
	x.c.Prefer(f.Who, n)
	return true
}

// labelsOf returns the labels that a number selects. 0 selects no labels.
func labelsOf(n int64) member.Labels {
	if n == 0 {
		return ""
	}
	l, err := member.NewLabels(map[string]string{"host": "h", "zone": fmt.Sprint("z", n)})
	if err != nil {
		panic(err)
	}
	return l
}

// Prefer sets the preference of a process for the rest of its run.
func (c *Cluster) Prefer(i int, n member.Preference) {
	c.giveOrder(i, fmt.Sprint("prefer ", n), func(p *process, now time.Time) statemachine.Output {
		p.drained, p.traits.Preference = false, n
		p.couldLead = p.couldLead || n != member.NeverLeads
		return p.machine.Prefer(now, n)
	})
}

// SetLabels sets the labels of a process for the rest of its run.
func (c *Cluster) SetLabels(i int, l member.Labels) {
	c.giveOrder(i, "label "+l.String(), func(p *process, now time.Time) statemachine.Output {
		p.traits.Labels = l
		return p.machine.SetLabels(now, l)
	})
}

// mayLead reports whether a process is neither drained nor a witness.
func (p *process) mayLead() bool { return !p.drained && p.traits.Preference != member.NeverLeads }

// hasCandidate reports whether any process except the given ones runs, has a vote, and is not a
// witness. A drained process counts, because it leads if no other process can.
func (c *Cluster) hasCandidate(without ...int) bool {
	return slices.ContainsFunc(c.procs, func(p *process) bool {
		return p.isUp() && !p.paused && p.traits.Preference != member.NeverLeads && !p.leaving &&
			!slices.Contains(without, p.index) && c.hasVote(p)
	})
}

// checkLeads checks a process that becomes leader or hands over. A run that has always been a
// witness must not lead. A witness that does not lead must not propose itself. A leader hands over
// only on request, or to a more preferred member if this is configured.
func (k *checker) checkLeads(p *process, t statemachine.Trace) {
	never := p.traits.Preference == member.NeverLeads
	switch {
	case t.Kind == statemachine.BecameLeader && !p.couldLead:
		k.noteBroken("witness", "%s leads version %d, but its run never leads", p.cfg.Name, t.Version)
	case t.Kind == statemachine.Proposing && never && t.Peer == p.cfg.Address &&
		k.auth[p.index].version == 0 && p.shownView.Role != member.Leading:
		k.noteBroken("witness", "%s proposes itself, but it never leads", p.cfg.Name)
	case t.Kind == statemachine.SteppedDown && t.Cause == statemachine.CauseHandOver &&
		p.mayLead() && !p.leaving && !p.asked:
		k.checkPreferred(p, t)
	}
}

// checkPreferred checks a leader that hands over without a request. It ignores one that acts late
// because its clock had stopped.
func (k *checker) checkPreferred(p *process, t statemachine.Trace) {
	if k.mayBeLate(p.index, t.Version, p.stepAt, k.auth[p.index].lease) {
		return
	}
	e, _ := p.store.Held.Roster.Find(t.Peer)
	switch {
	case p.cfg.HandOverToPreferred == 0:
		k.noteBroken("unasked", "%s hands over to %s without a request", p.cfg.Name, t.Peer)
	case e.Preference <= p.traits.Preference:
		k.noteBroken("unasked", "%s with preference %v hands over to %s with preference %v",
			p.cfg.Name, p.traits.Preference, t.Peer, e.Preference)
	case k.preferredAt > 0 && k.now-k.preferredAt < int64(p.cfg.HandOverToPreferred)*8/10:
		k.noteBroken("unasked", "%s hands over to %s %v after the last hand-over to a preferred member",
			p.cfg.Name, t.Peer, time.Duration(k.now-k.preferredAt))
	}
	k.preferredAt = k.now
}

// bestPreference returns the greatest preference of the possible successors of a crashed leader. It
// returns NeverLeads if a voter may refuse the first proposal, because it does not vote yet after a
// start, or promised a later version to an earlier attempt, or if a claimant may delay a voter's
// answers. It does so too if a drained member is more preferred: all others wait for that member,
// and then only a short turn for each other.
func (j *judge) bestPreference(old int) member.Preference {
	best := member.NeverLeads
	for _, p := range j.c.procs {
		promised := p.store.Promised.Version > j.c.procs[old].store.Held.Version
		if p.isUp() && (promised || p.claims || j.c.waitsAfterStart(p)) {
			return best
		}
	}
	for _, i := range j.listSuccessors(old) {
		best = max(best, j.c.procs[i].traits.Preference)
	}
	for _, p := range j.c.procs {
		if p.isUp() && p.drained && p.traits.Preference > best {
			return member.NeverLeads
		}
	}
	return best
}

// checkElected checks that a calm cluster has elected one of the most preferred members. It checks
// only clusters whose clocks run at the same rate: a member with a fast clock misses the leader
// before the others do.
func (j *judge) checkElected(best member.Preference) {
	c := j.c
	p := c.procs[c.Leader()]
	if !c.setup.Skew && len(c.setup.Slow) == 0 && p.mayLead() && p.traits.Preference < best {
		j.noteFailure("preferred", "%s with preference %v was elected, not a member with %v",
			p.cfg.Name, p.traits.Preference, best)
	}
}

// longestPause is the factor of TTLTimeout for which a member that led for a short time is not
// preferred at most (protocol.md section 6, preference). HandOver is always shorter.
const longestPause = 30

// awaitHandOver waits until the leader has handed over, if it must.
func (j *judge) awaitHandOver() bool {
	c, t := j.c, j.c.setup.Timings
	limit := 3*(c.setup.HandOver+2*t.LeaderTimeout) + 2*t.TTLTimeout
	limit += longestPause * t.TTLTimeout
	if !c.RunUntil(limit, func() bool { return c.Settled() && !j.handsOver(c.Leader()) }) {
		j.noteFailure("preferred", "a member that should not lead still leads after %v", limit)
		return false
	}
	return true
}

// handsOver reports whether a leader hands over without a request. A drained leader or a witness
// hands over to any successor. If HandOver is set, a leader also hands over to a more preferred
// successor.
func (j *judge) handsOver(leader int) bool {
	l := j.c.procs[leader]
	return slices.ContainsFunc(j.listSuccessors(leader), func(i int) bool {
		return !l.mayLead() ||
			j.c.setup.HandOver > 0 && j.c.procs[i].traits.Preference > l.traits.Preference
	})
}
