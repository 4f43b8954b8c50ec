// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

const (
	// joiners is the average number of members of a part that try to reach others in each interval.
	// One success is enough, because the two nodes exchange the state of all members.
	joiners = 3
	// maxLost is the maximum number of lost members. The oldest ones are forgotten first.
	maxLost = 4096
	// forget is how long the node looks for a lost member.
	forget = 24 * time.Hour
)

// lost is the address of a lost member and the time when it was lost.
type lost struct {
	addr  netip.AddrPort
	since time.Time
}

// addLost stores the address of a lost member. n.mu must be held.
func (n *Node) addLost(now time.Time, name string, addr netip.AddrPort) {
	n.lost[name] = lost{addr, now}
	oldest := name
	for other, l := range n.lost {
		if now.Sub(l.since) > forget {
			delete(n.lost, other)
		} else if l.since.Before(n.lost[oldest].since) {
			oldest = other
		}
	}
	if len(n.lost) > maxLost {
		delete(n.lost, oldest)
	}
}

// rejoinLost looks for lost members until ctx ends.
func (n *Node) rejoinLost(ctx context.Context, interval time.Duration) {
	defer n.running.Done()
	for {
		t := time.NewTimer(interval/2 + rand.N(interval))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		if rand.IntN(len(n.Members())+1) < joiners {
			if addr := n.findMissing(ctx); addr.IsValid() {
				n.joinNode(ctx, addr)
			}
		}
	}
}

// joinSeed tries the seeds in turn, each with a timeout, until there is another member. An answer
// from a seed is not enough, because the seed may be this node under another address.
func (n *Node) joinSeed(ctx context.Context, each time.Duration) {
	here := n.memberAddresses()
	for _, a := range n.resolveSeeds(ctx) {
		if !here[a] {
			bound, stop := context.WithTimeout(ctx, each)
			n.joinNode(bound, a)
			stop()
		}
		if ctx.Err() != nil || len(n.Members()) > 1 {
			return
		}
	}
}

// joinNode exchanges the state of all members with the node at addr. It returns when this is done
// or ctx ends. The dial cannot be canceled, so it may continue for memberlist's TCPTimeout.
func (n *Node) joinNode(ctx context.Context, addr netip.AddrPort) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if _, err := n.list.Join([]string{addr.String()}); err != nil {
			n.log.Debug("could not join", "address", addr, "error", err)
		}
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// findMissing returns an address at which there may be a missing member, or the zero address. It
// chooses lost members or seeds at random.
func (n *Node) findMissing(ctx context.Context) netip.AddrPort {
	here := n.memberAddresses()
	var gone []netip.AddrPort
	n.mu.Lock()
	for _, l := range n.lost {
		if !here[l.addr] {
			gone = append(gone, l.addr)
		}
	}
	n.mu.Unlock()
	if len(gone) == 0 || rand.IntN(2) == 0 {
		var seeds []netip.AddrPort
		for _, a := range n.resolveSeeds(ctx) {
			if !here[a] {
				seeds = append(seeds, a)
			}
		}
		if len(seeds) > 0 {
			gone = seeds
		}
	}
	if len(gone) == 0 {
		return netip.AddrPort{}
	}
	return gone[rand.IntN(len(gone))]
}

// resolveSeeds returns the addresses of those seeds whose names can be resolved now.
func (n *Node) resolveSeeds(ctx context.Context) (all []netip.AddrPort) {
	for _, s := range n.seedNames {
		host, service, err := net.SplitHostPort(s)
		if err != nil {
			continue // impossible: the Config was valid
		}
		port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
		if err != nil {
			n.log.Warn("cannot resolve the port of a seed", "seed", s, "error", err)
			continue
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			n.log.Warn("cannot resolve the host of a seed", "seed", s, "error", err)
			continue
		}
		for _, ip := range ips {
			all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	return all
}

// memberAddresses returns the addresses of the members.
func (n *Node) memberAddresses() map[netip.AddrPort]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	here := make(map[netip.AddrPort]bool, len(n.members))
	for _, m := range n.members {
		here[addrOf(m.Addr, m.Port)] = true
	}
	return here
}

func addrOf(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}
