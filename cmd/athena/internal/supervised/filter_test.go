// SPDX-License-Identifier: Apache-2.0

package supervised

import (
	"net"
	"testing"
)

// TestPacketFilter checks that packets of blocked peers are dropped in both directions, and that no
// other packets are dropped.
func TestPacketFilter(t *testing.T) {
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	socket, near, far := listen(), listen(), listen()
	var filter packetFilter
	conn := filter.wrap(socket)
	send := func(from net.PacketConn, text string, to net.Addr) {
		t.Helper()
		if n, err := from.WriteTo([]byte(text), to); err != nil || n != len(text) {
			t.Fatalf("send %q: %d, %v, want all of it and no error", text, n, err)
		}
	}
	receive := func(at net.PacketConn, want string) {
		t.Helper()
		var b [64]byte
		n, _, err := at.ReadFrom(b[:])
		if err != nil || string(b[:n]) != want {
			t.Errorf("received %q, %v, want %q", b[:n], err, want)
		}
	}
	filter.setBlocked([]string{far.LocalAddr().String()})
	send(far, "lost", socket.LocalAddr())
	send(near, "from near", socket.LocalAddr())
	receive(conn, "from near")
	send(conn, "lost", far.LocalAddr())
	send(conn, "to near", near.LocalAddr())
	receive(near, "to near")

	filter.setBlocked(nil)
	send(far, "from far", socket.LocalAddr())
	receive(conn, "from far")
	send(conn, "to far", far.LocalAddr())
	receive(far, "to far")
}
