// SPDX-License-Identifier: Apache-2.0

package statemachine

import "github.com/athena-go/athena/internal/message"

// Names for the types of messages that appear in the signatures of a Machine. They stand
// for internal types: this package is the core of a node that one can read and test, not an
// API with promises.
type (
	// Message is what one node says to another: sender, receiver and body.
	Message = message.Message
	// Kind is the type of a message's body.
	Kind = message.Kind
	// Reason is why a Machine refused or ignored something.
	Reason = message.Reason
	// Timings are the intervals and timeouts that all nodes of a cluster share.
	Timings = message.Timings
	// RecordRequest asks the leader to change records.
	RecordRequest = message.RecordRequest
	// RecordResponse answers a RecordRequest.
	RecordResponse = message.RecordResponse
)
