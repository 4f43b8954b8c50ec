// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Up reports whether a process is running. A paused process counts as running.
func (c *Cluster) Up(i int) bool { return c.procs[i].isUp() }

// View returns the view that a process shows, or the zero View if it is down.
func (c *Cluster) View(i int) member.View {
	p := c.procs[i]
	if !p.isUp() {
		return member.View{}
	}
	return p.machine.View(p.clock.at(c.now))
}

// Durable returns the contents of a process's store.
func (c *Cluster) Durable(i int) paxos.Durable { return c.procs[i].store }

// Authority returns the version for which a process has authority now, or 0.
func (c *Cluster) Authority(i int) uint64 {
	p := c.procs[i]
	if !p.isUp() {
		return 0
	}
	version, _ := p.machine.Authority(p.clock.at(c.now))
	return version
}

// Leader returns the process with authority now, or -1.
func (c *Cluster) Leader() int {
	for i, a := range c.check.auth {
		if a.version != 0 && a.until > c.now {
			return i
		}
	}
	return -1
}

// leaderVersion returns the version in which a process has authority now, or 0.
func (c *Cluster) leaderVersion() uint64 {
	if l := c.Leader(); l >= 0 {
		return c.check.auth[l].version
	}
	return 0
}

// Settled reports whether there is a quorate leader, and every running process is active in
// the leader's state and holds its newest revision. Processes without a seat in a full
// roster are ignored, and so are claimants.
func (c *Cluster) Settled() bool {
	l := c.Leader()
	if l < 0 {
		return false
	}
	held := c.procs[l].store.Held
	for _, p := range c.procs {
		if p.isUp() && !p.claims && !c.hasNoPlace(p, held) && !c.isSettled(p, held) {
			return false
		}
	}
	return true
}

// hasNoPlace reports whether a process has no seat because the roster is full.
func (c *Cluster) hasNoPlace(p *process, s member.State) bool {
	_, known := s.Roster.Find(p.cfg.Address)
	return !known && len(s.Roster) == c.setup.Size
}

func (c *Cluster) isSettled(p *process, s member.State) bool {
	m, _ := s.Roster.Find(p.cfg.Address)
	if m.Identity != p.identity() || m.Status != member.Active {
		return false
	}
	v := c.View(p.index)
	return !p.paused && m.Traits == p.traits && v.Leader == s.Leader && v.Quorate &&
		v.Version == s.Version && v.Revision == s.Revision
}

// CutOneWay drops all messages from one process to another until Heal.
func (c *Cluster) CutOneWay(from, to int) {
	c.noteRun(Network, "cut from %s to %s", nameOf(from), nameOf(to))
	c.net.linkOf(from, to).cuts++
}

// Cut drops all messages between two processes until Heal.
func (c *Cluster) Cut(a, b int) {
	c.CutOneWay(a, b)
	c.CutOneWay(b, a)
}

// Isolate cuts a process off from all others until Heal.
func (c *Cluster) Isolate(i int) {
	for o := range c.procs {
		if o != i {
			c.Cut(i, o)
		}
	}
}

// Split cuts every link between the given processes and the others until Heal.
func (c *Cluster) Split(side ...int) {
	inside := make([]bool, len(c.procs))
	for _, i := range side {
		inside[i] = true
	}
	for a := range c.procs {
		for b := range a {
			if inside[a] != inside[b] {
				c.Cut(a, b)
			}
		}
	}
}

// Heal ends every cut and restores the initial state of the links.
func (c *Cluster) Heal() { c.healLinks(c.setup.Link) }

func (c *Cluster) healLinks(l Link) {
	c.noteRun(Network, "heals")
	c.net.resetLinks(l)
	c.setup.Rejects = nil
}

// breakConnection breaks the connection between two processes. Messages in flight are lost, and no
// message can be sent for the duration d.
func (c *Cluster) breakConnection(a, b int, d int64) {
	c.noteRun(Network, "breaks the connection between %s and %s", nameOf(a), nameOf(b))
	c.net.linkOf(a, b).breakConnection(c.now + d)
	c.net.linkOf(b, a).breakConnection(c.now + d)
}

// cutPairs cuts links if n is 1, and restores them if n is -1.
func (c *Cluster) cutPairs(pairs []pair, n int) {
	word := "cuts"
	if n < 0 {
		word = "heals"
	}
	c.noteRun(Network, "%s %v", word, pairNames(pairs))
	for _, p := range pairs {
		if l := c.net.linkOf(p.from, p.to); l.cuts+n >= 0 {
			l.cuts += n
		}
	}
}

// storeExists reports whether the store of a voter still exists. A claimant stops for ever when the
// faults end.
func (c *Cluster) storeExists(v member.Voter) bool {
	for _, p := range c.procs {
		if p.voter() == v && !p.claims && (p.isUp() || !p.cfg.Volatile) {
			return true
		}
	}
	return false
}

