// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Link is a virtual link in the kernel between two hosts, 10.77.0.1 and 10.77.0.2. Each host is a
// network namespace.
type Link [2]host

// host runs functions on a thread in its namespace.
type host struct {
	thread int
	todo   chan func()
}

// NewLink makes a link. It skips the test if this process cannot make a link.
func NewLink(t *testing.T) *Link {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip, of iproute2")
	}
	var l Link
	for i := range l {
		l[i] = newHost(t)
	}
	l.ip(t, 0, fmt.Sprintf("link add veth0 type veth peer name veth1 netns %d", l[1].thread))
	for i := range l {
		l.ip(t, i, fmt.Sprintf("addr add %s/24 dev veth%d", l.Host(i), i))
		l.ip(t, i, fmt.Sprintf("link set veth%d up", i))
	}
	return &l
}

func newHost(t *testing.T) host {
	t.Helper()
	h := host{todo: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		h.thread = unix.Gettid()
		made <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range h.todo {
			f()
		}
	}()
	err := <-made
	t.Cleanup(func() { close(h.todo) })
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs root, to make network namespaces")
	} else if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	return h
}

func (h host) run(f func()) {
	done := make(chan struct{})
	h.todo <- func() { defer close(done); f() }
	<-done
}

// Host returns the IP address of host i.
func (l *Link) Host(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// Listen opens a UDP socket on host i.
func (l *Link) Listen(i int, addr string) (socket *net.UDPConn, err error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	l[i].run(func() { socket, err = net.ListenUDP("udp", at) })
	return socket, err
}

// SetMTU sets the largest IP packet that host i sends and receives. Larger packets that arrive are
// dropped, and the sender is not notified.
func (l *Link) SetMTU(t *testing.T, i, bytes int) {
	t.Helper()
	l.ip(t, i, fmt.Sprintf("link set veth%d mtu %d", i, bytes))
}

// ip runs the command ip of iproute2 on host i.
func (l *Link) ip(t *testing.T, i int, command string) {
	t.Helper()
	var out []byte
	var err error
	l[i].run(func() { out, err = exec.Command("ip", strings.Fields(command)...).CombinedOutput() })
	if err != nil {
		t.Fatalf("ip %s: %v: %s", command, err, out)
	}
}
