// SPDX-License-Identifier: Apache-2.0

// Package receiver holds the typed handlers of an application: one Mux takes
// the custom events that other members send, and the changes of membership and
// leadership that the own node reports.
//
// Each event type has a lane per sender. Handlers of different senders run
// side by side, events of one sender to one type run in the order sent. A lane
// is bounded; when it is full, Deliver blocks, the connection of that sender
// stops being read, and in the end its Send blocks: a slow handler slows those
// that feed it and nobody else.
package receiver
