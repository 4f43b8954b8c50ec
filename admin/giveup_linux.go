// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// giveUp ends a connection whose other side acknowledges nothing for streamTimeout: a
// host that is gone. The system would try for a quarter of an hour, in which what such a
// caller held is nobody's.
func giveUp(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return // it is closed already
	}
	_ = raw.Control(func(fd uintptr) { // a system that does not know this does as it did
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(streamTimeout.Milliseconds()))
	})
}
