// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"github.com/athena-go/athena/member"
)

// Record is an entry of the table that the cluster keeps, as this node last learned that
// it is committed.
type Record struct {
	Key string `json:"key"`
	// Value is empty where it is not UTF-8; ValueBase64 has it then.
	Value       string `json:"value"`
	ValueBase64 []byte `json:"value_base64,omitempty"`
	// Owner is null for a record that stays until somebody drops it.
	Owner *Owner      `json:"owner"`
	Token RecordToken `json:"token"`
	// Revoked says that the owner may not act on it any more, and that it goes when
	// the owner knows.
	Revoked bool `json:"revoked"`
	// Known is as in Job.
	Known bool `json:"known"`
}

// Owner is the run of a member that owns a record.
type Owner struct {
	Name        string         `json:"name"` // empty where it is no member any more
	Address     member.Address `json:"address"`
	Incarnation uint64         `json:"incarnation"`
}

// RecordToken is the fencing token of a record: the revision that set it. Tokens of a
// key grow, first by version, then by revision.
type RecordToken struct {
	Version  uint64 `json:"version"`
	Revision uint64 `json:"revision"`
}
