// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/internal/adminapi"
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

// TestDocumentedUserTimeout checks the times within which the page states that the lock of a caller
// is free after its host has died: the node has to write to it first.
func TestDocumentedUserTimeout(t *testing.T) {
	page, err := os.ReadFile("../docs/elections.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("within %v, %v if the caller waited", streamTimeout,
		streamTimeout+adminapi.KeepAliveInterval)
	want = strings.NewReplacer("30s", "30 s", "45s", "45 s").Replace(want)
	if !strings.Contains(string(page), want) {
		t.Errorf("docs/elections.md has no %q", want)
	}
}
