// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/athena-go/athena/member"
)

// Stats contains the counters of a node's connections since the node started.
type Stats struct {
	Connections int // in use now
	Observers   int // connected now
	Sent        [Kinds]Traffic
	Received    [Kinds]Traffic
	// Handshakes counts by result: "established", "refused", "refused by peer",
	// "duplicate", "failed", "certificate refused", "too many observers", "address claimed" and
	// "earlier run". Every result has an entry.
	Handshakes map[string]uint64
	// Duplicates counts connections that were closed because another one to the same peer was kept.
	Duplicates uint64
	// Dials counts attempts to connect. Redials counts the attempts that followed a failure.
	Dials   uint64
	Redials uint64
	// Dropped counts frames that were not sent or not delivered, by reason. Every reason
	// has an entry.
	Dropped map[string]uint64
	// StreamsOpened counts the bulk streams that this node opened. StreamsAccepted counts those that
	// its peers opened.
	StreamsOpened     uint64
	StreamsAccepted   uint64
	DatagramsSent     Traffic
	DatagramsReceived Traffic
}

// Traffic counts frames of one kind in one direction.
type Traffic struct {
	Messages uint64
	Bytes    uint64 // bytes of the frames, without headers
}

// PeerState describes a peer and the connection to it.
type PeerState struct {
	Address   member.Address
	Connected bool
	// Garbage counts malformed frames and stream heads from this address, while the node remembers the
	// peer. Each of them closed its connection or its bulk stream.
	Garbage uint64
	// The fields below describe the connection. They are zero if there is no connection.
	Identity member.Identity
	Since    time.Time
	Dialed   bool // by this node
	RTT      time.Duration
}
