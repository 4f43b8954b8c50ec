// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/paxos"
)

// Machine is the protocol of one node.
type Machine struct{ cfg Config }

// New starts a run of the node. d is what its store holds, StoreID and
// Incarnation already those of this run and saved. The caller calls Advance
// at once: it sends the first queries.
func New(cfg Config, d paxos.Durable, now time.Time) *Machine { return &Machine{cfg: cfg} }

// Step takes one message.
func (m *Machine) Step(now time.Time, in message.Message) Output { return Output{} }

// Advance does what is due at now. It may be called at any time.
func (m *Machine) Advance(now time.Time) Output { return Output{} }

// Deadline is when Advance must be called next; zero when never.
func (m *Machine) Deadline() time.Time { return time.Time{} }

// Leave begins to leave the cluster in order; Output.Stop says ErrLeft in the
// end. A second call changes nothing.
func (m *Machine) Leave(now time.Time) Output { return Output{} }

// Transfer gives leadership up in favour of to, or, when to is nobody, of the
// member with the freshest state. It is refused with ErrNotLeader or
// ErrNotActive.
func (m *Machine) Transfer(now time.Time, to member.Address) (Output, error) {
	return Output{}, nil
}

// Drain keeps the node a member that never leads again in this run; a leader
// hands over first.
func (m *Machine) Drain(now time.Time) Output { return Output{} }

// View is what the node sees at now.
func (m *Machine) View(now time.Time) member.View { return member.View{} }

// Authority is the version that this node leads with authority at now, and
// when the authority ends unless it is extended. Version 0 means none.
func (m *Machine) Authority(now time.Time) (version uint64, until time.Time) {
	return 0, time.Time{}
}

// Durable is what the node remembers now; the caller must not change it.
func (m *Machine) Durable() paxos.Durable { return paxos.Durable{} }
