// SPDX-License-Identifier: Apache-2.0

// Package admin serves the admin API of a node over HTTP. New returns the http.Handler. Listen and
// Serve run it on loopback or on a Unix socket, or with a token on any address. With WithWrite,
// callers may also change the node.
//
//	GET /             the dashboard (Page)
//	GET /v1/status    the state of the node, its view and its traffic
//	GET /v1/members   the members of the view
//	GET /v1/leader    the leader; 503 no_quorum without a leader with authority
//	GET /v1/nodes     the members by name, for the next path
//	GET /v1/nodes/NAME/status
//	                  the status of another member, requested over the cluster
//	GET /v1/events    server-sent events: a snapshot of the status, then each change
//	GET /v1/jobs      the leader and the lock holders of each job
//	GET /v1/jobs/JOB/events
//	                  server-sent events: the leader of the job (WithJobs)
//	POST /v1/jobs/JOB/lock, /elect
//	                  hold a lock, or campaign for the job, while the connection
//	                  lasts: server-sent events
//	POST /v1/jobs/JOB/enable, /disable
//	                  whether a member, or the members of a host, may lead the job
//	POST /v1/groups/GROUP/elect
//	                  take part in a group while the connection lasts: server-sent
//	                  events (WithGroups)
//	POST /v1/groups/GROUP/fail
//	                  report that the work of the leader has failed
//	POST /v1/send     send an event to members
//	POST /v1/transfer hand over leadership
//	POST /v1/drain    do not lead again until the process restarts
//	POST /v1/seats    remove the seats of members that left
//	POST /v1/prefer   set the preference of the node until the process restarts
//	POST /v1/leave    leave the cluster and exit; 202
//	GET /livez        200 while the process works
//	GET /readyz       200 while the node is an active member of a cluster with an elected
//	                  leader; with ?quorum only while there is a quorate leader, with
//	                  ?leader only while this node is it; other queries return 400
//
// docs/admin-api.md shows each response. Errors have the form {"error": "text", "code": "word"};
// programs should rely on the code only. Times are RFC 3339 with nanoseconds, durations are
// milliseconds.
package admin
