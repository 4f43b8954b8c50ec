// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package quicnet

import "net"

// joinPackets returns conn: only Linux joins packets.
func joinPackets(conn net.PacketConn) net.PacketConn { return conn }
