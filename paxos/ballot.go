// SPDX-License-Identifier: Apache-2.0

package paxos

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"

	"github.com/athena-go/athena/member"
)

// Ballot identifies one attempt of one proposer. No two attempts share one: a
// proposer raises the round within a run and the incarnation between runs, and
// two processes at one address have two stores.
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

// Run is the run of the proposer.
func (b Ballot) Run() member.Identity {
	return member.Identity{Address: b.Proposer, StoreID: b.StoreID, Incarnation: b.Incarnation}
}

// clusterID is the id of the cluster that a founding with this ballot makes. It is as
// random as the store id of the proposer, and each proposal has another.
func (b Ballot) clusterID() member.ClusterID {
	h := fnv.New128a()
	h.Write(b.StoreID[:])
	h.Write(fmt.Appendf(nil, " %d %s %d", b.Incarnation, b.Proposer, b.Round))
	return member.ClusterID(h.Sum(nil))
}

// ID orders proposals of all versions: by version first, then by ballot.
// The zero ID is before every proposal.
type ID struct {
	Version uint64
	Ballot  Ballot
}

// Compare orders proposals by version, then ballot.
func (i ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(i.Version, o.Version), i.Ballot.compare(o.Ballot))
}

// IsZero reports whether the ID is that of no proposal.
func (i ID) IsZero() bool { return i == ID{} }

// String is short and meant for logs and traces.
func (i ID) String() string {
	b := i.Ballot
	return fmt.Sprintf("v%d/%d@%s#%d", i.Version, b.Round, b.Proposer, b.Incarnation)
}
