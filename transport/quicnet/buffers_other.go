// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package quicnet

import "net"

// checkBuffers returns nil: there is advice only for Linux.
func checkBuffers(net.PacketConn) error { return nil }
