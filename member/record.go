// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
)

// Limits of records (protocol.md section 10). Votes and alignments carry the whole table,
// and each change is synced to disk.
const (
	// MaxRecords is the maximum number of records of a cluster.
	MaxRecords = 2048
	// MaxKeyBytes is the maximum length of a key; see IsKey.
	MaxKeyBytes = 256
	// MaxValueBytes is the maximum length of a value.
	MaxValueBytes = 4 << 10
	// MaxRecordsBytes is the maximum size of all records together, as counted by
	// Records.Bytes.
	MaxRecordsBytes = 384 << 10
)

// Record is an entry of the replicated table: a value under a key. A record with an owner
// ends when the run that owns it ends.
type Record struct {
	Key   string
	Value []byte // never modified in place
	// Owner is zero for a record that is kept until it is deleted.
	Owner Identity
	// Session distinguishes the records of one owner; the protocol does not use it.
	Session uint64
	// Token holds the version and revision that set the record. It is greater than the
	// tokens of all earlier records of the key.
	Token Token
	// Revoked is set when the owner must no longer rely on the record. The leader deletes the record
	// once it knows that the owner no longer relies on it.
	Revoked bool
}

// IsKey reports whether key is printable and 1 to MaxKeyBytes long.
func IsKey(key string) bool {
	return key != "" && len(key) <= MaxKeyBytes && IsPrintable(key)
}

// IsOwned reports whether the record has an owner.
func (r Record) IsOwned() bool { return !r.Owner.Address.IsZero() }

// recordBytes bounds the encoded size of a record without its key, value and host.
const recordBytes = 80

// Bytes returns an upper bound on the encoded size of the record.
func (r Record) Bytes() int {
	return len(r.Key) + len(r.Value) + len(r.Owner.Address.Host) + recordBytes
}

func (r Record) equal(o Record) bool {
	return r.Key == o.Key && r.Owner == o.Owner && r.Session == o.Session && r.Token == o.Token &&
		r.Revoked == o.Revoked && bytes.Equal(r.Value, o.Value)
}
