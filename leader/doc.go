// SPDX-License-Identifier: Apache-2.0

// Package leader runs work in the process that leads. It is the same for a cluster, a job, and a
// group with any strategy.
//
//	err := candidate.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
//		return work(ctx, term.Token())
//	})
//
// A Candidate runs work while this process leads, and reports which process leads. A Term is one
// period of leadership. Its contexts end before another process may act. Its token is greater than
// the token of every earlier term, so that storage can refuse a former leader. Storage must compare
// tokens, because a process may be paused between a check of Term.Valid and its next action.
//
// The strategy of the Candidate determines how many processes can lead at the same time. If a
// majority decides (a cluster, a job), at most one process leads. With election.Lowest, one process
// leads in each part of a partitioned network; with election.Static, all configured leaders lead.
//
// # Implementing a strategy
//
// A strategy is a Source. It publishes terms, and extends and ends each term through a Lease. The
// Candidate runs the functions, retries failed work and decides when to give up leadership.
package leader
