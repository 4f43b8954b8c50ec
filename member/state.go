// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
)

// MaxCount is the maximum of versions, revisions, rounds and incarnations. No cluster
// reaches it; greater numbers are garbage, and sums below it cannot overflow.
const MaxCount = 1 << 62

// Number orders states by version, then by revision. It is zero on a node that holds no state.
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

// ClusterID identifies one founding of a cluster. Every later state carries it, so that
// nodes of two clusters reject each other's states even if they are configured alike. It is
// zero on a node that holds no state.
type ClusterID [16]byte

// String returns the id in lower-case hexadecimal.
func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// IsZero reports whether c is the zero ClusterID.
func (c ClusterID) IsZero() bool { return c == ClusterID{} }

// MarshalText returns the form of String.
func (c ClusterID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses 32 hexadecimal digits.
func (c *ClusterID) UnmarshalText(b []byte) error { return decodeID(c[:], b, "cluster") }

// State is what a leader replicates: itself, the roster and the records. Version and
// revision identify a state within a cluster. A State is never changed in place.
type State struct {
	Number
	Leader  Address
	Roster  Roster
	Records Records `json:",omitempty"`
	// Cluster is drawn at the founding and never changes. It is zero in the state of a
	// provisional leader that holds nothing.
	Cluster ClusterID
}

// LeaderIdentity returns the run that leads the state. No other run may lead its version
// (protocol.md section 5).
func (s State) LeaderIdentity() Identity {
	m, _ := s.Roster.Find(s.Leader)
	return m.Identity
}

// Claim returns the claim of the state's leader as a chosen one.
func (s State) Claim() Claim {
	return Claim{Chosen: true, Version: s.Version, Leader: s.Leader}
}

// Next returns the state one revision later, with the roster r and the records that r leaves.
func (s State) Next(r Roster) State {
	s.Revision++
	s.Roster = r
	s.Records = s.Records.In(r)
	return s
}

// Digest returns the FNV-1a hash of the whole state. It detects faults, not attacks.
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
