// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
)

// The name prefixes of the entries.
const (
	leases  = "leases/"
	records = "records/"
)

// storedRecord is the value of the entry of a record.
type storedRecord struct {
	Value []byte `json:"value,omitempty"`
	// Lease identifies the lease with which the record ends, Member the owning member, and
	// Session the owning session. All are zero for a record without an owner.
	Lease   string `json:"lease,omitempty"`
	Member  string `json:"member,omitempty"`
	Session uint64 `json:"session,omitempty"`
	// Revoked is the token of the record if the record is revoked. The write of this mark has a later
	// revision.
	Revoked uint64 `json:"revoked,omitempty"`

	revision uint64
}

// recordOf decodes an entry. An invalid entry must have been written by another program. It becomes
// a record without an owner, so that it is listed and can be dropped.
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

// leaseEntry is the value of the entry of a lease.
type leaseEntry struct {
	Member  string        `json:"member"`
	Timeout time.Duration `json:"timeout"` // in nanoseconds; then others remove the lease

	revision uint64
	since    time.Time // when it was first seen with this revision
}

// encodeJSON encodes v as JSON, so that people can read the entries in the service.
func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("leasestore: cannot encode a %T as JSON: %v", v, err))
	}
	return b
}

func leaseEntryOf(e Entry, now time.Time) (c leaseEntry) {
	if json.Unmarshal(e.Value, &c) != nil || c.Timeout <= 0 {
		c = leaseEntry{Timeout: defaultTimeout}
	}
	c.revision, c.since = e.Revision, now
	return c
}
