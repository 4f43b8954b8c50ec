// SPDX-License-Identifier: Apache-2.0

// Package leader is the contract for leading: the same for a cluster, a job, and a group
// by any strategy.
//
//	err := candidate.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
//		return work(ctx, term.Token())
//	})
//
// A Candidate is this process as one that may lead. It runs work while this process leads
// and says who leads. A Term is one leadership: its contexts end before another process may
// act, and its token lets storage refuse a former leader, because each later leadership has
// a greater token. Storage must compare tokens, since a process can stand still between a
// look at Term.Valid and what it does next.
//
// How many processes can lead at once depends on the strategy behind the Candidate, not on
// the methods: at most one by a majority (a cluster, a job), one in each part of a network
// that fell apart (election.Lowest), as many as are configured (election.Static).
//
// # Inside
//
// A strategy is a Source: it publishes terms, whose other end, a Lease, it extends and
// ends. The Candidate alone runs functions, counts failures, and decides when to give up.
package leader
