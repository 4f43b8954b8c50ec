// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// checkHeld checks a state that a process saved. All holders of its number must hold the same
// state. Its leader must have made the state. The state must follow from its predecessor and
// include everything that was committed before.
func (k *checker) checkHeld(p *process, before member.Number, s member.State) {
	digest := s.Digest()
	known, ok := k.digests[s.Number]
	if ok && known != digest {
		k.noteBroken("I6", "%s holds %s, but others hold %s under the same number",
			p.cfg.Name, formatState(s),
			formatState(k.states[s.Number]))
	}
	if !ok {
		k.digests[s.Number] = digest
		k.states[s.Number] = s
		k.checkNewState(p, before, s)
	}
	k.noteCommitted(s.Version)
}

// checkNewState checks a state that no process has saved before.
func (k *checker) checkNewState(p *process, before member.Number, s member.State) {
	k.checkShape(p, s)
	last, led := k.newest[s.Version]
	switch {
	case s.Revision == 0:
		k.checkIntroduced(p, before, s)
	case !led:
		k.noteBroken("I6", "%s holds %s before any node holds %d.0",
			p.cfg.Name, formatState(s), s.Version)
	case s.Revision > last.Revision && p.identity() != s.LeaderIdentity():
		k.noteBroken("I6", "%s holds %s before its leader, which is at %v",
			p.cfg.Name, formatState(s), last.Number)
	case last.LeaderIdentity() != s.LeaderIdentity():
		k.noteBroken("I1", "version %d has two leaders: %v and %v",
			s.Version, last.LeaderIdentity(), s.LeaderIdentity())
	case s.Revision > last.Revision:
		k.checkSuccessor(p, last, s)
	}
	if !led || s.Revision > last.Revision {
		k.newest[s.Version] = s
	}
}

// checkIntroduced checks that the initial state of a version was chosen.
func (k *checker) checkIntroduced(p *process, before member.Number, s member.State) {
	if k.quorum == 1 {
		// A node that is a majority by itself accepts a value and counts its own vote in one step. So the
		// vote is not visible.
		if k.chosen[s.Version] == nil {
			id := paxos.ID{Version: s.Version}
			if before.IsZero() {
				id.Version = 1
			}
			k.noteChosen(&value{accepted: paxos.Accepted{ID: id, Base: before, State: s},
				digest: s.Digest(), quorum: 1})
		}
		return
	}
	if v := k.chosen[s.Version]; v == nil || v.digest != s.Digest() {
		k.noteBroken("I1", "%s holds %s, but it was not chosen", p.cfg.Name, formatState(s))
	}
}

// checkShape checks the form of a state: at most N entries, sorted by address, without duplicates.
func (k *checker) checkShape(p *process, s member.State) {
	leader, ok := s.Roster.Find(s.Leader)
	k.largest = max(k.largest, len(s.Roster))
	switch {
	case len(s.Roster) > k.size:
		k.noteBroken("I5", "%s holds %d members, want at most %d: %s", p.cfg.Name, len(s.Roster), k.size,
			formatState(s))
	case !s.Roster.IsSorted():
		k.noteViolation("I5", "%s holds an unsorted roster: %s", p.cfg.Name, formatState(s))
	case !ok || !leader.IsVoter():
		k.noteBroken("I5", "%s holds %s, but its leader has no vote", p.cfg.Name, formatState(s))
	}
	for _, m := range s.Roster {
		if m.Status < member.Joining || m.Status > member.Leaving ||
			m.StoreID.IsZero() && (m.Status != member.Joining || !m.Gone) {
			k.noteBroken("I6", "%s holds %s with an impossible status %v, gone=%v of member %v",
				p.cfg.Name, formatState(s), m.Status, m.Gone, m.Address)
		}
	}
}

