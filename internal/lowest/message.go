// SPDX-License-Identifier: Apache-2.0

package lowest

import "time"

// Kind says what a Message is.
type Kind uint8

// The kinds of a Message.
const (
	// Proposal says that its member knows no leader and would lead.
	Proposal Kind = iota + 1
	// Declaration says that its member leads.
	Declaration
	// Resignation says that its member has led, and does no more.
	Resignation
)

// Message is what members of a group say to each other. Each may be lost, and come twice,
// late, or in another order.
type Message struct {
	Kind Kind
	// Member says it. A Declaration may come through one that heard it from there.
	Member string
	// Run and Seq order what a member says: those of a later run of it come after all
	// of an earlier one.
	Run, Seq uint64
	// Term is that of the leadership, or, in a proposal, the greatest that its member
	// has heard of.
	Term uint64
	// Age is how long ago whoever sends it heard it, 0 from the member itself.
	Age time.Duration
}

// Outgoing is a message to one member, or to all others where To is empty.
type Outgoing struct {
	To      string
	Message Message
}

// mark is the newest that was heard of a member.
type mark struct{ run, seq uint64 }

func (m Message) mark() mark { return mark{m.Run, m.Seq} }

// isAfter reports whether a is newer than b.
func (a mark) isAfter(b mark) bool { return a.run > b.run || a.run == b.run && a.seq > b.seq }