// mayForget reports whether a process may lose its store. Without the store, every roster that a
// process holds must still have a quorum of voters, and no founding may be repeated.
func (c *Cluster) mayForget(i int) bool {
	p := c.procs[i]
	k := c.check
	if p.isSeed() {
		switch {
		case k.founded && p.cfg.Volatile && k.blankSeeds()+1 >= member.Quorum(len(k.seeds)):
			return false
		case !k.founded && hasVoted(p.store):
			return false
		case !k.founded && c.countFounders()-1 < member.Quorum(len(k.seeds)) && !p.cfg.Volatile:
			return false
		}
	}
	for _, o := range c.procs {
		for _, r := range o.possibleRosters() {
			if r.IsVoter(p.voter()) && c.countVoters(r, c.storeExists)-1 < k.quorum {
				return false
			}
		}
	}
	return true
}

// possibleRosters returns the rosters of the states that a process may start from.
func (p *process) possibleRosters() []member.Roster {
	return []member.Roster{p.store.Held.Roster, p.store.Accepted.State.Roster}
}

// countVoters counts the voters of a roster that satisfy a condition.
func (c *Cluster) countVoters(r member.Roster, is func(member.Voter) bool) int {
	n := 0
	for _, m := range r {
		if m.IsVoter() && is(m.Voter()) {
			n++
		}
	}
	return n
}

func (p *process) isSeed() bool {
	for _, s := range p.cfg.Seeds {
		if s == p.cfg.Address {
			return true
		}
	}
	return false
}

// countFounders counts the seeds that may take part in a founding.
func (c *Cluster) countFounders() int {
	n := 0
	for _, p := range c.procs[:c.setup.Processes] {
		if p.isSeed() && !p.cfg.JoinOnly {
			n++
		}
	}
	return n
}

// whyNoQuorum returns the reason why the running processes cannot have a quorate leader, or "". A
// leader is guaranteed (protocol.md section 11) if every roster that a running process holds has a
// quorum of running voters. In a new cluster, a majority of the seeds must be running.
func (c *Cluster) whyNoQuorum() string {
	holders, up, seeds, witnesses := 0, 0, 0, 0
	for _, p := range c.procs {
		if !p.isUp() || p.claims {
			continue
		}
		if !p.cfg.JoinOnly {
			up++
		}
		if p.isSeed() && !p.cfg.JoinOnly {
			seeds++
		}
		if !p.store.Held.IsZero() {
			holders++
		}
		if p.traits.Preference == member.NeverLeads {
			witnesses++
		}
		for _, r := range p.possibleRosters() {
			if n := c.votersUp(r); len(r) > 0 && n < c.check.quorum {
				return fmt.Sprintf("only %d of the %d voters needed are up in the roster %v of %s",
					n, c.check.quorum, r, p.cfg.Name)
			}
		}
	}
	switch {
	case holders > 0 && c.hasCandidate():
		return ""
	case holders > 0:
		return "no running voter may lead"
	case witnesses >= c.check.quorum:
		return fmt.Sprintf("%d witnesses may form a cluster that has no candidate", witnesses)
	case up < c.check.quorum:
		return fmt.Sprintf("only %d of the %d processes needed may found a cluster", up, c.check.quorum)
	case seeds < member.Quorum(len(c.check.seeds)):
		return fmt.Sprintf("only %d of %d seeds may found a cluster", seeds, len(c.check.seeds))
	default:
		return ""
	}
}

func (c *Cluster) votersUp(r member.Roster) int {
	return c.countVoters(r, func(v member.Voter) bool {
		for _, p := range c.procs {
			if p.isUp() && p.voter() == v {
				return true
			}
		}
		return false
	})
}

// Describe returns one line for each process with its role and store.
func (c *Cluster) Describe() string {
	var b strings.Builder
	for _, p := range c.procs {
		fmt.Fprintf(&b, "\n\t%s#%d", p.cfg.Name, p.store.Incarnation)
		switch {
		case !p.isUp():
			b.WriteString(" down")
		case p.paused:
			b.WriteString(" paused")
		default:
			v := c.View(p.index)
			due := "never"
			if p.wake != never {
				due = time.Duration(p.wake - c.now).String()
			}
			fmt.Fprintf(&b, " %v of %s at %d.%d quorate=%v authority=%d due in %s",
				v.Role, v.Leader.Host, v.Version, v.Revision, v.Quorate, c.Authority(p.index), due)
		}
		for _, flag := range []struct {
			name string
			on   bool
		}{
			{"seed", p.isSeed()}, {"memory", p.cfg.Volatile}, {"join only", p.cfg.JoinOnly},
			{"leaving", p.leaving}, {"drained", p.drained},
		} {
			if flag.on {
				b.WriteString(", " + flag.name)
			}
		}
		b.WriteString(": " + formatDurable(p.store))
	}
	return b.String()
}
