// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"errors"
	"time"
)

// Limits that server and client share.
const (
	// MaxHeaderBytes limits the header of a request or response.
	MaxHeaderBytes = 16 << 10
	// ActTimeout limits how long a POST waits for the next leader, or for the handlers of an
	// event.
	ActTimeout = 15 * time.Second
	// KeepAliveInterval is the time between comments on an idle stream, by which each side
	// detects that the other has gone.
	KeepAliveInterval = 15 * time.Second
	// MaxConnections limits the connections of a server. Each is an open file, and a node that
	// cannot open files cannot save its state and stops. Streams, holds and write requests have
	// lower limits in sum, so that a full server always has connections to replace.
	MaxConnections = 256
	// MaxEventStreams limits the open streams of /v1/events.
	MaxEventStreams = 64
	// EventHistory is the number of changes that a node keeps for readers that continue a stream
	// of /v1/events or read slowly.
	EventHistory = 1024
)

// UnixPrefix is the prefix of an address that is the path of a Unix socket.
const UnixPrefix = "unix:"

// ErrAddress is wrapped by errors about an invalid address of a server or client.
var ErrAddress = errors.New("admin: invalid address")
