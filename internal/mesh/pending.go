// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// pendingGreets holds the connections that peers have dialed and that are not greeted yet. If there
// are more than limit, the oldest one of the host that has the most makes room. If the new one was
// refused instead, a host whose connections never greet would keep all others out.
type pendingGreets struct {
	limit int

	mu   sync.Mutex
	list []*pendingGreet // the oldest first
}

type pendingGreet struct {
	conn transport.Conn
	host string
}

// add adds a connection. If there are too many, it removes and returns one of them.
func (g *pendingGreets) add(conn transport.Conn) (added, evicted *pendingGreet) {
	added = &pendingGreet{conn, hostOf(conn.Remote())}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, added)
	if len(g.list) <= g.limit {
		return added, nil
	}
	counts := make(map[string]int)
	for _, p := range g.list {
		counts[p.host]++
	}
	for _, p := range g.list {
		if evicted == nil || counts[p.host] > counts[evicted.host] {
			evicted = p
		}
	}
	g.removeLocked(evicted)
	return added, evicted
}

// removeGreet removes a connection. Later calls do nothing.
func (g *pendingGreets) removeGreet(p *pendingGreet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeLocked(p)
}

// removeLocked is remove with g.mu held.
func (g *pendingGreets) removeLocked(p *pendingGreet) {
	if i := slices.Index(g.list, p); i >= 0 {
		g.list = slices.Delete(g.list, i, i+1)
	}
}

// hostOf returns the host of an address. A host can use every address of its IPv6 /64.
func hostOf(a member.Address) string {
	ip, err := netip.ParseAddr(a.Host)
	if err != nil || !ip.Is6() {
		return a.Host
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}
