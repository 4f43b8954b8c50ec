// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel close a connection whose peer has acknowledged nothing for
// streamTimeout. The default is about 15 minutes, in which a lock of a dead caller would stay
// held.
func setUserTimeout(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) { // on an error the default stays
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(streamTimeout.Milliseconds()))
	})
}
