// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel close a connection whose peer has acknowledged nothing for
// streamTimeout. By default that takes about 15 minutes, during which a dead caller would keep its
// lock.
func setUserTimeout(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) { // on error the default applies
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(streamTimeout.Milliseconds()))
	})
}

// localCaller describes the process that connected to a Unix socket. It returns "" for other
// connections.
func localCaller(c net.Conn) string {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ""
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ""
	}
	var peer *unix.Ucred
	_ = raw.Control(func(fd uintptr) { // on error peer is nil
		peer, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if peer == nil {
		return ""
	}
	return fmt.Sprintf("uid %d, pid %d", peer.Uid, peer.Pid)
}
