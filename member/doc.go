// SPDX-License-Identifier: Apache-2.0

// Package member holds the nouns of the protocol: who a member is, which
// status it has, which leader is claimed, and the state that a leader keeps.
// It imports nothing of this module, has no goroutine, clock or I/O, and every
// value in it is treated as immutable once it was handed to somebody else.
//
// # Glossary
//
// Each word has one meaning in code and documents.
//
//	word          meaning                                          in the papers
//	Version       number of the leadership term; only grows        term (Raft), view number (VR)
//	Revision      number of the state within a version             log index within a term
//	State         version, revision, leader, roster                log prefix, configuration
//	held state    newest State of a chosen leader that a node took  -
//	View          what one node shows and whom it follows           view
//	Seed          entry point that is configured on every node      contact point
//	Quorum, M     N/2+1                                             majority
//	Ballot        (round, proposer and its run), totally ordered    ballot, proposal number
//	Proposal      pre and formal                                    Prepare and Accept
//	Vote          pre and formal                                    Promise and Accepted
//	Candidate     who should lead                                   value
//	Proposer      who asks                                          proposer
//	chosen        got M formal votes for its version                elected
//	provisional   a seed that declared itself; has no authority     -
//	quorate       chosen, held by M voters, lease running           leader with a lease
//	Claim         (chosen, version, address) of a leader            -
//	support       an ack keeps a follower from helping another      leader lease promise
//	bound         accepted a formal proposal of a higher version    accepted
//	Active, Unreachable, Removed   statuses of a member             alive, suspect, dead (SWIM)
//	keep-alive, ack, TTL           messages and limits of liveness  heartbeat, lease
//
// A leader is a role, a candidate a proposed member, a state is the replicated
// State and never a Status, a node is the running thing, a member an entry of
// a view, an event is what applications see, a message what nodes say.
package member
