// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"encoding/hex"
	"fmt"
)

// MaxCount is the maximum of versions, revisions, rounds and incarnations. No cluster reaches it.
// Greater numbers are invalid, and sums of valid numbers cannot overflow.
const MaxCount = 1 << 62

// Number orders states by version, then by revision. It is zero if a node holds no state.
type Number struct {
	Version  uint64
	Revision uint64
}

// Compare orders numbers by version, then by revision.
func (n Number) Compare(o Number) int {
	return cmp.Or(cmp.Compare(n.Version, o.Version), cmp.Compare(n.Revision, o.Revision))
}

// Less reports whether n is older than o.
func (n Number) Less(o Number) bool { return n.Compare(o) < 0 }

// IsZero reports whether n is the zero Number.
func (n Number) IsZero() bool { return n == Number{} }

// String returns "VERSION.REVISION".
func (n Number) String() string { return fmt.Sprintf("%d.%d", n.Version, n.Revision) }

// ClusterID identifies one founding of a cluster. Every later state contains it, so that nodes of
// two clusters reject each other's states even if both are configured alike. It is zero if a node
// holds no state.
type ClusterID [16]byte

// String returns the id in lower-case hexadecimal.
func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// IsZero reports whether c is the zero ClusterID.
func (c ClusterID) IsZero() bool { return c == ClusterID{} }

// MarshalText returns the text of String.
func (c ClusterID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses 32 hexadecimal digits.
func (c *ClusterID) UnmarshalText(b []byte) error { return decodeID(c[:], b, "cluster") }

// State is what a leader replicates: its own identity, the roster and the records. Version and
// revision identify a state within a cluster. A State is never modified in place.
type State struct {
	Number
	Leader  Address
	Roster  Roster
	Records Records `json:",omitzero"`
	// Cluster is drawn at the founding and never changes. It is zero in the state of a
	// provisional leader that holds nothing.
	Cluster ClusterID
}

// LeaderIdentity returns the run that leads in the state. No other run may lead in its
// version (protocol.md section 5).
func (s State) LeaderIdentity() Identity {
	m, _ := s.Roster.Find(s.Leader)
	return m.Identity
}

// Claim returns the claim of the state's leader, as a chosen leader.
func (s State) Claim() Claim {
	return Claim{Chosen: true, Version: s.Version, Leader: s.Leader}
}

// Next returns the state with the next revision, the roster r, and the records that remain
// valid with r.
func (s State) Next(r Roster) State {
	s.Revision++
	s.Roster = r
	s.Records = s.Records.In(r)
	return s
}

// Digest returns a hash of the whole state. It detects faults, not attacks. Its cost does not
// depend on the number of records.
func (s State) Digest() uint64 {
	h := fnvOffset
	h.number(s.Version)
	h.number(s.Revision)
	h.raw(s.Cluster[:])
	h.text(s.Leader.Host)
	h.number(uint64(s.Leader.Port))
	for _, m := range s.Roster {
		h.run(m.Identity)
		h.text(m.Name)
		h.raw([]byte{flag(m.Seed), byte(m.Status), flag(m.Gone), flag(m.Resigned)})
		if m.Traits != (Traits{}) {
			h.byte(byte(m.Preference))
			h.text(string(m.Labels))
		}
	}
	h.number(uint64(s.Records.Len()))
	h.number(s.Records.Digest())
	return h.sum()
}

// digest returns a hash of the record.
func (r Record) digest() uint64 {
	h := fnvOffset
	h.text(r.Key)
	h.number(uint64(len(r.Value)))
	h.raw(r.Value)
	h.run(r.Owner)
	h.number(r.Session)
	h.number(r.Token.Version)
	h.number(r.Token.Revision)
	h.byte(flag(r.Revoked))
	return h.sum()
}

// hasher computes an FNV-1a hash. Numbers and lengths have a fixed size, so different lists of
// values become different bytes.
type hasher uint64

const (
	fnvOffset hasher = 14695981039346656037
	fnvPrime  hasher = 1099511628211
)

func (h *hasher) byte(b byte) { *h = (*h ^ hasher(b)) * fnvPrime }

func (h *hasher) number(v uint64) {
	for shift := 56; shift >= 0; shift -= 8 {
		h.byte(byte(v >> shift))
	}
}

func (h *hasher) text(t string) {
	h.number(uint64(len(t)))
	for i := range len(t) {
		h.byte(t[i])
	}
}

func (h *hasher) raw(b []byte) {
	for _, c := range b {
		h.byte(c)
	}
}

func (h *hasher) run(i Identity) {
	h.text(i.Address.Host)
	h.number(uint64(i.Address.Port))
	h.raw(i.StoreID[:])
	h.number(i.Incarnation)
}

// sum returns the hash after a final mixing step, the finalizer of MurmurHash3. The mixing makes
// the sums of the hashes of similar records differ in all bits.
func (h *hasher) sum() uint64 {
	v := uint64(*h)
	v = (v ^ v>>33) * 0xff51afd7ed558ccd
	v = (v ^ v>>33) * 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
