// SPDX-License-Identifier: Apache-2.0

package paxos

import "github.com/athena-go/athena/member"

// Accepted is a value that a voter accepted: a state with its leader, what it
// was built on, and the proposal that carried it. The zero Accepted is none.
type Accepted struct {
	ID    ID
	Base  member.Number // of the held state that State continues; zero in a founding
	State member.State
}

// IsZero reports whether nothing was accepted.
func (a Accepted) IsZero() bool { return a.ID.IsZero() }

// Durable is what a node must still know after a crash (protocol.md section
// 6): it is saved before anything that depends on it is sent or counted.
type Durable struct {
	StoreID     member.StoreID
	Incarnation uint64
	Promised    ID
	Accepted    Accepted
	Held        member.State
}

// Bound is the highest version at which the node accepted a formal proposal
// whose outcome it does not know; 0 when it is free. Below it the node takes
// no state, sends no keep-alive and believes no ack (protocol.md section 6).
func (d Durable) Bound() uint64 { return d.Accepted.ID.Version }

// MayPromise reports whether the promise allows a pre-vote for id. The caller
// checks what protects a living leader.
func (d Durable) MayPromise(id ID) bool {
	return id.Version > d.Held.Version && id.Compare(d.Promised) > 0
}

// MayAccept reports whether promise and held state allow a formal vote for id
// with a value built on base.
func (d Durable) MayAccept(id ID, base member.Number) bool {
	return id.Version > d.Held.Version && id.Compare(d.Promised) >= 0 && !base.Less(d.Held.Number)
}

// Take makes s the held state and drops what it supersedes: promise and
// accepted value of a version are dropped only when a state of that version or
// a later one is held (protocol.md section 6).
func (d Durable) Take(s member.State) Durable {
	d.Held = s
	if d.Promised.Version <= s.Version {
		d.Promised = ID{}
	}
	if d.Accepted.ID.Version <= s.Version {
		d.Accepted = Accepted{}
	}
	return d
}
