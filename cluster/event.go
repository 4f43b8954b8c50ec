// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"

	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/member"
)

// Event is what Node.Events yields: Snapshot, MemberChanged, LeaderChanged or
// Lagged. A receiver may handle each of these four types as well (receiver.Handle);
// the handler gets this node as the sender, and no node can send
// one of these types to another.
type Event interface {
	fmt.Stringer
	event()
}

// Snapshot is the whole view: the first event of every reader, and the event after each
// Lagged.
type Snapshot struct {
	View member.View
	Size int // of the full cluster, which View may not show yet
}

// MemberChanged reports that a member appeared, moved to another status, or runs again.
// While a cluster forms, what a provisional leader shows is not agreed on yet
// (Status.Provisional, LeaderChanged.Quorate): a member may become active there, and then be
// removed and joining again under the leader that is chosen.
type MemberChanged struct {
	Before member.Member // zero for a new member
	Member member.Member // with its status as shown: Removed if it is gone
}

// LeaderChanged reports that the leader, its version, or whether it is quorate changed.
type LeaderChanged struct {
	Leader  member.Member // zero if the node follows no leader
	Version uint64
	Quorate bool
	// Cause is why the leader before was lost, or CauseStart for the first leader since
	// this node started. It stays the same until the next leader is lost, and is empty if
	// none was.
	Cause Cause
}

// Lagged reports that the reader was too slow and missed some events. A Snapshot follows.
type Lagged struct {
	Missed int
}

func (Snapshot) event()      {}
func (MemberChanged) event() {}
func (LeaderChanged) event() {}
func (Lagged) event()        {}

// localEvents are the types that a receiver may handle and that cannot be sent.
var localEvents = []reflect.Type{
	reflect.TypeFor[Snapshot](), reflect.TypeFor[MemberChanged](),
	reflect.TypeFor[LeaderChanged](), reflect.TypeFor[Lagged](),
}

// String is a line for people.
func (e Snapshot) String() string {
	return fmt.Sprintf("%d of %d members active, %s",
		e.View.Members.Count(member.Active), e.Size, leaderOf(e.View))
}

// String is a line for people.
func (e MemberChanged) String() string {
	m := e.Member
	switch {
	case e.Before.Status == member.None || e.Before.Status == m.Status:
		return fmt.Sprintf("%s is %s", named(m), m.Status)
	default:
		return fmt.Sprintf("%s is %s, was %s", named(m), m.Status, e.Before.Status)
	}
}

// String is a line for people.
func (e LeaderChanged) String() string {
	switch {
	case e.Leader.Address.IsZero():
		return "no leader"
	case e.Quorate:
		return fmt.Sprintf("leader of version %d is %s", e.Version, named(e.Leader))
	default:
		return fmt.Sprintf("leader of version %d is %s, without quorum", e.Version, named(e.Leader))
	}
}

// String is a line for people.
func (e Lagged) String() string { return fmt.Sprintf("missed %d events", e.Missed) }

// named is a member in texts for people: its name, if it has one, and its address.
func named(m member.Member) string {
	if m.Name == "" || m.Name == m.Address.String() {
		return m.Address.String()
	}
	return m.Name + " at " + m.Address.String()
}

// leaderOf is the leader of a view as an event.
func leaderOf(v member.View) LeaderChanged {
	if v.Leader.IsZero() {
		return LeaderChanged{}
	}
	return LeaderChanged{Leader: memberAt(v, v.Leader), Version: v.Version, Quorate: v.Quorate}
}

// memberAt is the entry of addr as shown. A member that the view does not have has only
// its address.
func memberAt(v member.View, addr member.Address) member.Member {
	m, ok := v.Member(addr)
	if !ok {
		return member.Member{Identity: member.Identity{Address: addr}, Name: addr.String()}
	}
	m.Status = m.Shown()
	return m
}

// eventsOf returns the changes that led to a view as events: members first, since a leader
// is one of them.
func eventsOf(c observe.Changes, view member.View) []Event {
	var events []Event
	for _, m := range c.Members {
		events = append(events, MemberChanged{Before: m.Before, Member: m.After})
	}
	if c.Leader {
		e := leaderOf(view)
		e.Cause = Cause(c.Cause)
		events = append(events, e)
	}
	return events
}
