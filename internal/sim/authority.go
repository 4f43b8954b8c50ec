// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/member"
)

// authority is what one process may do in the name of the cluster, in global
// time. A process that is paused keeps it: it may act on waking as long as its
// own clock is before the end.
type authority struct {
	version uint64 // 0 while it has none
	holder  member.Identity
	until   int64 // its end; kept when it is over
	since   int64 // when its machine gained it, without a gap
	// unsound is the version that it led when its clock stood still, 0 for none, and
	// wokeAt is when that clock went on, never while it stands still. Until its deadlines
	// from before have passed, the process is late without knowing it (checker.stale).
	// lease is nine tenths of its LeaseTimeout; found, whether it found out since.
	unsound uint64
	wokeAt  int64
	lease   int64
	found   bool
}

// token is a version with the run that had authority in it.
type token struct {
	version uint64
	holder  member.Identity
}

// endAuthority notes that a process has no authority at present.
func (k *checker) endAuthority(p int) {
	if a := &k.auth[p]; a.version != 0 {
		a.version, a.until = 0, min(a.until, k.now)
	}
}

// checkAuthority notes that a process has authority now, until a global time. Two that
// overlap break I2: whoever gains or extends authority while another's has not
// ended shows it.
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
			k.noteBroken("I2", "%v has authority for version %d, while %v has it for version %d until %v",
				holder, version, o.holder, o.version, time.Duration(o.until))
		}
	}
	if until <= k.now {
		k.noteViolation("I2", "%v claims authority that ended at %v", holder, time.Duration(until))
	}
	gained := a.version != version || a.until <= k.now
	a.version, a.holder, a.until = version, holder, until
	if gained {
		k.checkNewAuthority(p, token{version, holder}, lastEnd)
	}
}

// noteClockStopped notes that the clock of a process stands still. What it leads is
// led by a clock slower than the protocol allows for.
func (k *checker) noteClockStopped(now int64, p *process) {
	k.now = now
	v := p.machine.View(p.clock.at(k.now))
	if p.leads = v.Role == member.Leading; p.leads {
		k.noteLeaderAsleep(p.index, v.Version)
	}
	k.noteAsleep(p.index, p.leads)
}

// trustEnded notes that a process saw that its clock may have stood still. From then on
// it has no authority and trusts no record by what it knew before.
func (k *checker) trustEnded(now int64, p int) {
	k.now = now
	k.endAuthority(p)
	k.auth[p].found = true
	k.endTrust(p)
	k.trusts.unsure[p] = min(k.trusts.unsure[p], now)
}

// noteLeaderAsleep notes that the clock of the leader of a version stands still.
func (k *checker) noteLeaderAsleep(p int, version uint64) {
	k.auth[p].unsound, k.auth[p].wokeAt, k.auth[p].found = version, never, false
}

// mayBeLate reports whether what a leader does at a time may be late because its clock stood
// still: for as long after waking as a deadline from before can be away.
func (k *checker) mayBeLate(p int, version uint64, at, deadline int64) bool {
	a := &k.auth[p]
	return a.unsound != 0 && a.unsound == version && at-a.wokeAt < deadline
}

// staleLease reports whether a leader may have authority by a lease from before its
// clock stood still. No stamp of it is later than that, so such a lease has nine tenths
// of LeaseTimeout left at most, and none once the leader found that its clock stood still.
func (k *checker) staleLease(p int, version uint64) bool {
	return !k.auth[p].found && k.mayBeLate(p, version, k.now, k.auth[p].lease)
}

// checkNewAuthority checks a new interval of authority. Over real time versions only grow,
// and no version is used by two (I3).
func (k *checker) checkNewAuthority(p int, t token, lastEnd int64) {
	switch {
	case t.version < k.token.version && k.staleLease(p, t.version):
		return
	case t.version < k.token.version:
		k.noteBroken("I3", "%v has authority for version %d after %v had it for version %d",
			t.holder, t.version, k.token.holder, k.token.version)
	case t.version == k.token.version && t.holder != k.token.holder:
		k.noteBroken("I3", "%v and %v had authority for version %d", t.holder, k.token.holder, t.version)
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

// checkQuorate checks what makes a leader quorate apart from time: it was chosen,
// and M voters of its state hold a state of its version.
func (k *checker) checkQuorate(p int, t token) {
	held := k.stores[p].Held
	if held.Version != t.version || held.LeaderIdentity() != t.holder {
		k.noteBroken("I2", "%v has authority for version %d, but holds %s", t.holder, t.version,
			formatState(held))
		return
	}
	n := 0
	for _, m := range held.Roster {
		if l := k.voters[m.Voter()]; m.IsVoter() && l != nil && l.held.Version >= t.version {
			n++
		}
	}
	if n < k.quorum {
		k.noteBroken("I2", "%v has authority for version %d, which %d of %d voters hold: %s",
			t.holder, t.version, n, k.quorum, formatState(held))
	}
}
