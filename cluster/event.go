// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/member"
)

// Event is what Node.Events yields: a Snapshot, MemberChanged, LeaderChanged or Lagged. A
// receiver may handle these four types too (receiver.Handle), with this node as the sender. They
// cannot be sent to another node.
type Event interface {
	fmt.Stringer
	event()
}

// Snapshot is the whole view. It is the first event of every reader, and follows every Lagged.
type Snapshot struct {
	View member.View
	Size int // number of members of the full cluster; the view may have fewer
}

// MemberChanged reports that a member was added, changed its status, its preference or its labels,
// or restarted. The view of a
// provisional leader may be discarded (Status.Provisional, LeaderChanged.Quorate). So while a
// cluster forms, a member may become active in that view, then be removed, and join again under the
// elected leader.
type MemberChanged struct {
	Before member.Member // zero for a new member
	Member member.Member // its status is Removed if it is no longer in the view
}

// LeaderChanged reports a change of the leader, its version, or whether it is quorate.
type LeaderChanged struct {
	Leader  member.Member // zero if the node follows no leader
	Version uint64
	Quorate bool
	// Cause is why the previous leader was lost, or CauseStart for the first leader since this
	// node started. It stays the same until the next leader is lost.
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

// localEvents are the types that a receiver may handle but a node cannot send.
var localEvents = []reflect.Type{
	reflect.TypeFor[Snapshot](), reflect.TypeFor[MemberChanged](),
	reflect.TypeFor[LeaderChanged](), reflect.TypeFor[Lagged](),
}

// String describes the event in one line.
func (e Snapshot) String() string {
	return fmt.Sprintf("%d of %d members active, %s",
		e.View.Members.Count(member.Active), e.Size, leaderOf(e.View))
}

// String describes the event in one line.
func (e MemberChanged) String() string {
	switch {
	case e.Before.Identity == e.Member.Identity && e.Before.Status == e.Member.Status &&
		e.Before.Traits != e.Member.Traits:
		return fmt.Sprintf("%s has %s", memberText(e.Member), traitsText(e.Member.Traits))
	case e.Before.Status == member.None || e.Before.Status == e.Member.Status:
		return fmt.Sprintf("%s is %s", memberText(e.Member), e.Member.Status)
	}
	return fmt.Sprintf("%s is %s, was %s", memberText(e.Member), e.Member.Status, e.Before.Status)
}

// String describes the event in one line.
func (e LeaderChanged) String() string {
	if e.Leader.Address.IsZero() {
		return "no leader"
	}
	text := fmt.Sprintf("leader of version %d is %s", e.Version, memberText(e.Leader))
	if !e.Quorate {
		text += ", without quorum"
	}
	return text
}

// String describes the event in one line.
func (e Lagged) String() string { return fmt.Sprintf("missed %d events", e.Missed) }

// traitsText describes the traits of a member.
func traitsText(t member.Traits) string {
	text := fmt.Sprintf("preference %v", t.Preference)
	if t.Labels == "" {
		return text + " and no labels"
	}
	return text + " and labels " + t.Labels.String()
}

// memberText returns the address of a member, preceded by its name if it has one.
func memberText(m member.Member) string {
	if m.Name == "" || m.Name == m.Address.String() {
		return m.Address.String()
	}
	return m.Name + " at " + m.Address.String()
}

// leaderOf returns the leader of a view as an event without a cause.
func leaderOf(v member.View) LeaderChanged {
	if v.Leader.IsZero() {
		return LeaderChanged{}
	}
	return LeaderChanged{Leader: shownMember(v, v.Leader), Version: v.Version, Quorate: v.Quorate}
}

// shownMember returns the entry of addr with the status that users see. If addr is not in the view,
// the entry has only the address and the name.
func shownMember(v member.View, addr member.Address) member.Member {
	m, ok := v.Member(addr)
	if !ok {
		return member.Member{Identity: member.Identity{Address: addr}, Name: addr.String()}
	}
	m.Status = m.Shown()
	return m
}

// eventsOf returns the events for the changes that led to this view. Changes of members come first,
// so that readers know the member that becomes the leader.
func eventsOf(c diagnosis.Changes, view member.View) []Event {
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
