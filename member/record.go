// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"slices"
	"strings"
)

// Limits of records (protocol.md section 10). The table travels whole in alignments and
// votes, and is synced to disk.
const (
	// MaxRecords bounds the records of a cluster.
	MaxRecords = 2048
	// MaxKeyBytes bounds a key; see IsKey.
	MaxKeyBytes = 256
	// MaxValueBytes bounds a value.
	MaxValueBytes = 4 << 10
	// MaxRecordsBytes bounds all records of a cluster together, as Records.Bytes
	// counts them.
	MaxRecordsBytes = 384 << 10
)

// Record is one entry of the table that a cluster keeps: a value under a key, with the
// run that owns it, if any, for as long as that run lives and is not cut off.
type Record struct {
	Key   string
	Value []byte // never changed in place
	// Owner is zero for a record that stays until somebody drops it.
	Owner Identity
	// Session tells the records of one owner apart; it means nothing to the protocol.
	Session uint64
	// Token names the revision that set the record. It is greater than the token of
	// every earlier record of the key.
	Token Token
	// Revoked says that the owner must trust the record no more. It is dropped when
	// the owner is known not to.
	Revoked bool
}

// IsKey reports whether a record can have the key: not empty, of MaxKeyBytes at most, and
// printable, since keys end up in logs and on terminals.
func IsKey(key string) bool {
	return key != "" && len(key) <= MaxKeyBytes && IsPrintable(key)
}

// IsOwned reports whether the record ends with its owner.
func (r Record) IsOwned() bool { return !r.Owner.Address.IsZero() }

// recordBytes is what a record has beside its texts, encoded, at most.
const recordBytes = 80

// Bytes is about how many bytes the record takes encoded, and never less.
func (r Record) Bytes() int {
	return len(r.Key) + len(r.Value) + len(r.Owner.Address.Host) + recordBytes
}

func (r Record) equal(o Record) bool {
	return r.Key == o.Key && r.Owner == o.Owner && r.Session == o.Session && r.Token == o.Token &&
		r.Revoked == o.Revoked && bytes.Equal(r.Value, o.Value)
}

// Records is the table of records, sorted by key, one entry a key. Those of a State are
// never changed in place; Put and Drop change a Clone.
type Records []Record

// Find returns the record under key.
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

// Clone returns a table that may be changed.
func (r Records) Clone() Records { return slices.Clone(r) }

// Put sets the record under its key.
func (r *Records) Put(e Record) {
	i, ok := r.index(e.Key)
	if ok {
		(*r)[i] = e
		return
	}
	*r = slices.Insert(*r, i, e)
}

// Drop takes the record under key away.
func (r *Records) Drop(key string) {
	if i, ok := r.index(key); ok {
		*r = slices.Delete(*r, i, i+1)
	}
}

// Bytes is about how many bytes the table takes encoded, and never less.
func (r Records) Bytes() int {
	n := 0
	for _, e := range r {
		n += e.Bytes()
	}
	return n
}

// IsSorted reports whether the keys are in strict order, which every method relies on
// and every decoder must check.
func (r Records) IsSorted() bool {
	for i := 1; i < len(r); i++ {
		if r[i-1].Key >= r[i].Key {
			return false
		}
	}
	return true
}

// Same reports whether two tables are one and the same, or both empty. Two that are equal
// need not be.
func (r Records) Same(o Records) bool {
	return len(r) == len(o) && (len(r) == 0 || &r[0] == &o[0])
}

// Equal reports whether two tables hold the same.
func (r Records) Equal(o Records) bool { return slices.EqualFunc(r, o, Record.equal) }

// In returns the table as it is under a roster (protocol.md section 10). (S) Records of
// an owner that is leaving, or whose store runs anew, go: that run trusts them no more.
// An owner that has lost its place in another way may not know it yet, so its records
// are revoked.
func (r Records) In(roster Roster) Records {
	fate := func(e Record) (goes, revoked bool) {
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
	same := func(e Record) bool {
		goes, revoked := fate(e)
		return !goes && revoked == e.Revoked
	}
	if !slices.ContainsFunc(r, func(e Record) bool { return !same(e) }) {
		return r
	}
	out := make(Records, 0, len(r))
	for _, e := range r {
		goes, revoked := fate(e)
		if e.Revoked = revoked; !goes {
			out = append(out, e)
		}
	}
	return out
}
