// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUserTimeout checks that accepted connections have TCP_USER_TIMEOUT.
func TestUserTimeout(t *testing.T) {
	inner, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimited(inner)
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*counted).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	err = raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if err != nil || time.Duration(got)*time.Millisecond != streamTimeout {
		t.Errorf("%d ms, %v, want %v", got, err, streamTimeout)
	}
}
