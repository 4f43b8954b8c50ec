// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
)

// MaxCount bounds versions, revisions, rounds and incarnations: no cluster
// reaches it, and what is above it is garbage, so that a sum never overflows.
const MaxCount = 1 << 62

// Number orders states: by version, then by revision. The zero Number belongs
// to a node that holds nothing.
type Number struct {
	Version  uint64
	Revision uint64
}

// Compare orders numbers by version, then revision.
func (n Number) Compare(o Number) int {
	return cmp.Or(cmp.Compare(n.Version, o.Version), cmp.Compare(n.Revision, o.Revision))
}

// Less reports whether n is older than o.
func (n Number) Less(o Number) bool { return n.Compare(o) < 0 }

// IsZero reports whether the number is that of no state.
func (n Number) IsZero() bool { return n == Number{} }

// String is "version.revision".
func (n Number) String() string { return fmt.Sprintf("%d.%d", n.Version, n.Revision) }

// ClusterID names one founding. Every later state carries it on, so that nodes of two
// clusters never take each other's states for their own, whatever their configuration
// says. The zero ClusterID belongs to a node that holds nothing.
type ClusterID [16]byte

// String is the cluster id in lower-case hexadecimal.
func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// IsZero reports whether c is no cluster id at all.
func (c ClusterID) IsZero() bool { return c == ClusterID{} }

// MarshalText writes the form of String.
func (c ClusterID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (c *ClusterID) UnmarshalText(b []byte) error {
	// The length comes first: hex.Decode panics when its destination is short.
	if len(b) == 2*len(c) {
		if _, err := hex.Decode(c[:], b); err == nil {
			return nil
		}
	}
	return fmt.Errorf("member: invalid cluster id %.80q: want %d hexadecimal digits", b, 2*len(c))
}

// State is what a leader keeps and its members hold: who leads, since which
// version, the roster, and the records. Version and revision identify it within a
// cluster. A State is never changed in place.
type State struct {
	Number
	Leader  Address
	Roster  Roster
	Records Records `json:",omitempty"`
	// Cluster is made by the founding and never changes. It is zero in the state of a
	// provisional leader that holds nothing.
	Cluster ClusterID
}

// LeaderIdentity names the run that leads this state; it may lead this version
// in no other run (protocol.md section 5).
func (s State) LeaderIdentity() Identity {
	m, _ := s.Roster.Find(s.Leader)
	return m.Identity
}

// Claim is the claim of the state's leader as a chosen one.
func (s State) Claim() Claim {
	return Claim{Chosen: true, Version: s.Version, Leader: s.Leader}
}

// Next is the state one revision later, with another roster and the records that it
// leaves.
func (s State) Next(r Roster) State {
	s.Revision++
	s.Roster = r
	s.Records = s.Records.In(r)
	return s
}

// Digest tells two states of one number apart: the FNV-1a hash of everything
// in it. It guards against faults, not against an adversary.
func (s State) Digest() uint64 {
	h := fnv.New64a()
	var b []byte
	put := func(v uint64) { b = binary.BigEndian.AppendUint64(b, v) }
	text := func(t string) { put(uint64(len(t))); b = append(b, t...) }
	put(s.Version)
	put(s.Revision)
	b = append(b, s.Cluster[:]...)
	text(s.Leader.Host)
	put(uint64(s.Leader.Port))
	run := func(i Identity) {
		text(i.Address.Host)
		put(uint64(i.Address.Port))
		b = append(b, i.StoreID[:]...)
		put(i.Incarnation)
	}
	for _, m := range s.Roster {
		run(m.Identity)
		text(m.Name)
		b = append(b, flag(m.Seed), byte(m.Status), flag(m.Gone), flag(m.Resigned))
	}
	for _, r := range s.Records {
		text(r.Key)
		text(string(r.Value))
		run(r.Owner)
		put(r.Session)
		put(r.Token.Version)
		put(r.Token.Revision)
		b = append(b, flag(r.Revoked))
	}
	h.Write(b)
	return h.Sum64()
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
