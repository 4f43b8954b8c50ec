// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"errors"
	"time"
)

// Limits that a server and its clients share.
const (
	// MaxHeaderBytes bounds the header of a request and of an answer.
	MaxHeaderBytes = 16 << 10
	// ActTimeout bounds what a POST waits for: the next leader, or the handlers of an
	// event.
	ActTimeout = 15 * time.Second
	// KeepAliveInterval is the time between comments on a stream without news, by which
	// either side learns that the other is gone.
	KeepAliveInterval = 15 * time.Second
	// MaxConnections bounds the connections of a server. Each is an open file, and a node
	// whose process can open no more files cannot save, and ends. Streams, holds and
	// acts together have lower bounds: a full server always has connections that give
	// way to a new one.
	MaxConnections = 256
	// MaxEventStreams bounds the streams of /v1/events that are open at once.
	MaxEventStreams = 64
	// EventHistory is how many changes a node keeps for readers that continue a stream
	// of /v1/events, or read slowly.
	EventHistory = 1024
)

// UnixPrefix marks the path of a socket where an address is expected.
const UnixPrefix = "unix:"

// ErrAddress is wrapped by errors about an address that a server can never listen on and
// a client can never ask at.
var ErrAddress = errors.New("admin: invalid address")
