// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// StoreID identifies the store of a node. It is drawn at random when the store is created, and
// saved in the store. A memory store has a new id after each start. Address and store id together
// identify a voter.
type StoreID [16]byte

// String returns the id in lower-case hexadecimal.
func (s StoreID) String() string { return hex.EncodeToString(s[:]) }

// IsZero reports whether s is the zero StoreID.
func (s StoreID) IsZero() bool { return s == StoreID{} }

// MarshalText returns the text of String.
func (s StoreID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses 32 hexadecimal digits.
func (s *StoreID) UnmarshalText(b []byte) error { return decodeID(s[:], b, "store") }

// decodeID checks the length first: hex.Decode panics if its destination is short.
func decodeID(id, text []byte, kind string) error {
	if len(text) == 2*len(id) {
		if _, err := hex.Decode(id, text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("member: invalid %s id %.80q: want %d hexadecimal digits", kind, text, 2*len(id))
}

// Identity identifies one run of one node by its address, its store, and its incarnation,
// which grows with each start.
type Identity struct {
	Address     Address
	StoreID     StoreID
	Incarnation uint64
}

// String returns a short text for logs, with the first three bytes of the store id.
func (i Identity) String() string {
	return fmt.Sprintf("%s/%x#%d", i.Address, i.StoreID[:3], i.Incarnation)
}

// WorkerIdentity returns the identity of the worker with a store: a process without a place in the
// roster that owns records.
func WorkerIdentity(s StoreID) Identity { return Identity{ObserverAddress(s.String()), s, 1} }

// IsWorker reports whether i is the identity of a worker.
func (i Identity) IsWorker() bool {
	return i.Address.IsObserver() && i == WorkerIdentity(i.StoreID)
}

// Voter identifies a voter. It is the same for all runs on one store.
type Voter struct {
	Address Address
	StoreID StoreID
}

// Voter returns the identity without the incarnation.
func (i Identity) Voter() Voter { return Voter{i.Address, i.StoreID} }

// Member is an entry of a Roster.
type Member struct {
	Identity
	Name string // for display only; at most MaxNameBytes
	Seed bool   // listed as a seed
	// Status is the status that the leader set last. A roster never contains Removed: a
	// removed member that still occupies a seat stays Leaving, with Gone set (protocol.md
	// section 3).
	Status Status
	// Gone is set on a leaving entry once M voters hold a state in which it is leaving. It is cleared
	// when the member is active again. While Gone is set, the entry keeps its vote; see Shown.
	// A joining entry is Gone if its store took the place of one that had a vote. If that store is
	// lost before it has a vote, the entry remains without a store, as the seat of its address.
	Gone bool
	// Resigned is set on a leaving entry if the member left on purpose. Only a later incarnation may
	// then rejoin: a delayed message of this incarnation must not bring the member back.
	Resigned bool
	Traits
}

// String returns a short text for people.
func (m Member) String() string { return fmt.Sprintf("%s at %s, %s", m.Name, m.Address, m.Status) }

const (
	// MaxNameBytes is the maximum length of the name of a member.
	MaxNameBytes = 128
	// MaxClusterBytes is the maximum length of the name of a cluster.
	MaxClusterBytes = 255
)

// IsPrintable reports whether s is valid UTF-8 without line ends, control characters or other
// invisible characters, so that logs and terminals can show it. Every name must be printable,
// whether it is configured or received.
func IsPrintable(s string) bool {
	plain := true
	for i := range len(s) {
		plain = plain && ' ' <= s[i] && s[i] <= '~'
	}
	if plain {
		return true // fast path, because every event carries a name
	}
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(s) && !strings.ContainsFunc(s, bad)
}

// IsVoter reports whether the entry has a vote (protocol.md section 1).
func (m Member) IsVoter() bool {
	return m.Status == Active || m.Status == Unreachable || m.Status == Leaving
}

// Shown returns the status that a View shows: Removed for a removed member that still
// occupies a seat, and Joining while such a member rejoins.
func (m Member) Shown() Status {
	switch {
	case m.Gone && m.Status == Active:
		return Joining
	case m.Gone && (m.Status == Unreachable || m.Status == Leaving || m.StoreID.IsZero()):
		return Removed
	default:
		return m.Status
	}
}
