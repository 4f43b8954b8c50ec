// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// Limits of one RecordRequest.
const (
	// MaxConditions and MaxChanges bound its lists.
	MaxConditions = 64
	MaxChanges    = 64
)

// Condition is what must be so for a request to be taken. A zero Token wants no record
// under the key; another one wants the record with just that token, not revoked.
type Condition struct {
	Key   string
	Token member.Token
}

// Change sets or drops one record. To drop a record of another owner revokes it: it
// goes when that owner is known to trust it no more. To set one is refused.
type Change struct {
	Key  string
	Drop bool
	// What is set. The sender of the request owns the record where Owned is set.
	Value   []byte
	Owned   bool
	Session uint64
}

// RecordRequest asks the leader for changes of records, all or none. Each is taken once
// at most: IDs of a run grow, and the claim in the header is that of one leadership.
type RecordRequest struct {
	ID         uint64
	Conditions []Condition
	Changes    []Change
}

// Bytes is about how many bytes the request takes.
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

// RecordResponse answers a request: it was taken by the revision Number, which is
// committed and the token of what it set, or Reason says why not.
type RecordResponse struct {
	ID     uint64
	Reason Reason
	Number member.Number
}

// RecordUpdate changes records. It is applied only on the revision before Number;
// anything else asks for alignment.
type RecordUpdate struct {
	Number  member.Number
	Set     []member.Record
	Dropped []string // keys
}

// Kind implements Body.
func (RecordRequest) Kind() Kind { return KindRecordRequest }

// Kind implements Body.
func (RecordResponse) Kind() Kind { return KindRecordResponse }

// Kind implements Body.
func (RecordUpdate) Kind() Kind { return KindRecordUpdate }
