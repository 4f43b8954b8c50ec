// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package quicnet

import "net"

// smallBuffers is told on Linux alone, where the advice is known.
func smallBuffers(net.PacketConn) error { return nil }
