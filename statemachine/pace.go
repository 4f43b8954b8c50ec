// SPDX-License-Identifier: Apache-2.0

package statemachine

import "time"

// An election takes several saves, one after the other. On a slow disk each of them may take longer
// than LeaderTimeout. So nodes measure their saves and tell each other how long they take, and a
// node that waits for others outlasts these saves (protocol.md 6, slow disks). No safety depends on
// what is measured or told.

// paceState is how long saves take, as far as this node knows.
type paceState struct {
	own       savePace  // its own saves
	told      savePace  // the longest that another node told
	grantedAt time.Time // when this node last granted the proposal of another node
}

// savePace is how long saves take, and when that was measured or told.
type savePace struct {
	took time.Duration
	at   time.Time
}

// NoteSaved must be called when Output.Persist of the last call has been saved, before the rest of
// that output is applied. The time since that call is the time of the save.
func (m *Machine) NoteSaved(now time.Time) {
	took := max(0, now.Sub(m.now))
	m.pace.own = savePace{m.timing.nextSave(took, m.pace.own.took), now}
	if m.pace.grantedAt.Equal(m.now) {
		m.yieldFor(now, took)
	}
	if m.propose.sentAt.Equal(m.now) {
		m.propose.sentAt = now // the proposal leaves after the save
	}
	m.now = now
}

// noteTold records how long the saves of another node take. It ignores a node whose saves are much
// faster than those of the slowest one.
func (m *Machine) noteTold(took time.Duration) {
	took = min(max(took, 0), m.timing.TTLTimeout)
	if took == m.timing.nextSave(took, m.recentPace(m.pace.told)) {
		m.pace.told = savePace{took, m.now}
	}
}

// recentPace returns how long a save takes, or 0 if p is older than TTLTimeout.
func (m *Machine) recentPace(p savePace) time.Duration {
	if m.now.Sub(p.at) > m.timing.TTLTimeout {
		return 0
	}
	return p.took
}

// outlastSaves returns how long this node waits for others. wait is the time if saves are fast.
func (m *Machine) outlastSaves(wait time.Duration) time.Duration {
	return m.timing.outlastSaves(wait, max(m.recentPace(m.pace.own), m.recentPace(m.pace.told)))
}

// yieldFor lets a proposer that this node voted for go first while others save.
func (m *Machine) yieldFor(now time.Time, save time.Duration) {
	m.inquiry.yieldUntil = latest(m.inquiry.yieldUntil, now.Add(m.timing.outlastSaves(0, save)))
}

// attemptEnd returns when the attempt fails. For a named successor, only the saves of it count.
func (m *Machine) attemptEnd() time.Time {
	wait, save := m.timing.voteTimeout(m.propose.Failures), m.operator.save
	if !m.asksNamed() {
		save = max(m.recentPace(m.pace.own), m.recentPace(m.pace.told))
	}
	return m.propose.sentAt.Add(m.timing.outlastVotes(wait, save))
}
