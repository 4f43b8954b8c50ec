// SPDX-License-Identifier: Apache-2.0

package lowest

import "time"

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages.
const (
	// Proposal: the member knows no leader and is willing to lead.
	Proposal Kind = iota + 1
	// Declaration: the member leads.
	Declaration
	// Resignation: the member has given up leadership.
	Resignation
)

// Message is a message between members of a group. It may be lost, duplicated, delayed or
// reordered.
type Message struct {
	Kind Kind
	// Member is the origin of the message. Another member may relay a Declaration.
	Member string
	// Run and Seq order the messages of a member. All messages of a run follow all messages of earlier
	// runs.
	Run, Seq uint64
	// Term is the term of the leadership. In a proposal, Term is the greatest term that the sender
	// knows.
	Term uint64
	// Age is how long ago the sender heard the message; 0 if the sender is its origin.
	Age time.Duration
}

// Outgoing is a message to one member, or to all others if To is empty.
type Outgoing struct {
	To      string
	Message Message
}

// mark is the position of a message among the messages of its origin.
type mark struct{ run, seq uint64 }

func (m Message) mark() mark { return mark{m.Run, m.Seq} }

// isAfter reports whether a is newer than b.
func (a mark) isAfter(b mark) bool { return a.run > b.run || a.run == b.run && a.seq > b.seq }
