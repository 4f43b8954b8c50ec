// SPDX-License-Identifier: Apache-2.0

package adminapi

import "github.com/athena-go/athena/member"

// Record is a committed record as known to this node.
type Record struct {
	Key string `json:"key"`
	// Value is the value as text. A value that is not valid UTF-8 is in ValueBase64 instead.
	Value       string `json:"value"`
	ValueBase64 []byte `json:"value_base64,omitempty"`
	// Owner is null for a record without an owner. Such a record stays until it is deleted.
	Owner *Owner      `json:"owner"`
	Token RecordToken `json:"token"`
	// Revoked means that the owner may no longer act on the record. The record is removed once the
	// owner has confirmed the revocation.
	Revoked bool `json:"revoked"`
	// Known has the same meaning as in Job.
	Known bool `json:"known"`
}

// Owner is the run of a member that owns a record.
type Owner struct {
	Name        string         `json:"name"` // empty if it is no longer a member
	Address     member.Address `json:"address"`
	Incarnation uint64         `json:"incarnation"`
}

// RecordToken is the fencing token of a record: the version and revision at which it was set. The
// tokens of a key increase over time, ordered by version and then by revision.
type RecordToken struct {
	Version  uint64 `json:"version"`
	Revision uint64 `json:"revision"`
}
