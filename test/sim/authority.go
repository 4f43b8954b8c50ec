// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/member"
)

// authority is the period during which a process may act for the cluster, in global time. A paused
// process keeps its authority: after it resumes, it may act until its own clock reaches the end.
type authority struct {
	version uint64 // 0 if it has no authority
	holder  member.Identity
	until   int64 // the end; kept after it has passed
	since   int64 // when this uninterrupted period began
	// unsound is the version that the process led when its clock stopped, or 0. wokeAt is when the
	// clock started again, or never. A process whose clock had stopped does not know that it is late,
	// and may act until its earlier deadlines have passed (checker.staleLease). lease is nine tenths
	// of its LeaseTimeout. found reports whether the process has noticed that its clock had stopped.
	unsound uint64
	wokeAt  int64
	lease   int64
	found   bool
}

// token is a version and the run of a process that had authority for it.
type token struct {
	version uint64
	holder  member.Identity
}

// endAuthority records that a process no longer has authority.
func (k *checker) endAuthority(p int) {
	if a := &k.auth[p]; a.version != 0 {
		a.version, a.until = 0, min(a.until, k.now)
	}
}

// checkAuthority records that a process has authority until a global time. If the authority of two
// processes overlaps, invariant I2 is broken. The violation is reported when either process gains
// or extends its authority.
func (k *checker) checkAuthority(p int, holder member.Identity, version uint64, until int64) {
	a := &k.auth[p]
	lastEnd := int64(-1)
	for i := range k.auth {
		o := &k.auth[i]
		if i == p {
			continue
		}
		lastEnd = max(lastEnd, o.until)
		if o.version != 0 && o.until > k.now && !k.staleLease(i, o.version) && !k.staleLease(p, version) {
			k.noteBroken("I2", "%v has authority for version %d, but %v has it for version %d until %v",
				holder, version, o.holder, o.version, time.Duration(o.until))
		}
	}
	if until <= k.now {
		k.noteViolation("I2", "%v claims authority, but it ended at %v", holder, time.Duration(until))
	}
	gained := a.version != version || a.until <= k.now
	a.version, a.holder, a.until = version, holder, until
	if gained {
		k.checkNewAuthority(p, token{version, holder}, lastEnd)
	}
}

// noteClockStopped records that the clock of a process stopped. If the process leads, its clock is
// then slower than the protocol permits.
func (k *checker) noteClockStopped(now int64, p *process) {
	k.now = now
	v := p.machine.View(p.clock.at(k.now))
	if p.wasLeading = v.Role == member.Leading; p.wasLeading {
		k.noteLeaderAsleep(p.index, v.Version)
	}
	k.noteAsleep(p.index, p.wasLeading)
}

// noteTrustEnded records that a process has noticed that its clock may have stopped. Its
// earlier authority and its trust in records end.
func (k *checker) noteTrustEnded(now int64, p int) {
	k.now = now
	k.endAuthority(p)
	k.auth[p].found = true
	k.endTrust(p)
	k.trusts.unsure[p] = min(k.trusts.unsure[p], now)
}

// noteLeaderAsleep records that the clock of the leader of a version has stopped.
func (k *checker) noteLeaderAsleep(p int, version uint64) {
	k.auth[p].unsound, k.auth[p].wokeAt, k.auth[p].found = version, never, false
}

// mayBeLate reports whether the leader of a version, whose clock had stopped, may still act late at
// the given time. It may until the duration deadline has passed since the clock started again.
func (k *checker) mayBeLate(p int, version uint64, at, deadline int64) bool {
	a := &k.auth[p]
	return a.unsound != 0 && a.unsound == version && at-a.wokeAt < deadline
}

// staleLease reports whether a leader may still have authority from a lease that began
// before its clock stopped. Such a lease lasts at most nine tenths of LeaseTimeout after
// the clock starts again, and ends when the leader notices.
func (k *checker) staleLease(p int, version uint64) bool {
	return !k.auth[p].found && k.mayBeLate(p, version, k.now, k.auth[p].lease)
}

// checkNewAuthority checks invariant I3 for a new period of authority: versions grow over
// real time, and no two processes use the same version.
func (k *checker) checkNewAuthority(p int, t token, lastEnd int64) {
	switch {
	case t.version < k.token.version && k.staleLease(p, t.version):
		return
	case t.version < k.token.version:
		k.noteBroken("I3", "%v gained authority for version %d after %v had it for version %d",
			t.holder, t.version, k.token.holder, k.token.version)
	case t.version == k.token.version && t.holder != k.token.holder:
		k.noteBroken("I3", "both %v and %v had authority for version %d",
			t.holder, k.token.holder, t.version)
	}
	if t.holder != k.token.holder && k.token.version != 0 {
		k.changes++
		if lastEnd >= 0 {
			k.gap = min(k.gap, k.now-lastEnd)
		}
	}
	k.token = t
	k.checkQuorate(p, t)
}

// checkQuorate checks that a leader with authority was chosen, and that a quorum of the
// voters in its state holds a state of its version.
func (k *checker) checkQuorate(p int, t token) {
	held := k.stores[p].Held
	if held.Version != t.version || held.LeaderIdentity() != t.holder {
		k.noteBroken("I2", "%v has authority for version %d, but its saved state is %s",
			t.holder, t.version,
			formatState(held))
		return
	}
	n := 0
	for _, m := range held.Roster {
		l := k.voters[m.Voter()]
		if m.IsVoter() && l != nil && l.held.Version >= t.version && k.floorOf(m.StoreID) < t.version {
			n++
		}
	}
	if size := k.sizes[t.holder.Address]; k.smallest == 0 || size < k.smallest {
		k.smallest = size
	}
	if quorum := k.quorumOf(t.holder.Address); n < quorum {
		k.noteBroken("I2", "%v has authority for version %d, but only %d voters hold it, want %d: %s",
			t.holder, t.version, n, quorum, formatState(held))
	}
}

// floorOf returns the token above which a store was recovered, as far as the store remembers it.
func (k *checker) floorOf(id member.StoreID) uint64 {
	for _, d := range k.stores {
		if d.StoreID == id {
			return d.Floor
		}
	}
	return 0
}
