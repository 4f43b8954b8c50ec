// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"io"
	"net"
	"sync"
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
	at6 := func(i int) net.IP { return net.IP{0: 0x20, 1: 1, 14: byte(i >> 8), 15: byte(i)} }
	for name, c := range map[string]struct {
		from  func(i int) net.IP
		other net.IP
	}{
		"IPv4":                     {func(int) net.IP { return net.IPv4(10, 0, 0, 1) }, at6(0)},
		"IPv6, for its neighbours": {func(int) net.IP { return at6(1) }, at6(2)},
		"addresses of IPv6":        {at6, net.IPv4(10, 0, 0, 1)},
	} {
		from := c.from
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
			other := dial(c.other)
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

// TestSlowCallers: who holds a connection and says little is hung up on.
func TestSlowCallers(t *testing.T) {
	const head = "GET /livez HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct {
		name, text string
		slowly     bool // go on, a byte a second
		within     time.Duration
	}{
		{"nothing", "", false, 6 * time.Second},
		{"half a header", head, false, 6 * time.Second},
		{"a header without an end", head + "X: ", true, 6 * time.Second},
		{"a body without an end", "POST /v1/drain HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n", true, 16 * time.Second},
		{"one request, and no more", head + "\r\n", false, 61 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serveInBubble(t)
			here, there := net.Pipe()
			s.l.dialed <- there
			began := time.Now()
			var work sync.WaitGroup
			work.Go(func() {
				_, err := io.WriteString(here, c.text)
				for err == nil && c.slowly {
					time.Sleep(time.Second)
					_, err = io.WriteString(here, "x")
				}
			})
			here.SetReadDeadline(began.Add(time.Hour))
			_, err := io.Copy(io.Discard, here)
			if took := time.Since(began); err != nil || took > c.within {
				t.Errorf("%s: hung up on after %v, %v; want at most %v", c.name, took, err, c.within)
			}
			here.Close()
			work.Wait()
			s.end()
		})
	}
}
