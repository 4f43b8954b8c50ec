// SPDX-License-Identifier: Apache-2.0

// Package receiver routes events to the typed handlers of an application: the events that other
// members send, and the changes of membership and leadership that the local node reports.
//
//	rx := receiver.NewMux()
//	receiver.Handle(rx, func(ctx context.Context, from member.Member, m Hello) error {
//		fmt.Println(from.Name, m.Text)
//		return nil
//	})
//
// An event is sent under the name of its type. Each handler of a type gets all events of the type;
// the handlers run one after the other. A handler of Raw gets the events that have no other
// handler. A panic in a handler is recovered and reported.
//
// # Changes
//
// Handlers can be added at any time. Registration.Remove removes a handler and Replacing replaces a
// handler, also while a node runs. Dispatching an event takes no lock.
//
// # Order and backpressure
//
// Each type has one queue per sender, called a lane. Events of one sender and type are handled in
// the order in which they were sent; events of different senders or types are handled concurrently.
//
// Lanes are bounded. While a lane is full, Deliver blocks, and the node stops reading events and
// requests from that sender. Eventually the sender's Send blocks too. So a slow handler slows down
// only the members that send to it. Queue and Policy change this for a type.
//
// # Streams
//
// Data that is too large for an event, or unbounded, is sent as a stream of bytes. HandleStream
// registers a handler for a name. Each stream is handled in its own goroutine; there is no order
// and no queue. If too many streams of a name are open, the next stream fails with ErrBusy.
package receiver