// checkSuccessor checks the transition from one state of a leader to a later state. A step may make
// several revisions but saves only the last.
func (k *checker) checkSuccessor(p *process, last, s member.State) {
	k.checkClaimants(p, s)
	jump := s.Revision - last.Revision
	changed := 0
	for _, o := range last.Roster {
		n, ok := s.Roster.Find(o.Address)
		if o.IsVoter() && !s.Roster.IsVoter(o.Voter()) {
			changed++
			k.checkSpared(p, last, o)
			if !ok {
				k.checkSeat(p, last, o)
			}
		}
		switch {
		case !ok:
			n = member.Member{}
			if o.Gone && !o.IsVoter() {
				k.checkSeat(p, last, o)
			}
		case n.StoreID.IsZero() && !o.StoreID.IsZero():
			k.kept[keptKey{p.index, n.Identity}] = kept{at: p.stepAt}
		case n.StoreID != o.StoreID:
			k.checkReplaced(p, last, o)
		}
		k.checkMove(last, s, o, n, jump)
		k.checkGone(p, last, o, n)
	}
	for _, n := range s.Roster {
		if n.IsVoter() && !last.Roster.IsVoter(n.Voter()) {
			changed++
		}
		if _, ok := last.Roster.Find(n.Address); !ok {
			k.checkMove(last, s, member.Member{}, n, jump)
		}
	}
	// (S) Voters change one at a time, and each change is committed before the next
	// (protocol.md section 3).
	switch {
	case changed > 1:
		k.noteBroken("I5", "%d voters changed at the same time: %s after %s", changed, formatState(s),
			formatState(last))
	case changed == 1 && k.quorum > 1 && k.commits[s.Version] <= last.Revision:
		k.noteBroken("I5", "a voter changed before %v was committed: %s after %s",
			last.Number, formatState(s), formatState(last))
	}
}

// checkMove checks the transition of one member against the table of section 3.
func (k *checker) checkMove(last, s member.State, o, n member.Member, jump uint64) {
	from, to := o.Shown(), n.Shown()
	switch {
	case n.Status != member.None && n.StoreID.IsZero():
		if from != member.Removed && from != member.Joining || !o.Gone ||
			n.Incarnation != o.Incarnation {
			k.noteBroken("I6", "%v lost its store with status %v: %s after %s", n.Address, from,
				formatState(s), formatState(last))
		}
		return
	case n.Status != member.None && o.Status != member.None && n.StoreID != o.StoreID:
		if to != member.Joining || n.Incarnation <= o.Incarnation && !o.StoreID.IsZero() ||
			n.Gone != (o.IsVoter() || o.Gone) {
			k.noteBroken("I6", "%v replaced its store with status %v, gone=%v and run %d, "+
				"the previous run was %d: %s after %s",
				n.Address, to, n.Gone, n.Incarnation, o.Incarnation, formatState(s), formatState(last))
		}
		return
	case n.Status != member.None && o.Status != member.None && n.Incarnation < o.Incarnation:
		k.noteBroken("I6", "%v went back from run %d to %d: %s after %s",
			n.Address, o.Incarnation, n.Incarnation, formatState(s), formatState(last))
	}
	if member.CanMove(from, to) {
		return
	}
	if jump > 1 {
		for via := member.None; via <= member.Removed; via++ {
			if member.CanMove(from, via) && member.CanMove(via, to) {
				return
			}
		}
	}
	k.noteBroken("I6", "%v%v moved from status %v to %v: %s after %s",
		o.Address, n.Address, from, to, formatState(s), formatState(last))
}

// checkGone checks the reason for the removal of a member: it was silent for TTLTimeout while the
// leader had authority, or it resigned. Before the member counts as removed, a quorum of voters
// must hold a state in which it is leaving (protocol.md section 3).
func (k *checker) checkGone(p *process, last member.State, o, n member.Member) {
	a := &k.auth[p.index]
	ttl := int64(p.cfg.Timings.TTLTimeout) / rateMax * rateUnit // on the fastest clock
	if n.Status != member.Leaving || n.Incarnation != o.Incarnation ||
		k.mayBeLate(p.index, last.Version, p.stepAt, ttl) {
		return
	}
	heard := max(k.kept[keptKey{p.index, o.Identity}].at, a.since)
	if o.Status == member.Unreachable && !n.Resigned && (a.version == 0 || p.stepAt-heard < ttl) {
		k.noteBroken("I4",
			"%s removes %v, but the member was heard or authority began only %v ago, want %v",
			p.cfg.Name, o.Address, time.Duration(p.stepAt-heard), time.Duration(ttl))
	}
	if n.Gone && !o.Gone && k.quorum > 1 && k.commits[last.Version] <= last.Revision {
		k.noteBroken("I4", "%s removed %v before %v was committed", p.cfg.Name, o.Address, last.Number)
	}
}

