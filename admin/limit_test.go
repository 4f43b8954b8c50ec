// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/admin"
)

// remote is a connection from another machine.
type remote struct {
	net.Conn
	from *net.TCPAddr
}

func (r remote) RemoteAddr() net.Addr { return r.from }

// TestOneHostHoldsNotAllConnections: probes of health need no token, so whoever reaches
// the port could keep them away from everybody else, and supervisors would end the node.
func TestOneHostHoldsNotAllConnections(t *testing.T) {
	for name, from := range map[string]func(i int) net.IP{
		"IPv4": func(int) net.IP { return net.IPv4(10, 0, 0, 1) },
		"addresses of IPv6": func(i int) net.IP {
			return net.IP{0: 0x20, 1: 1, 14: byte(i >> 8), 15: byte(i)}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serveInBubble(t)
			dial := func(from net.IP) net.Conn {
				here, there := net.Pipe()
				s.l.dialed <- remote{there, &net.TCPAddr{IP: from, Port: 1}}
				synctest.Wait()
				here.SetReadDeadline(time.Now())
				return here
			}
			var held []net.Conn
			for i := range admin.MaxConnections {
				held = append(held, dial(from(i)))
			}
			other := dial(net.IPv4(10, 0, 0, 2))
			if _, err := other.Read(make([]byte, 1)); err == io.EOF {
				t.Errorf("%s: one host holds all connections, another is hung up on", name)
			}
			for _, c := range append(held, other) {
				c.Close()
			}
			synctest.Wait()
			again := dial(from(0))
			if _, err := again.Read(make([]byte, 1)); err == io.EOF {
				t.Errorf("%s: the host is hung up on after its connections have ended", name)
			}
			again.Close()
			s.end()
		})
	}
}
