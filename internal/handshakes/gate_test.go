// SPDX-License-Identifier: Apache-2.0

package handshakes

import (
	"net"
	"testing"
)

// TestGateForgetsHosts checks that a host can fill only its share, and that handshakes leave
// nothing behind when they end, over UDP and TCP.
func TestGateForgetsHosts(t *testing.T) {
	ip := net.ParseIP("2001:db8::1")
	for _, from := range []net.Addr{&net.UDPAddr{IP: ip, Port: 1}, &net.TCPAddr{IP: ip, Port: 1}} {
		g := NewGate(8)
		var leave []func()
		for {
			end, ok := g.Enter(from)
			if !ok {
				break
			}
			leave = append(leave, end)
		}
		if len(leave) != 4 || g.Pending() != 4 {
			t.Errorf("%s: %d handshakes of one address, want 4", from.Network(), len(leave))
		}
		if end, ok := g.Enter(&net.UDPAddr{IP: net.ParseIP("192.0.2.1")}); !ok {
			t.Errorf("%s: no room for another host", from.Network())
		} else {
			end()
		}
		for _, end := range leave {
			end()
		}
		if g.Pending() != 0 || len(g.hosts) != 0 {
			t.Errorf("%s: %d handshakes of %v are pending after all have ended",
				from.Network(), g.Pending(), g.hosts)
		}
	}
}

// TestGateLeavesRoomBesideSeveralHosts checks that one more host can enter after four others have
// taken all that they can.
func TestGateLeavesRoomBesideSeveralHosts(t *testing.T) {
	g := NewGate(Limit(3))
	for i := range byte(5) {
		at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, i)}
		n := 0
		for ; n < 100; n++ {
			if _, ok := g.Enter(at); !ok {
				break
			}
		}
		if n == 0 || n > Limit(3)/2 {
			t.Errorf("host %d: %d handshakes, want 1 to %d", i+1, n, Limit(3)/2)
		}
	}
}
