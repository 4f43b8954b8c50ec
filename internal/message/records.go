// SPDX-License-Identifier: Apache-2.0

package message

import "github.com/athena-go/athena/member"

// Limits of one RecordRequest.
const (
	// MaxConditions and MaxChanges bound its lists.
	MaxConditions = 64
	MaxChanges    = 64
)

// Condition must hold for a request to succeed. A zero Token requires that there is no
// record under the key; any other requires a record with that token that is not revoked.
type Condition struct {
	Key   string
	Token member.Token
}

// Change sets or drops one record. Dropping a record of another owner revokes it: it is
// dropped once that owner can no longer rely on it. Setting one is refused.
type Change struct {
	Key  string
	Drop bool
	// The fields below are those of a record that is set. With Owned, the sender of the
	// request owns it.
	Value   []byte
	Owned   bool
	Session uint64
}

// RecordRequest asks the leader for changes of records, all or none. The leader executes
// it at most once: IDs of a run grow, and the header's claim is of one leadership.
type RecordRequest struct {
	ID         uint64
	Conditions []Condition
	Changes    []Change
}

// Bytes returns about how many bytes the request takes.
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

// RecordResponse answers a request. Number is the committed revision that has its changes,
// and the token of the records that it set, or Reason is why it was refused.
type RecordResponse struct {
	ID     uint64
	Reason Reason
	Number member.Number
}

// RecordUpdate changes records. A member applies it only to the revision before Number, and
// otherwise asks for alignment.
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
