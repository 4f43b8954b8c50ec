// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"github.com/athena-go/athena/member"
)

// Event is what Node.Events yields: Snapshot, MemberChanged, LeaderChanged or
// Lagged. Receivers may handle each of them as well (receiver.Handle).
type Event interface {
	fmt.Stringer
	event()
}

// Snapshot is the whole view: the first event of every reader, and the one
// after each Lagged.
type Snapshot struct {
	View member.View
}

// MemberChanged says that a member appeared, moved to another status, or runs
// in another incarnation.
type MemberChanged struct {
	Before member.Member // zero for a member that was not known
	Member member.Member // its status as shown; Removed when it is gone
}

// LeaderChanged says that the leader, its version, or whether it is quorate
// changed.
type LeaderChanged struct {
	Leader  member.Member // zero when the node follows nobody
	Version uint64
	Quorate bool
}

// Lagged says that the reader was too slow and missed some events. The present
// view follows.
type Lagged struct {
	Missed int
}

func (Snapshot) event()      {}
func (MemberChanged) event() {}
func (LeaderChanged) event() {}
func (Lagged) event()        {}

// String is a line for people.
func (e Snapshot) String() string {
	return fmt.Sprintf("version %d: %d members, leader %s", e.View.Version, len(e.View.Members), e.View.Leader)
}

// String is a line for people.
func (e MemberChanged) String() string {
	return fmt.Sprintf("member %s is %s", e.Member.Address, e.Member.Status)
}

// String is a line for people.
func (e LeaderChanged) String() string {
	return fmt.Sprintf("version %d: leader %s", e.Version, e.Leader.Address)
}

// String is a line for people.
func (e Lagged) String() string { return fmt.Sprintf("missed %d events", e.Missed) }
