// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"errors"
	"time"
)

// Limits shared by server and client.
const (
	// MaxHeaderBytes limits the header of a request or response.
	MaxHeaderBytes = 16 << 10
	// ActTimeout limits how long a POST waits for the next leader, or for the handlers of an
	// event.
	ActTimeout = 15 * time.Second
	// KeepAliveInterval is the time between comments on an idle stream. The comments let each side
	// detect that the other is gone.
	KeepAliveInterval = 15 * time.Second
	// MaxConnections limits the connections of a server. Each connection is an open file, and a node
	// that cannot open files cannot save its state and stops. A full server closes another connection
	// for each one that it accepts, but none that serves a stream, a hold or a write request. The
	// limits of these add up to less than MaxConnections.
	MaxConnections = 256
	// MaxEventStreams limits the open streams of /v1/events.
	MaxEventStreams = 64
	// EventHistory is the number of changes that a node keeps for readers that resume a stream of
	// /v1/events or read slowly.
	EventHistory = 1024
)

// UnixPrefix starts an address that is the path of a Unix socket.
const UnixPrefix = "unix:"

// ErrAddress is wrapped by errors about invalid addresses of servers and clients.
var ErrAddress = errors.New("admin: invalid address")
