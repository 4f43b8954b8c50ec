// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
)

// The names of entries.
const (
	leases  = "leases/"
	records = "records/"
)

// storedRecord is the value of the entry of a record.
type storedRecord struct {
	Value []byte `json:"value,omitempty"`
	// Lease is what the record ends with, Member whose that is, and Session the one of
	// its sessions that owns the record. None for a record that stays.
	Lease   string `json:"lease,omitempty"`
	Member  string `json:"member,omitempty"`
	Session uint64 `json:"session,omitempty"`
	// Revoked is the token of a record that is revoked: the mark is a write of its own.
	Revoked uint64 `json:"revoked,omitempty"`

	revision uint64
}

// recordOf reads an entry. What somebody else wrote there is a record that stays, so that
// it is seen and can be dropped.
func recordOf(e Entry) (r storedRecord) {
	if json.Unmarshal(e.Value, &r) != nil {
		r = storedRecord{}
	}
	r.revision = e.Revision
	return r
}

func (r storedRecord) tokenOf() member.Token {
	if r.Revoked != 0 {
		return member.Token{Revision: r.Revoked}
	}
	return member.Token{Revision: r.revision}
}

func (r storedRecord) recordUnder(key string) member.Record {
	out := member.Record{
		Key: key, Value: r.Value, Session: r.Session, Token: r.tokenOf(), Revoked: r.Revoked != 0,
	}
	out.Owner.Address.Host = r.Member
	return out
}

// claim is the value of the entry of a lease.
type claim struct {
	Member  string        `json:"member"`
	Timeout time.Duration `json:"timeout"` // in nanoseconds; after which others end it

	revision uint64
	since    time.Time // when it was first seen with this revision
}

// encodeJSON is JSON, which people can read in the service.
func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("leasestore: a %T has no JSON: %v", v, err))
	}
	return b
}

func claimOf(e Entry, now time.Time) (c claim) {
	if json.Unmarshal(e.Value, &c) != nil || c.Timeout <= 0 {
		c = claim{Timeout: defaultTimeout}
	}
	c.revision, c.since = e.Revision, now
	return c
}
