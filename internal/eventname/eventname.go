// SPDX-License-Identifier: Apache-2.0

// Package eventname defines the names of the events and requests that Athena itself sends.
package eventname

import "strings"

// The names of requests and events between nodes. They are part of the wire format. Each name must
// be reserved.
const (
	// AdminStatus is the request for the status of a member, and AdminAct the request to act.
	AdminStatus = "athena/status"
	AdminAct    = "athena/act"
	// Election is the event with the messages of groups.
	Election = "athena.election"
	// Watch is the request with which an observer follows a member. A member answers when its report
	// differs from the one that the observer has, so an observer that is slow gets the newest report
	// and nothing queues for it.
	Watch = "athena.watch"
	// Record is the request with which an observer reads a record. The answer is empty if no such
	// record exists.
	Record = "athena.record"
	// Work is the stream of a worker to the member that relays its messages. Both sides write frames,
	// each after its length.
	Work = "athena.work"
)

// IsReserved reports whether a name is reserved for Athena. A caller who chooses such a name could
// pretend to be a node.
func IsReserved(name string) bool {
	return strings.HasPrefix(name, "athena/") || strings.HasPrefix(name, "athena.")
}
