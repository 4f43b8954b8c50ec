// SPDX-License-Identifier: Apache-2.0

// Package receiver holds the typed handlers of an application: one Mux takes
// the custom events that other members send, and the changes of membership and
// leadership that the own node reports.
//
//	rx := receiver.NewMux()
//	receiver.Handle(rx, func(ctx context.Context, from member.Member, m Hello) error {
//		fmt.Println(from.Name, "says", m.Text)
//		return nil
//	})
//
// An event travels under the name of its type. All handlers of a type see each
// of its events, one after the other; a handler of Raw sees the events that no
// other handler takes. A panic in a handler is recovered and reported.
//
// # Order and backpressure
//
// Each type has a lane per sender, and each lane one goroutine while it holds
// anything. So handlers of different senders and of different types run side
// by side, and events of one sender and type run in the order sent. A lane is
// bounded. When it is full Deliver blocks, the connection of that sender is
// read no further, and in the end its Send blocks: a slow handler slows those
// that feed it, and nobody else. What else such a sender sends as an event or a
// request waits behind; Queue and its Policy change that for a type.
//
// # Streams
//
// What is too large for an event, or has no end, comes as a stream of bytes: a
// handler of HandleStream for each name, in a goroutine of its own for each stream.
// Streams have no order and no queue: where too many are handled already, who opens
// one more is told.
package receiver
