// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// Limits of one RecordRequest.
const (
	// MaxConditions and MaxChanges bound the conditions and the changes.
	MaxConditions = 64
	MaxChanges    = 64
)

// Condition must hold for a request to succeed. A zero Token requires that no record has the key.
// Any other Token requires a record with that token that is not revoked.
type Condition struct {
	Key   string
	Token member.Token
}

// Change sets or drops one record. Dropping a record of another owner revokes it: the record is
// dropped once that owner can no longer rely on it. Setting such a record is refused.
type Change struct {
	Key  string
	Drop bool
	// The fields below describe the record to set. If Owned is true, the sender of the request becomes
	// its owner.
	Value   []byte
	Owned   bool
	Session uint64
}

// RecordRequest asks the leader to change records, all or none. The leader executes a request at
// most once: the IDs of a run increase, and the claim in the header identifies the leadership.
type RecordRequest struct {
	ID         uint64
	Conditions []Condition
	Changes    []Change
	// Seen is the leader's newest stamp that a worker has seen; zero in the request of a member.
	Seen Stamp `json:",omitzero"`
}

// Bytes returns the approximate size of the request in bytes.
func (r RecordRequest) Bytes() int {
	n := 32 * (len(r.Conditions) + len(r.Changes))
	for _, c := range r.Conditions {
		n += len(c.Key)
	}
	for _, c := range r.Changes {
		n += len(c.Key) + len(c.Value)
	}
	return n
}

// RecordResponse answers a request. If the leader made the changes, Number is the committed
// revision that contains them. It is also the token of the records that were set. Otherwise Reason
// is the reason for the refusal.
type RecordResponse struct {
	ID     uint64
	Reason Reason
	Number member.Number
}

// RecordUpdate changes records. A member applies the update only to the state with the revision
// before Number. Otherwise it asks for alignment.
type RecordUpdate struct {
	Number  member.Number
	Set     []member.Record
	Dropped []string // keys
}

// Apply returns the records after the update. It returns false if such a table could be neither
// sent nor saved.
func (u RecordUpdate) Apply(r member.Records) (member.Records, bool) {
	for _, key := range u.Dropped {
		r = r.Drop(key)
	}
	for _, e := range u.Set {
		r = r.Put(e)
	}
	return r, r.Len() <= member.MaxRecords && r.Bytes() <= member.MaxRecordsBytes
}

// Kind implements Body.
func (RecordRequest) Kind() Kind { return KindRecordRequest }

// Kind implements Body.
func (RecordResponse) Kind() Kind { return KindRecordResponse }

// Kind implements Body.
func (RecordUpdate) Kind() Kind { return KindRecordUpdate }
