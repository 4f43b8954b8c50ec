// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// Limits of connections.
const (
	// maxHostConnections bounds those of one other address, and maxPrefixConnections those
	// of one prefix of IPv6, which a machine has as many addresses of as it likes. This
	// machine has no such bound: all of its processes share one address.
	maxHostConnections   = adminapi.MaxConnections / 4
	maxPrefixConnections = adminapi.MaxConnections / 2
	// answerGrace is how much longer than others a connection is kept whose caller has
	// shown the token, while its request is answered.
	answerGrace = readHeaderTimeout
)

// limited is a listener that holds a bounded number of connections. When it is full, a
// connection of the host that has most of them is closed to make room for a new one: the
// one that has waited longest since it was accepted, sent a complete request or was
// answered. A health check needs no token, so without this rule a few idle connections
// would keep every probe away, and a supervisor would end the node. A slow reader of an
// answer gives way too: else requests for the page would do the same.
type limited struct {
	net.Listener

	mu    sync.Mutex
	open  []*counted           // in the order in which they were accepted
	hosts map[netip.Prefix]int // of those that are open
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
		giveUp(conn)
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

// admitConn counts a new connection. If there are too many, it returns the one to close in its
// place; it returns false if none gives way.
func (l *limited) admitConn(c *counted) (replaced *counted, entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, of := len(l.open) >= adminapi.MaxConnections, netip.Prefix{}
	for _, h := range c.hosts {
		if l.hosts[h] >= mostOf(h) {
			full, of = true, h
			break // the address comes before its prefix
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

// oldestConn is the connection that gives way first, of those from a host or prefix; of all for
// the zero prefix. It is nil if each of them is kept. l.mu must be held.
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

// removeConn takes a connection out of the counts, once. l.mu must be held.
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

// thisMachine stands for all addresses of loopback.
func thisMachine() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8) }

// hostsOf is what counts as the machine of an address: it, and of IPv6 its prefix.
func hostsOf(a net.Addr) []netip.Prefix {
	at, ok := a.(*net.TCPAddr)
	if !ok {
		return []netip.Prefix{thisMachine()} // a socket
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

// mostOf is how many connections a host or a prefix may have.
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

// counted is a connection of a limited listener.
type counted struct {
	net.Conn
	limit *limited
	hosts []netip.Prefix
	// replaceable is since when the connection may be closed for a new one, the earliest
	// first. It is zero for one that is kept. limit.mu guards it.
	replaceable time.Time
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
	return context.WithValue(ctx, connectionKey{}, c)
}

// noteRequests notes when a connection has sent a request, and when it was answered.
func noteRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setReplaceable(r, time.Now())
		defer func() { setReplaceable(r, time.Now()) }()
		next.ServeHTTP(w, r)
	})
}

// keepConnection keeps the connection of a request until it was answered: for requests
// whose number has a bound of its own.
func keepConnection(r *http.Request) { setReplaceable(r, time.Time{}) }

func setReplaceable(r *http.Request, since time.Time) {
	c, ok := r.Context().Value(connectionKey{}).(*counted)
	if !ok {
		return // another server than that of Serve
	}
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	c.replaceable = since
}
