// SPDX-License-Identifier: Apache-2.0

// Package admin shows a running node to people, scripts and monitoring, and lets them
// act on it where the node was told so: an http.Handler with a JSON API, a way to
// serve it on this machine, or with a token to others, and a Client that asks it.
//
//	GET /v1/status    Status: everything below, and more
//	GET /v1/members   []Member: the members of the view
//	GET /v1/leader    Leader; 503 no_quorum when nobody leads with authority
//	GET /v1/nodes     []Entry: the members by their names, for what follows
//	GET /v1/nodes/NAME/status
//	                  Status of that member, which is asked over the cluster
//	GET /             a page for people that shows all of it (Page)
//	GET /v1/events    server-sent events: the present Status, then each change
//	GET /v1/jobs      []Job: who leads each job, and holds its latches
//	GET /v1/jobs/JOB/events
//	                  server-sent events: who leads it (WithJobs)
//	POST /v1/jobs/JOB/lock, /elect
//	                  hold a latch, or contend for the job, as long as the connection
//	                  lasts: server-sent events
//	POST /v1/jobs/JOB/enable, /disable
//	                  whether a member may lead it, CandidateRequest; Done
//	POST /v1/send     an event for members, SendRequest; Sent
//	POST /v1/transfer leadership to another member, TransferRequest; HandedOver
//	POST /v1/drain    never lead again in this run; HandedOver
//	POST /v1/leave    leave the cluster and end; 202, and Done
//	GET /livez        200 while the process works
//	GET /readyz       200 while the node is an active member by the word of a leader
//	                  that was chosen; with ?quorum while there is a quorate leader,
//	                  with ?leader while it is this node; other queries are 400
//
// docs/admin.md shows each answer. An error is {"error": "text for people", "code":
// "word for programs"}. Times are RFC 3339 with nanoseconds, durations are
// milliseconds.
package admin
