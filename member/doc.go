// SPDX-License-Identifier: Apache-2.0

// Package member defines the nouns of the protocol: a member and its status, the claim of a
// leader, the state that a leader replicates, and fencing tokens.
//
// The package imports no other package of this module and uses no goroutines, clock or I/O.
// Treat every value as immutable once it is shared.
//
// # Glossary
//
// Each word has one meaning in code and documents. The last column of the table gives its name in
// the literature.
//
//	word          meaning                                          in the papers
//	Version       number of the leadership term; only grows        term (Raft), view number (VR)
//	Revision      number of the state within a version             log index within a term
//	State         version, revision, leader, roster                log prefix, configuration
//	held state    newest State of a chosen leader that a node stored -
//	View          what one node knows, and the leader it follows    view
//	Seed          entry point that is configured on every node      contact point
//	Quorum, M     N/2+1                                             majority
//	Ballot        (round, proposer and its run), totally ordered    ballot, proposal number
//	Proposal      pre and formal                                    Prepare and Accept
//	Vote          pre and formal                                    Promise and Accepted
//	Candidate     who should lead                                   value
//	Proposer      node that asks for votes                          proposer
//	chosen        got M formal votes for its version                elected
//	provisional   a seed that declared itself; has no authority     -
//	quorate       chosen, held by M voters, lease running           leader with a lease
//	Claim         (chosen, version, address) of a leader            -
//	support       an ack keeps a follower from helping another      leader lease promise
//	bound         accepted a formal proposal of a higher version    accepted
//	Active, Unreachable, Removed   statuses of a member             alive, suspect, dead (SWIM)
//	keep-alive, ack, TTL           messages and limits of liveness  heartbeat, lease
//
// "Leader" is a role, and a "candidate" is a proposed member. "State" means the replicated
// State, never a Status. A node is the running process; a member is an entry of a view.
// Applications see events; nodes exchange messages.
package member
