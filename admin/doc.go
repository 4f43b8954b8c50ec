// SPDX-License-Identifier: Apache-2.0

// Package admin shows a running node to people, scripts and monitoring: an
// http.Handler with a JSON API that reads and changes nothing, a way to serve
// it on this machine alone, and a Client that asks it.
//
//	GET /v1/status    Status: everything below, and more
//	GET /v1/members   []Member: the members of the view
//	GET /v1/leader    Leader; 503 no_quorum when nobody leads with authority
//	GET /v1/nodes     []Entry: the members by their names, for what follows
//	GET /v1/nodes/NAME/status
//	                  Status of that member, which is asked over the cluster
//	GET /livez        200 while the process works
//	GET /readyz       200 while the node is an active member by the word of a leader
//	                  that was chosen; with ?quorum while there is a quorate leader,
//	                  with ?leader while it is this node; other queries are 400
//
// docs/admin.md shows each answer. An error is {"error": "text for people", "code":
// "word for programs"}. Times are RFC 3339 with nanoseconds, durations are
// milliseconds.
package admin
