// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"encoding/json"

	"github.com/athena-go/athena/member"
)

// SendRequest is the body of POST /v1/send.
type SendRequest struct {
	Name    string          `json:"name"`    // of the type of the event
	Payload json.RawMessage `json:"payload"` // see receiver.JSON
	// To is an address or a name; empty for every active member, this node too.
	To string `json:"to,omitempty"`
}

// Sent is the answer of /v1/send.
type Sent struct {
	// Results are of every member that was to get the event, in the order of
	// addresses.
	Results []SendResult `json:"results"`
}

// SendResult is what became of an event at one member.
type SendResult struct {
	Name    string         `json:"name"`
	Address member.Address `json:"address"`
	// Result is OutcomeHandled, or the code of the error.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// OutcomeHandled is the result of an event whose handlers have returned.
const OutcomeHandled = "handled"

// TransferRequest is the body of POST /v1/transfer. To is an address or a name; empty
// for whoever has the freshest state.
type TransferRequest struct {
	To string `json:"to,omitempty"`
}

// HandedOver is the answer of /v1/transfer and /v1/drain. Leader is null where nobody
// leads with authority at the moment.
type HandedOver struct {
	Leader *Leader `json:"leader"`
}

// Done is the answer of what has nothing more to say: Status is "ok", or "leaving".
type Done struct {
	Status string `json:"status"`
}

// Empty is the body of a POST that takes none.
type Empty struct{}

// Entry is one node in the answer of /v1/nodes.
type Entry struct {
	// Name is that of the member, or its address where another has the same name.
	Name    string         `json:"name"`
	Address member.Address `json:"address"`
	Alive   bool           `json:"alive"` // as the node that answers sees it
	Self    bool           `json:"self"`  // the node that answers
}
