// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// The types of an Event.
const (
	EventSnapshot = "snapshot" // the current status
	EventMember   = "member"   // a member was added, changed or removed
	EventLeader   = "leader"   // the leader, its version or its authority changed
	EventAction   = "action"   // a write request was served
	EventLagged   = "lagged"   // changes are missing; a snapshot follows
)

// Event is an event of /v1/events. Type determines which data field is set.
type Event struct {
	// ID identifies the position in the stream, from which a client can continue. It is empty for
	// EventLagged.
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type"`
	Snapshot *Status       `json:"snapshot,omitempty"`
	Member   *MemberChange `json:"member,omitempty"`
	Leader   *LeaderChange `json:"leader,omitempty"`
	Action   *Action       `json:"action,omitempty"`
	Lagged   *Lagged       `json:"lagged,omitempty"`
}

// MemberChange is the data of an EventMember.
type MemberChange struct {
	Time time.Time `json:"time"`
	// Before is the previous state, or null for a new member.
	Before *Member `json:"before"`
	// Member has the status "removed" if it was removed.
	Member Member `json:"member"`
}

// LeaderChange is the data of an EventLeader.
type LeaderChange struct {
	Time time.Time `json:"time"`
	// Address, Name and Version are empty if the node follows no leader.
	Address member.Address `json:"address"`
	Name    string         `json:"name"`
	Version uint64         `json:"version"`
	Quorate bool           `json:"quorate"`
	// Cause is the reason why the previous leader was lost. It is empty if there was no previous
	// leader.
	Cause cluster.Cause `json:"cause"`
}

// Action is the data of an EventAction: a write request of the admin API.
type Action struct {
	Time    time.Time `json:"time"`
	Action  string    `json:"action"`  // path of the request without /v1/
	Request string    `json:"request"` // body of the request, possibly cut
	Outcome string    `json:"outcome"` // OutcomeOK, or the code of the error
	// Caller names the certificate, the token or the local process of the caller. It is empty if the
	// API does not distinguish callers.
	Caller string `json:"caller"`
	Remote string `json:"remote"` // address of the caller
}

// OutcomeOK is the outcome of an Action without an error.
const OutcomeOK = "ok"

// IsRefused reports whether the caller was not allowed to act, or requested nothing that exists.
func (a Action) IsRefused() bool {
	switch a.Outcome {
	case CodeUnauthorized, CodeForbidden, CodeCrossSite, CodeReadOnly, CodeNotFound,
		CodeMethodNotAllowed:
		return true
	default:
		return false
	}
}

// Lagged is the data of an EventLagged.
type Lagged struct {
	Missed uint64 `json:"missed"`
}

// Decode decodes the data of an event into the field for e.Type. It returns false if the type is
// unknown.
func (e *Event) Decode(data []byte) (known bool, err error) {
	var into any
	switch e.Type {
	case EventSnapshot:
		e.Snapshot = new(Status)
		into = e.Snapshot
	case EventMember:
		e.Member = new(MemberChange)
		into = e.Member
	case EventLeader:
		e.Leader = new(LeaderChange)
		into = e.Leader
	case EventAction:
		e.Action = new(Action)
		into = e.Action
	case EventLagged:
		e.Lagged = new(Lagged)
		into = e.Lagged
	default:
		return false, nil
	}
	return true, json.Unmarshal(data, into)
}

// String returns the event as a readable line.
func (e Event) String() string {
	switch {
	case e.Snapshot != nil:
		s := cluster.Snapshot{Size: e.Snapshot.Size}
		s.View.Leader, s.View.Version = e.Snapshot.View.Leader, e.Snapshot.View.Version
		s.View.Quorate = e.Snapshot.View.Quorate
		for _, m := range e.Snapshot.View.Members {
			s.View.Members = append(s.View.Members, entryOf(m))
		}
		return s.String()
	case e.Member != nil:
		c := cluster.MemberChanged{Member: entryOf(e.Member.Member)}
		if e.Member.Before != nil {
			c.Before = entryOf(*e.Member.Before)
		}
		return c.String()
	case e.Leader != nil:
		l := cluster.LeaderChanged{Version: e.Leader.Version, Quorate: e.Leader.Quorate}
		l.Leader.Address, l.Leader.Name = e.Leader.Address, e.Leader.Name
		return l.String()
	case e.Action != nil:
		a := *e.Action
		return fmt.Sprintf("%s %s: %s, by %s at %s", a.Action, a.Request, a.Outcome,
			cmp.Or(a.Caller, "anyone"), a.Remote)
	case e.Lagged != nil:
		return cluster.Lagged{Missed: int(e.Lagged.Missed)}.String()
	default:
		return e.Type
	}
}

// entryOf converts an API member to a member.Member.
func entryOf(m Member) member.Member {
	e := member.Member{Name: m.Name, Seed: m.Seed, Status: m.Status}
	e.Address, e.Incarnation = m.Address, m.Incarnation
	e.Preference = member.Preference(m.Preference)
	e.Labels, _ = member.NewLabels(m.Labels) // valid on every node
	return e
}

// MemberOf converts a member.Member to an API member.
func MemberOf(m member.Member) Member {
	out := Member{
		Name:        m.Name,
		Address:     m.Address,
		Seed:        m.Seed,
		Status:      m.Shown(),
		Incarnation: m.Incarnation,
		Preference:  Preference(m.Preference),
	}
	if m.Labels != "" {
		out.Labels = maps.Collect(m.Labels.All())
	}
	return out
}

// ChangeOf returns the type and the data of a change. For a snapshot, the type is empty.
func ChangeOf(now time.Time, e cluster.Event) (kind string, data any) {
	switch e := e.(type) {
	case cluster.MemberChanged:
		c := MemberChange{Time: now, Member: MemberOf(e.Member)}
		if e.Before.Status != member.None {
			before := MemberOf(e.Before)
			c.Before = &before
		}
		return EventMember, c
	case cluster.LeaderChanged:
		return EventLeader, LeaderChange{
			Time: now, Address: e.Leader.Address, Name: e.Leader.Name,
			Version: e.Version, Quorate: e.Quorate, Cause: e.Cause,
		}
	case cluster.Lagged:
		return EventLagged, Lagged{uint64(e.Missed)}
	default:
		return "", nil // a snapshot, which streams create themselves
	}
}
