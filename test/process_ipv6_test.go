// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"net"
	"slices"
	"syscall"
	"testing"
)

// needIPv6 skips a test if this host has no IPv6 on loopback.
func needIPv6(t *testing.T) {
	t.Helper()
	socket, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("this host has no IPv6: %v", err)
	}
	socket.Close()
}

// TestProcessIPv6 runs daemons over QUIC and over TLS, kills their leader and waits for the next.
// In one cluster all have the address ::1, and each writes the addresses of all in a form of its
// own, which must not matter. In the other, two are reached over IPv4, one at an address and one at
// a name, and the third over IPv6.
func TestProcessIPv6(t *testing.T) {
	t.Parallel()
	needIPv6(t)
	loopback := func(i int) string { return []string{"::1", "0:0:0:0:0:0:0:1", "0::0:1"}[i] }
	dual := func(int) string { return "" }
	hosts := []string{"127.0.0.1", "localhost", "::1"}
	for _, transport := range []string{"quic", "tls"} {
		t.Run("IPv6 "+transport, func(t *testing.T) {
			t.Parallel()
			testIPv6(t, loopback, func(i, _ int) string { return loopback(i) }, transport)
		})
		t.Run("dual stack "+transport, func(t *testing.T) {
			t.Parallel()
			testIPv6(t, dual, func(_, of int) string { return hosts[of] }, transport)
		})
	}
}

// testIPv6 runs three nodes. Node i listens on the host listen(i), and its configuration has the
// address of each node with the host host(i, of).
func testIPv6(
	t *testing.T, listen func(i int) string, host func(i, of int) string, transport string,
) {
	c := newNodes(t, 3)
	var ports []string
	for _, addr := range c.addrs {
		_, port, _ := net.SplitHostPort(addr)
		ports = append(ports, port)
	}
	var all []*process
	for i := range ports {
		for of, port := range ports {
			c.addrs[of] = net.JoinHostPort(host(i, of), port)
		}
		all = append(all, c.start(i+1, "--transport", transport,
			"--addr", net.JoinHostPort(listen(i), ports[i]), "--advertise", c.addrs[i]))
	}
	leader := c.settle(1, 2, 3)
	s, _ := c.status(leader)
	var got []string
	for _, m := range s.View.Members {
		got = append(got, m.Address.String())
	}
	for of, port := range ports {
		if want := net.JoinHostPort(host(0, of), port); !slices.Contains(got, want) {
			t.Errorf("members %q, want %s, in its shortest form", got, want)
		}
	}
	if len(s.OtherSeeds) > 0 {
		t.Errorf("other seeds %v, but their lists differ only in how addresses are written", s.OtherSeeds)
	}
	all[leader-1].signal(syscall.SIGKILL)
	all[leader-1].wait()
	c.settle(slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == leader })...)
}
