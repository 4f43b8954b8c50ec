// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// isolationState tracks how long the node has been without a chosen leader, and the evidence that
// its roster is lost (protocol.md 4 and 6).
type isolationState struct {
	// noChosenSince is when the node last had a chosen leader, or started; zero while it has one.
	noChosenSince time.Time
	// lostVoters lists the voters of the held roster whose addresses answer under another store id
	// and hold nothing newer.
	lostVoters []member.Voter
}

// noteLostVoter collects evidence that the held roster can never elect again: voters that returned
// with another store id. A voter that holds a newer state does not count, because the roster of
// that state may still be able to elect.
func (m *Machine) noteLostVoter(in message.Message) {
	if m.isolation.noChosenSince.IsZero() || m.heldNumber().IsZero() {
		return
	}
	e, ok := m.durable.Held.Roster.Find(in.From.Address)
	if !ok || !e.IsVoter() {
		return
	}
	at := slices.Index(m.isolation.lostVoters, e.Voter())
	held, shows := heldShownBy(in.Body)
	// A sender in another cluster has lost the state of this cluster, even if its store id is
	// unchanged.
	other := m.otherCluster(in)
	returned := !other && (e.StoreID == in.From.StoreID || shows && m.heldNumber().Less(held))
	switch {
	case returned && at >= 0:
		m.isolation.lostVoters = slices.Delete(m.isolation.lostVoters, at, at+1)
	case !returned && (other || shows) && at < 0:
		m.isolation.lostVoters = append(m.isolation.lostVoters, e.Voter())
	}
}

// heldShownBy returns the number of the held state that a message carries, if any.
func heldShownBy(b message.Body) (member.Number, bool) {
	switch b := b.(type) {
	case message.LeaderQuery:
		return b.Held.Number, true
	case message.LeaderResponse:
		return b.Held, true
	case message.LeaderStatusQueryResponse:
		return b.Held, true
	case message.JoinClusterRequest:
		return b.Held, true
	}
	return member.Number{}, false
}

// RosterLost reports whether the held roster can never elect again (protocol.md 6). That is the
// case if so many voters lost their stores that fewer than M can still answer. With durable stores
// only an operator can end that state. A node with a memory store starts a new run by itself.
func (m *Machine) RosterLost() bool {
	if m.heldNumber().IsZero() || m.isolation.noChosenSince.IsZero() {
		return false
	}
	r := m.durable.Held.Roster
	lost := 0
	for _, v := range m.isolation.lostVoters {
		if r.IsVoter(v) {
			lost++
		}
	}
	if e, ok := r.Find(m.self.Address); ok && e.IsVoter() && e.StoreID != m.self.StoreID {
		lost++ // this node's own earlier store
	}
	return lost > 0 && r.Voters()-lost < m.quorum
}
