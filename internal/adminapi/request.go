// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"encoding/json"

	"github.com/athena-go/athena/member"
)

// SendRequest is the body of POST /v1/send.
type SendRequest struct {
	Name    string          `json:"name"`    // type name of the event's payload
	Payload json.RawMessage `json:"payload"` // see receiver.JSON
	// To is an address or a name. If it is empty, the event is sent to all active members,
	// including this node.
	To string `json:"to,omitempty"`
}

// Sent is the response of /v1/send.
type Sent struct {
	// Results contains one entry for each recipient, ordered by address.
	Results []SendResult `json:"results"`
}

// SendResult is the result of sending an event to one member.
type SendResult struct {
	Name    string         `json:"name"`
	Address member.Address `json:"address"`
	// Result is OutcomeHandled, or the code of the error.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// OutcomeHandled is the result of an event whose handlers have returned.
const OutcomeHandled = "handled"

// TransferRequest is the body of POST /v1/transfer. To is an address or a name. If it is empty, the
// member with the newest state becomes the leader.
type TransferRequest struct {
	To string `json:"to,omitempty"`
}

// DrainRequest is the body of POST /v1/drain. Member is an address or a name; if it is empty, the
// responding node is drained.
type DrainRequest struct {
	Member string `json:"member,omitempty"`
}

// PreferRequest is the body of POST /v1/prefer. Member is as in DrainRequest.
type PreferRequest struct {
	Preference Preference `json:"preference"`
	Member     string     `json:"member,omitempty"`
}

// SeatsRequest is the body of POST /v1/seats. Keep is the number of members to keep.
type SeatsRequest struct {
	Keep int `json:"keep"`
}

// LabelRequest is the body of POST /v1/labels. It sets the labels with a value and removes those
// that are null.
type LabelRequest struct {
	Labels map[string]*string `json:"labels"`
}

// Labels is the response of /v1/labels: all labels of the node.
type Labels struct {
	Labels map[string]string `json:"labels"`
}

// HandedOver is the response of /v1/transfer, /v1/drain and /v1/prefer. Leader is null if there is
// no leader with authority.
type HandedOver struct {
	Leader *Leader `json:"leader"`
}

// Done is a response without data. Status is "ok" or "leaving".
type Done struct {
	Status string `json:"status"`
}

// Empty is the body of a POST without parameters.
type Empty struct{}

// Entry is one node in the response of /v1/nodes.
type Entry struct {
	// Name is the name of the member, or its address if several members have the same name.
	Name    string         `json:"name"`
	Address member.Address `json:"address"`
	Alive   bool           `json:"alive"` // in the view of the responding node
	Self    bool           `json:"self"`  // the responding node
}
