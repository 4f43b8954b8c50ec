// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package quicnet

import "net"

// checkBuffers returns nil: only on Linux there is advice to give.
func checkBuffers(net.PacketConn) error { return nil }
