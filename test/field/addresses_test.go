// SPDX-License-Identifier: Apache-2.0

package field

import (
	"net/netip"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// listStores returns the store of each member.
func (h *hosts) listStores() (ids [3]member.StoreID) {
	for i, n := range h.nodes {
		ids[i] = n.Self().StoreID
	}
	return ids
}

// staleNames is how long names lead to the former hosts of members.
const staleNames = time.Minute

// moveHosts kills members and starts them on other hosts. Their names lead to the new hosts after a
// minute. Then all must soon be the same members as before.
func (h *hosts) moveHosts(to map[int]string) {
	h.Helper()
	before, names := h.listStores(), h.at
	for i := range to {
		h.stop(i)
	}
	for i, host := range to {
		names[i] = host
		h.start(i, host)
	}
	h.advance(staleNames)
	h.names.Store(&names)
	h.awaitWithin(10*time.Second, "cluster of the moved members", h.isSettled)
	if got := h.listStores(); got != before {
		h.Errorf("%v: the stores of the members are %v, want %v", to, got, before)
	}
}

// TestPodsReturnWithNewAddresses lets one member after the other, and then all at the same time,
// return on new hosts, as the pods of a StatefulSet do.
// https://github.com/ArcadeData/arcadedb/issues/4696
// https://github.com/hashicorp/consul/issues/10678
// https://github.com/hashicorp/consul-k8s/issues/561
func TestPodsReturnWithNewAddresses(t *testing.T) {
	onHosts(t, func(h *hosts) {
		h.form()
		for i := range h.nodes {
			h.moveHosts(map[int]string{i: hostOf(i, 1)})
		}
		h.moveHosts(map[int]string{0: hostOf(0, 2), 1: hostOf(1, 2), 2: hostOf(2, 2)})
	})
}

// TestMembersExchangeAddresses lets members return on the hosts of each other.
// https://github.com/hashicorp/consul/issues/1580
// https://github.com/hashicorp/consul/issues/10653
// https://github.com/hashicorp/raft/issues/532
// https://github.com/rqlite/rqlite/issues/1293
func TestMembersExchangeAddresses(t *testing.T) {
	onHosts(t, func(h *hosts) {
		h.form()
		for i := range h.nodes {
			j := (i + 1) % len(h.nodes)
			h.moveHosts(map[int]string{i: h.at[j], j: h.at[i]})
		}
		h.moveHosts(map[int]string{0: h.at[1], 1: h.at[2], 2: h.at[0]})
	})
}

// TestHostsAdvertiseLoopback lets one, two or all hosts advertise 127.0.0.1, which leads each host
// to itself. Such a node gets no place and does not disturb the members, and none leads without two
// members. TestConfigCheckWarnsOfAddresses checks the warning.
// https://github.com/hazelcast/hazelcast/issues/20794
func TestHostsAdvertiseLoopback(t *testing.T) {
	loopback := netip.MustParseAddrPort("127.0.0.1:7000")
	for first := range 3 { // of the hosts that advertise it
		onHosts(t, func(h *hosts) {
			own := func(i int) netip.AddrPort {
				return netip.AddrPortFrom(netip.MustParseAddr(hostOf(i, 0)), loopback.Port())
			}
			h.sent = func(i int, to netip.AddrPort) netip.AddrPort {
				if to.Addr() == loopback.Addr() {
					return own(i)
				}
				return to
			}
			h.seen = func(i int, from netip.AddrPort) netip.AddrPort {
				if from == own(i) {
					return loopback
				}
				return from
			}
			h.change = func(i int, c *cluster.Config) {
				if i >= first {
					c.Advertise = loopback.String()
				}
			}
			h.names.Store(&[3]string{hostOf(0, 0), hostOf(1, 0), hostOf(2, 0)})
			for i := range h.nodes {
				h.start(i, hostOf(i, 0))
			}
			if first == 2 {
				h.awaitWithin(10*time.Second, "leader", func() bool { return h.leader() >= 0 })
			}
			leads := h.leader()
			for range 100 {
				h.advance(100 * time.Millisecond)
				if now := h.leader(); now != leads {
					h.Fatalf("from %d on: member %d leads, want %d", first, now, leads)
				}
			}
			for i, n := range h.nodes {
				v := n.View()
				if i < first && len(v.Members) != first || i >= first && !v.Leader.IsZero() {
					h.Errorf("from %d on: host %d has a place: %v", first, i, v)
				}
				if why := n.Status().NoLeader; (why == "") != (i < first && first == 2) {
					h.Errorf("from %d on: no leader for host %d: %q", first, i, why)
				}
			}
		})
	}
}
