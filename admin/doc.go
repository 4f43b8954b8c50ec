// SPDX-License-Identifier: Apache-2.0

// Package admin serves the admin API of a running node: an http.Handler with a JSON API
// for people, scripts and monitoring (New), and a server for it that is open to this
// machine, or with a token to others (Listen, Serve). With WithWrite, callers may also act
// on the node.
//
//	GET /v1/status    everything below, and more
//	GET /v1/members   the members of the view
//	GET /v1/leader    the leader; 503 no_quorum without a leader with authority
//	GET /v1/nodes     the members by their names, for the next path
//	GET /v1/nodes/NAME/status
//	                  the status of that member, which is asked over the cluster
//	GET /             the dashboard (Page)
//	GET /v1/events    server-sent events: the present status, then each change
//	GET /v1/jobs      who leads each job, and holds its latches
//	GET /v1/jobs/JOB/events
//	                  server-sent events: who leads it (WithJobs)
//	POST /v1/jobs/JOB/lock, /elect
//	                  hold a latch, or contend for the job, as long as the connection
//	                  lasts: server-sent events
//	POST /v1/jobs/JOB/enable, /disable
//	                  whether a member may lead it
//	POST /v1/send     an event for members
//	POST /v1/transfer leadership to another member
//	POST /v1/drain    never lead again in this run
//	POST /v1/leave    leave the cluster and end; 202
//	GET /livez        200 while the process works
//	GET /readyz       200 while the node is an active member by the word of a leader
//	                  that was chosen; with ?quorum while there is a quorate leader,
//	                  with ?leader while it is this node; other queries are 400
//
// docs/admin.md shows each answer. An error is {"error": "text for people", "code":
// "word for programs"}. Times are RFC 3339 with nanoseconds, durations are
// milliseconds.
package admin
