// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// StoreID names one store. It is random, made when the store is made, and kept
// with it; a memory store makes a new one at every start. Together with the
// address it names a voter.
type StoreID [16]byte

// String is the store id in lower-case hexadecimal.
func (s StoreID) String() string { return hex.EncodeToString(s[:]) }

// IsZero reports whether s is no store id at all.
func (s StoreID) IsZero() bool { return s == StoreID{} }

// MarshalText writes the form of String.
func (s StoreID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (s *StoreID) UnmarshalText(b []byte) error {
	// The length comes first: hex.Decode panics when its destination is short.
	if len(b) == 2*len(s) {
		if _, err := hex.Decode(s[:], b); err == nil {
			return nil
		}
	}
	return fmt.Errorf("member: invalid store id %.80q: want %d hexadecimal digits", b, 2*len(s))
}

// Identity names one run of one node: where it is, which store it has, and
// which run at that address it is. Incarnations grow with each start.
type Identity struct {
	Address     Address
	StoreID     StoreID
	Incarnation uint64
}

// String is short and meant for logs and traces.
func (i Identity) String() string {
	return fmt.Sprintf("%s/%x#%d", i.Address, i.StoreID[:3], i.Incarnation)
}

// Voter is the identity of a vote: (address, store id), whatever the run.
type Voter struct {
	Address Address
	StoreID StoreID
}

// Voter of an identity leaves the incarnation out.
func (i Identity) Voter() Voter { return Voter{i.Address, i.StoreID} }

// Member is one entry of a roster.
type Member struct {
	Identity
	Name string // shown to people, never compared; at most MaxNameBytes
	Seed bool   // it stands in the configured list of seeds
	// Status as the leader last set it. A roster never holds Removed: the seat
	// of a removed member stays Leaving, with Gone set (protocol.md section 3).
	Status Status
	// Gone is set on a leaving entry once M voters hold that it leaves, and cleared
	// when the member is active again. It keeps its vote meanwhile; see Shown.
	Gone bool
	// Resigned is set on a leaving entry whose member left on purpose: only a
	// later incarnation of it comes back, never a late message of this one.
	Resigned bool
}

// String is short and meant for people.
func (m Member) String() string { return fmt.Sprintf("%s at %s, %s", m.Name, m.Address, m.Status) }

const (
	// MaxNameBytes bounds the name of a member.
	MaxNameBytes = 128
	// MaxClusterBytes bounds the name of a cluster.
	MaxClusterBytes = 255
)

// IsPrintable reports whether s is UTF-8 without line ends, controls and other
// characters that are not seen: what a log, a terminal and a person can read
// as it is. Every name is, in a configuration and from the network.
func IsPrintable(s string) bool {
	plain := true
	for i := range len(s) {
		plain = plain && ' ' <= s[i] && s[i] <= '~'
	}
	if plain {
		return true // most names are, and events have one each
	}
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(s) && !strings.ContainsFunc(s, bad)
}

// IsVoter reports whether the entry has a vote (protocol.md section 1).
func (m Member) IsVoter() bool {
	return m.Status == Active || m.Status == Unreachable || m.Status == Leaving
}

// Shown is the status that a view shows: Removed for a seat that is only kept, and
// Joining for its member that came back.
func (m Member) Shown() Status {
	switch {
	case m.Gone && m.Status == Active:
		return Joining
	case m.Gone && (m.Status == Unreachable || m.Status == Leaving):
		return Removed
	default:
		return m.Status
	}
}
