// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/internal/transporttest"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
	"github.com/athena-go/athena/transport/quicnet"
)

const secret = "DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg="

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetwork(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.World { return world{memnet.New()} })
}

func secretTLS() (*tls.Config, bool, error) {
	c, err := quicnet.SecretTLS([][]byte{[]byte(secret)}, "test", time.Now)
	return c, false, err
}

// world is a simulated network of TCP: each connection is a stream of package memnet.
type world struct{ *memnet.Network }

func (w world) Listen(t testing.TB, at member.Address) transport.Network {
	t.Helper()
	e, err := w.Network.Listen(at)
	if err != nil {
		t.Fatalf("listen on %v: %v", at, err)
	}
	l := listener{e, at}
	n, err := newNetwork(transport.Config{Size: 3, TLS: secretTLS}, l, l.dial)
	if err != nil {
		t.Fatalf("newNetwork: %v", err)
	}
	return n
}

func (w world) Close()               {}
func (w world) Delay() time.Duration { return 0 }

// listener is a net.Listener of a simulated host.
type listener struct {
	transport.Network
	at member.Address
}

func (l listener) Addr() net.Addr { return tcpAddr(l.at) }

func tcpAddr(a member.Address) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(a.Host), a.Port))
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Network.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return &simConn{FrameStream: c.Stream(transport.System), conn: c, remote: tcpAddr(l.at)}, nil
}

func (l listener) dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := member.ParseAddress(addr)
	if err != nil {
		return nil, err
	}
	c, err := l.Network.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return &simConn{FrameStream: c.Stream(transport.System), conn: c, remote: tcpAddr(to)}, nil
}

// simConn is one end of a simulated TCP connection.
type simConn struct {
	transport.FrameStream
	conn   transport.Conn
	remote net.Addr
	once   sync.Once
}

func (c *simConn) Close() error {
	c.once.Do(func() { c.conn.Close(transport.CodeClosed, "") })
	return nil
}
func (c *simConn) LocalAddr() net.Addr              { return c.remote }
func (c *simConn) RemoteAddr() net.Addr             { return c.remote }
func (c *simConn) SetDeadline(time.Time) error      { return nil }
func (c *simConn) SetReadDeadline(time.Time) error  { return nil }
func (c *simConn) SetWriteDeadline(time.Time) error { return nil }
