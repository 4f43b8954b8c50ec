// SPDX-License-Identifier: Apache-2.0

// Package recordtable implements package record for a node of a cluster. A Table shows the
// records as the node sees them, sends commits to the leader, and grants the leases under
// which sessions act on their records.
//
// The event loop of the node calls Update and DeliverAnswers in each turn. All other methods
// may be called from any goroutine.
package recordtable
