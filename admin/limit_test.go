// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
)

// remote is a connection from another machine.
type remote struct {
	net.Conn
	from *net.TCPAddr
}

func (r remote) RemoteAddr() net.Addr { return r.from }

// TestConnectionsOfOneHost checks that one host cannot block health checks by using up all
// connections, which need no token.
func TestConnectionsOfOneHost(t *testing.T) {
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
			for i := range adminapi.MaxConnections {
				held = append(held, dial(from(i)))
			}
			other := dial(c.other)
			if _, err := other.Read(make([]byte, 1)); err == io.EOF {
				t.Errorf("%s: one host holds all connections, another is refused", name)
			}
			for _, c := range append(held, other) {
				c.Close()
			}
			synctest.Wait()
			again := dial(from(0))
			if _, err := again.Read(make([]byte, 1)); err == io.EOF {
				t.Errorf("%s: the host is refused after its connections have ended", name)
			}
			again.Close()
			s.end()
		})
	}
}

// connect opens a connection from an address, later than the previous one.
func (s *served) connect(from net.IP) net.Conn {
	here, there := net.Pipe()
	s.l.dialed <- remote{there, &net.TCPAddr{IP: from, Port: 1}}
	time.Sleep(time.Millisecond)
	return here
}

// statusOf sends a request with a token and returns the first line of the response.
func statusOf(c net.Conn, path string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n"+
		"Authorization: Bearer %s\r\n\r\n", path, tokenText)
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return line, err
}

// isClosed reports whether the other side has closed a connection. There must be nothing to read.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

// TestIdleConnectionsGiveWay checks that connections without a complete request do not block health
// checks, whatever their number and origin.
func TestIdleConnectionsGiveWay(t *testing.T) {
	loopback := net.IPv4(127, 0, 0, 1)
	hosts := func(i int) net.IP { return net.IPv4(10, 0, 0, byte(i%5)) }
	const page = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" // the response is not read
	for _, c := range []struct {
		name, sent string
		from       func(i int) net.IP
		probe      net.IP
		stays      bool // no connection of the probe's host is closed
	}{
		{"five hosts", "", hosts, net.IPv4(10, 0, 1, 0), true},
		{"this machine", "", func(int) net.IP { return loopback }, loopback, false},
		{"this machine, seen from another", "", func(int) net.IP { return loopback },
			net.IPv4(10, 0, 1, 0), true},
		{"the host of the probe", "", func(int) net.IP { return hosts(0) }, hosts(0), false},
		{"half a head", "GET /livez HTTP/1.1\r\nHost: ", hosts, net.IPv4(10, 0, 1, 0), true},
		{"slow readers", page, hosts, net.IPv4(10, 0, 1, 0), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serveInBubble(t)
			early := s.connect(c.probe)
			held := []net.Conn{early}
			for round := range 3 {
				for i := range adminapi.MaxConnections + 44 {
					held = append(held, s.connect(c.from(i)))
					if c.sent != "" {
						_, _ = io.WriteString(held[len(held)-1], c.sent)
					}
				}
				probe := s.connect(c.probe)
				line, err := statusOf(probe, "/livez")
				if line != "HTTP/1.1 200 OK\r\n" {
					t.Errorf("%s, round %d: GET /livez: %q, %v, want 200", c.name, round, line, err)
				}
				probe.Close()
			}
			if got := !isClosed(early); got != c.stays {
				t.Errorf("%s: a connection from the host of the probe stays open: %v, want %v",
					c.name, got, c.stays)
			}
			if !isClosed(held[1]) {
				t.Errorf("%s: the oldest connection is not closed", c.name)
			}
			for _, c := range held {
				c.Close()
			}
			s.end()
		})
	}
}

// TestConnectionsInUseStay checks that streams and unfinished requests with the token stay open
// while idle connections are replaced. Connections whose request is finished are replaced too.
func TestConnectionsInUseStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := admin.WithToken(readToken(t, tokenFile(t, tokenText, 0o600)))
		s := serveInBubble(t, token)
		stream := s.connect(nil)
		if line, err := statusOf(stream, "/v1/events"); line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("GET /v1/events: %q, %v, want 200", line, err)
		}
		time.Sleep(10 * time.Second)
		// The handler blocks until its response is read.
		slow, answered := s.connect(nil), s.connect(nil)
		_, err := io.WriteString(slow, "GET /v1/openapi.json HTTP/1.0\r\nHost: localhost\r\n"+
			"Authorization: Bearer "+tokenText+"\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if line, err := statusOf(answered, "/livez"); line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("GET /livez: %q, %v, want 200", line, err)
		}
		var held []net.Conn
		for range 2 * adminapi.MaxConnections {
			held = append(held, s.connect(nil))
		}
		_ = stream.SetReadDeadline(time.Now().Add(time.Minute))
		s.node.joins(18)
		if _, err := stream.Read(make([]byte, 64)); err != nil {
			t.Errorf("a stream: %v, want the next event", err)
		}
		_ = slow.SetReadDeadline(time.Now().Add(time.Second))
		if all, err := io.ReadAll(slow); err != nil || len(all) < 10_000 {
			t.Errorf("an unread response: %d bytes, %v, want all of it", len(all), err)
		}
		_ = answered.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := io.Copy(io.Discard, answered); err != nil {
			t.Errorf("an idle connection after its response: %v, want it closed", err)
		}
		for _, c := range append(held, stream, slow, answered) {
			c.Close()
		}
		s.end()
	})
}

// TestSlowCallers checks that connections of slow callers are closed.
func TestSlowCallers(t *testing.T) {
	const head = "GET /livez HTTP/1.1\r\nHost: localhost\r\n"
	for _, c := range []struct {
		name, text string
		slowly     bool // send one byte per second
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
				t.Errorf("%s: closed after %v, %v; want at most %v", c.name, took, err, c.within)
			}
			here.Close()
			work.Wait()
			s.end()
		})
	}
}
