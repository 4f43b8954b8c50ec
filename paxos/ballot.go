// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"

	"github.com/athena-go/athena/member"
)

// Ballot identifies one attempt of one proposer. Ballots are unique: the round increases within a
// run, the incarnation increases between runs, and processes with the same address have different
// stores.
type Ballot struct {
	Round       uint64
	Proposer    member.Address
	Incarnation uint64
	StoreID     member.StoreID
}

// compare orders ballots by round, proposer, incarnation, store id.
func (b Ballot) compare(o Ballot) int {
	return cmp.Or(
		cmp.Compare(b.Round, o.Round),
		b.Proposer.Compare(o.Proposer),
		cmp.Compare(b.Incarnation, o.Incarnation),
		bytes.Compare(b.StoreID[:], o.StoreID[:]),
	)
}

// Run returns the identity of the proposer.
func (b Ballot) Run() member.Identity {
	return member.Identity{Address: b.Proposer, StoreID: b.StoreID, Incarnation: b.Incarnation}
}

// clusterID returns the id of the cluster that a founding with this ballot creates. It is as random
// as the proposer's store id and differs between proposals.
func (b Ballot) clusterID() member.ClusterID {
	h := fnv.New128a()
	h.Write(b.StoreID[:])
	h.Write(fmt.Appendf(nil, " %d %s %d", b.Incarnation, b.Proposer, b.Round))
	return member.ClusterID(h.Sum(nil))
}

// ID identifies a proposal. IDs are ordered by version first, then by ballot. The zero ID is before
// every other ID.
type ID struct {
	Version uint64
	Ballot  Ballot
}

// Compare orders proposals by version, then ballot.
func (i ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(i.Version, o.Version), i.Ballot.compare(o.Ballot))
}

// IsZero reports whether i is the zero ID.
func (i ID) IsZero() bool { return i == ID{} }

// String returns a short form for logs and traces.
func (i ID) String() string {
	b := i.Ballot
	return fmt.Sprintf("v%d/%d@%s#%d", i.Version, b.Round, b.Proposer, b.Incarnation)
}
