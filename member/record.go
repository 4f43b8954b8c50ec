// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"slices"
	"strings"
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
// ends with the run that owns it.
type Record struct {
	Key   string
	Value []byte // never changed in place
	// Owner is zero for a record that stays until it is deleted.
	Owner Identity
	// Session distinguishes the records of one owner; the protocol does not use it.
	Session uint64
	// Token is the version and revision that set the record. It is greater than the token
	// of every earlier record of the key.
	Token Token
	// Revoked is set when the owner must no longer rely on the record. The record is
	// deleted once the owner is known not to.
	Revoked bool
}

// IsKey reports whether key is printable and 1 to MaxKeyBytes long.
func IsKey(key string) bool {
	return key != "" && len(key) <= MaxKeyBytes && IsPrintable(key)
}

// IsOwned reports whether the record has an owner.
func (r Record) IsOwned() bool { return !r.Owner.Address.IsZero() }

// recordBytes bounds the encoded size of a record beside its key, value and host.
const recordBytes = 80

// Bytes returns an upper bound of the encoded size.
func (r Record) Bytes() int {
	return len(r.Key) + len(r.Value) + len(r.Owner.Address.Host) + recordBytes
}

func (r Record) equal(o Record) bool {
	return r.Key == o.Key && r.Owner == o.Owner && r.Session == o.Session && r.Token == o.Token &&
		r.Revoked == o.Revoked && bytes.Equal(r.Value, o.Value)
}

// Records is a table of records, sorted by key, with one record per key. The records of a
// State are never changed in place: call Clone before Put or Drop.
type Records []Record

// Find returns the record under key, and false if there is none.
func (r Records) Find(key string) (Record, bool) {
	i, ok := r.index(key)
	if !ok {
		return Record{}, false
	}
	return r[i], true
}

func (r Records) index(key string) (int, bool) {
	return slices.BinarySearchFunc(r, key, func(e Record, key string) int {
		return strings.Compare(e.Key, key)
	})
}

// Clone returns a copy that may be changed.
func (r Records) Clone() Records { return slices.Clone(r) }

// Put sets the record under its key.
func (r *Records) Put(e Record) {
	if i, ok := r.index(e.Key); ok {
		(*r)[i] = e
	} else {
		*r = slices.Insert(*r, i, e)
	}
}

// Drop deletes the record under key, if there is one.
func (r *Records) Drop(key string) {
	if i, ok := r.index(key); ok {
		*r = slices.Delete(*r, i, i+1)
	}
}

// Bytes returns an upper bound of the encoded size of all records.
func (r Records) Bytes() int {
	n := 0
	for _, e := range r {
		n += e.Bytes()
	}
	return n
}

// IsSorted reports whether the keys are in strictly ascending order. The other methods
// require it, and every decoder must check it.
func (r Records) IsSorted() bool {
	for i := 1; i < len(r); i++ {
		if r[i-1].Key >= r[i].Key {
			return false
		}
	}
	return true
}

// Same reports whether both tables are the same slice, or both are empty. It is a fast
// check: equal tables need not be the same.
func (r Records) Same(o Records) bool {
	return len(r) == len(o) && (len(r) == 0 || &r[0] == &o[0])
}

// Equal reports whether both tables hold the same records.
func (r Records) Equal(o Records) bool { return slices.EqualFunc(r, o, Record.equal) }

// In returns the records as they are once roster holds (protocol.md section 10). It deletes
// the records of an owner that is leaving or has restarted, since that run no longer relies
// on them. Another owner that has lost its seat may not have noticed yet: its records are
// revoked.
func (r Records) In(roster Roster) Records {
	fate := func(e Record) (ends, revoked bool) {
		m, _ := roster.Find(e.Owner.Address)
		switch {
		case !e.IsOwned():
			return false, e.Revoked
		case m.Voter() == e.Owner.Voter():
			return m.Identity != e.Owner || m.Status == Leaving, e.Revoked
		default:
			return false, true
		}
	}
	out, changed := r, false
	for i, e := range r {
		ends, revoked := fate(e)
		if !changed && (ends || revoked != e.Revoked) {
			out, changed = append(make(Records, 0, len(r)), r[:i]...), true
		}
		if e.Revoked = revoked; changed && !ends {
			out = append(out, e)
		}
	}
	return out
}