// checkSeat checks the conditions for giving a seat away: the roster is full or an operator
// releases seats, the member in the seat is leaving or was lost with another store that took the
// seat, and the leader is quorate (protocol.md 3).
func (k *checker) checkSeat(p *process, last member.State, o member.Member) {
	// Authority that was gained in this step is not recorded yet.
	authority := &k.auth[p.index]
	k.seatGiven = last
	k.wasAuthorized = authority.version != 0 && authority.until > p.stepAt
	if len(last.Roster) < p.cfg.Size && !p.releases ||
		o.Status != member.Leaving && o.Shown() != member.Removed {
		k.noteBroken("I5", "the seat of %v was given away although its status was %v, in %s",
			o.Address, o.Status,
			formatState(last))
	}
	k.checkSeatTimeout(p, last, o)
}

// checkSeatTimeout checks that the seat of a member was kept for SeatTimeout after its run was
// last heard, unless an operator releases seats. A later run asks for the seat first. A new leader
// counts from its election, so members may keep their seats longer.
func (k *checker) checkSeatTimeout(p *process, last member.State, o member.Member) {
	timeout := int64(p.cfg.SeatTimeout) / rateMax * rateUnit // on the fastest clock
	heard := k.kept[keptKey{p.index, o.Identity}].at
	if !p.releases && p.stepAt-heard < timeout &&
		!k.mayBeLate(p.index, last.Version, p.stepAt, timeout) {
		k.noteBroken("seat", "%s gives away the seat of %v, which it heard %v ago, want at least %v: %s",
			p.cfg.Name, o.Address, time.Duration(p.stepAt-heard), time.Duration(timeout),
			formatState(last))
	}
}

// checkSpared checks that the cluster does not need a voter that it drops. The leader must hear a
// quorum of the other voters.
func (k *checker) checkSpared(p *process, last member.State, o member.Member) {
	heard := 0
	for _, m := range last.Roster {
		if m.Address == o.Address || !m.IsVoter() {
			continue
		}
		if m.Address == last.Leader || k.hasHeard(p, m.Voter()) {
			heard++
		}
	}
	timeout := p.longestTimings().HeartbeatTimeout
	excused := timeout == 0 || k.mayBeLate(p.index, last.Version, p.stepAt, int64(timeout))
	if heard < k.quorumOf(p.cfg.Address) && !excused {
		k.noteBroken("I5", "%s dropped the vote of %v, but heard only %d other voters within %v: %s",
			p.cfg.Name, o.Address, heard, timeout, formatState(last))
	}
}

// hasHeard reports whether a process had heard a voter within HeartbeatTimeout of its
// step.
func (k *checker) hasHeard(p *process, v member.Voter) bool {
	at, ok := k.heardAt[heardKey{p.index, v.StoreID}]
	return ok && p.stepAt-at <= int64(p.longestTimings().HeartbeatTimeout)
}

// noteCommitted updates the committed revision of a version. A revision is committed once a
// quorum of the voters in the leader's state holds it. Every state that is chosen later
// includes it (I4).
func (k *checker) noteCommitted(version uint64) {
	s := k.newest[version]
	var held [MaxProcesses]uint64
	n := 0
	for _, m := range s.Roster {
		l := k.voters[m.Voter()]
		if m.IsVoter() && l != nil && l.held.Version == version && n < len(held) {
			held[n] = l.held.Revision
			n++
		}
	}
	quorum := k.quorums[version]
	if n < quorum {
		return
	}
	slices.Sort(held[:n])
	revision := held[n-quorum]
	old := k.commits[version]
	if old > revision {
		return
	}
	if old == 0 {
		k.commitV = append(k.commitV, version)
	}
	k.commits[version] = revision + 1
	for _, later := range k.order {
		if later > version {
			k.checkCarriesOver(later, member.Number{Version: version, Revision: revision})
		}
	}
}

// checkCarriesOver checks that a chosen version is built on a committed state.
func (k *checker) checkCarriesOver(version uint64, committed member.Number) {
	for at := version; at > committed.Version; {
		v := k.chosen[at]
		if v == nil {
			break
		}
		base := v.accepted.Base
		if base.Version == committed.Version && base.Revision >= committed.Revision {
			return
		}
		at = base.Version
	}
	k.noteBroken("I4", "version %d is not built on the committed state %v: %s",
		version, committed, formatState(k.chosen[version].accepted.State))
}
