// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// Limits of connections.
const (
	// maxHostConnections limits the connections from one remote address, and maxPrefixConnections
	// those from one IPv6 /64, since a host can use every address in it. Loopback has no such
	// limit, since all local processes share it.
	maxHostConnections   = adminapi.MaxConnections / 4
	maxPrefixConnections = adminapi.MaxConnections / 2
	// accessGrace is the extra time for which a connection is kept after a request with the token or
	// with a client certificate.
	accessGrace = readHeaderTimeout
	// maxEarlyBytes limits what a connection may receive before its first request: a header, and
	// with TLS a handshake. crypto/tls accepts certificates of 256 KiB, from strangers too.
	maxEarlyBytes = 64 << 10
)

var errEarlyBytes = errors.New("too many bytes before the first request")

// limited is a listener that limits the number of open connections. If too many are open, the
// listener closes a connection to accept a new one. It selects the host with the most connections.
// From that host it closes the connection that has been idle the longest since it was accepted,
// sent a complete request or got a response. Without this rule, a few idle connections, which need
// no token, could block every health check, and a supervisor would kill the node. The connection of
// a slow reader can be closed too, since requests for the page need no token.
type limited struct {
	net.Listener

	mu    sync.Mutex
	open  []*counted           // in the order they were accepted
	hosts map[netip.Prefix]int // number of open connections of each host
}

func newLimited(l net.Listener) *limited {
	return &limited{Listener: l, hosts: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		setUserTimeout(conn)
		c := &counted{Conn: conn, limit: l, hosts: hostsOf(conn.RemoteAddr())}
		replaced, entered := l.admitConn(c)
		if replaced != nil {
			replaced.Conn.Close()
		}
		if entered {
			return c, nil
		}
		conn.Close()
	}
}

// admitConn adds a connection. If too many are open, it returns the connection to close in
// exchange. It returns false if all open connections must stay.
func (l *limited) admitConn(c *counted) (replaced *counted, entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, of := len(l.open) >= adminapi.MaxConnections, netip.Prefix{}
	for _, h := range c.hosts {
		if l.hosts[h] >= mostOf(h) {
			full, of = true, h
			break // hostsOf returns the address before its prefix
		}
	}
	if full {
		if replaced = l.oldestConn(of); replaced == nil {
			return nil, false
		}
		l.removeConn(replaced)
	}
	c.replaceable = time.Now()
	l.open = append(l.open, c)
	for _, h := range c.hosts {
		l.hosts[h]++
	}
	return replaced, true
}

// oldestConn returns the connection of a host or prefix to replace, or nil if all of them must
// stay. The zero prefix stands for all connections. l.mu must be held.
func (l *limited) oldestConn(of netip.Prefix) (first *counted) {
	most := 0
	for _, c := range l.open {
		if c.replaceable.IsZero() || of.IsValid() && !slices.Contains(c.hosts, of) {
			continue
		}
		crowd := 0
		for _, h := range c.hosts {
			crowd = max(crowd, l.hosts[h])
		}
		if first == nil || crowd > most ||
			crowd == most && c.replaceable.Before(first.replaceable) {
			first, most = c, crowd
		}
	}
	return first
}

// removeConn removes a connection from the counts. Later calls do nothing. l.mu must be held.
func (l *limited) removeConn(c *counted) {
	i := slices.Index(l.open, c)
	if i < 0 {
		return
	}
	l.open = slices.Delete(l.open, i, i+1)
	for _, h := range c.hosts {
		if l.hosts[h]--; l.hosts[h] == 0 {
			delete(l.hosts, h)
		}
	}
}

// thisMachine stands for all loopback addresses and Unix sockets.
func thisMachine() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8) }

// hostsOf returns the prefixes under which a connection is counted: its address, and for IPv6
// also its /64.
func hostsOf(a net.Addr) []netip.Prefix {
	at, ok := a.(*net.TCPAddr)
	if !ok {
		return []netip.Prefix{thisMachine()} // a Unix socket
	}
	ip := at.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return []netip.Prefix{thisMachine()}
	}
	hosts := []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	if ip.Is6() {
		hosts = append(hosts, netip.PrefixFrom(ip, 64).Masked())
	}
	return hosts
}

// mostOf returns the limit on connections of a host or prefix.
func mostOf(h netip.Prefix) int {
	switch {
	case h == thisMachine():
		return adminapi.MaxConnections
	case h.IsSingleIP():
		return maxHostConnections
	default:
		return maxPrefixConnections
	}
}

// counted is a connection accepted by a limited listener.
type counted struct {
	net.Conn
	limit *limited
	hosts []netip.Prefix
	// replaceable determines the order in which connections are closed to admit new ones, earliest
	// first. It is zero if the connection must stay. limit.mu guards it.
	replaceable time.Time

	requested atomic.Bool // a request has arrived
	early     int         // bytes that arrived before
}

// Read implements net.Conn.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.requested.Load() {
		if c.early += n; c.early > maxEarlyBytes {
			return 0, errEarlyBytes
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.limit.mu.Lock()
	c.limit.removeConn(c)
	c.limit.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is the ConnContext of a server.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// noteRequests updates replaceable at the start and at the end of each request.
func noteRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setReplaceable(r, time.Now())
		defer func() { setReplaceable(r, time.Now()) }()
		next.ServeHTTP(w, r)
	})
}

// keepConnection protects the connection of a request from replacement until the request is
// finished. It is used for requests whose number has its own limit.
func keepConnection(r *http.Request) { setReplaceable(r, time.Time{}) }

func setReplaceable(r *http.Request, since time.Time) {
	c, ok := r.Context().Value(connectionKey{}).(*counted)
	if !ok {
		return // the request is not from Serve
	}
	c.requested.Store(true)
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	c.replaceable = since
}
