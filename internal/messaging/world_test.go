// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// node is a Messenger with a view in which all members of the world are active, and node 0 leads.
type node struct {
	*Messenger
	addr    member.Address
	cluster member.ClusterID
	led     chan struct{} // never closed: the leadership never ends in these tests
	quit    chan struct{}
	cause   error

	mu      sync.Mutex
	members member.Roster
	dropped map[string]int
}

func (n *node) Member(addr member.Address) *member.Member {
	members := n.Members()
	for i := range members {
		if members[i].Address == addr {
			return &members[i]
		}
	}
	return nil
}

func (n *node) Members() member.Roster {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members
}

// setMembers changes the view of the node.
func (n *node) setMembers(members member.Roster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members = members
}

func (n *node) Leader() Leader {
	return Leader{Address: address(0), Authority: n.addr == address(0)}
}

func (n *node) Follow() (Report, <-chan struct{}) {
	return Report{
		ClusterID: n.cluster, Leader: address(0), Authority: true, Members: n.Members(),
	}, n.led
}

func (n *node) FindRecord(key string) (member.Record, bool) {
	return member.Record{Key: key, Value: []byte("value")}, key == "here"
}

func (n *node) WaitLeader(context.Context) (Leadership, error) {
	return Leadership{Leader: address(0), Done: n.led, Changed: n.led, Lost: errBoom}, nil
}

func (n *node) Greet() message.Message {
	return message.Message{From: n.Member(n.addr).Identity, Body: message.Greet{
		Cluster: "test", Size: 3, MinProtocol: 1, MaxProtocol: 1,
		Timings: message.Timings{
			HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: 400 * time.Millisecond,
			LeaderTimeout: time.Second, LeaseTimeout: time.Second,
			TTLTimeout: 10 * time.Second, RetryInterval: 500 * time.Millisecond,
		},
	}}
}

func (n *node) Greeted(message.Message)            {}
func (n *node) Ask(member.Address, member.StoreID) {}

func (n *node) StoreOf(a member.Address) member.StoreID { return keyOf(a).StoreID() }

// keyOf returns the key of the store of a node.
func keyOf(a member.Address) storekey.Key { return storekey.Key{byte(a.Port), byte(a.Port >> 8)} }

func (n *node) Needs(peer member.Address) bool { return n.Member(peer) != nil }

func (n *node) System(member.Identity, []byte) error { return nil }

func (n *node) drops(reason string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dropped[reason]
}

func (n *node) close(t *testing.T) {
	t.Helper()
	n.cause = ErrClosed
	close(n.quit)
	if err := n.Close(t.Context()); err != nil {
		t.Errorf("%v: Close: got %v, want nil", n.addr, err)
	}
	if got := len(n.pending.calls) + len(n.pending.room); got != 0 {
		t.Errorf("%v: %d calls are pending after Close, want none", n.addr, got)
	}
}

func address(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7001 + i)}
}

// inWorld runs a test in a bubble, with three nodes on one network. register adds the
// handlers of node i.
func inWorld(
	t *testing.T, register func(i int, mux *receiver.Mux), test func(*testing.T, []*node),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		var roster member.Roster
		for i := range 3 {
			roster = append(roster, member.Member{
				Identity: member.Identity{
					Address: address(i), StoreID: keyOf(address(i)).StoreID(), Incarnation: 1,
				},
				Status: member.Active,
			})
		}
		var nodes []*node
		for i := range roster {
			mux := receiver.NewMux()
			register(i, mux)
			nodes = append(nodes, start(t, net, i, roster, mux))
		}
		test(t, nodes)
		for _, n := range nodes {
			n.close(t)
		}
	})
}

func start(
	t *testing.T, net *memnet.Network, i int, roster member.Roster, mux *receiver.Mux,
) *node {
	t.Helper()
	n := &node{
		addr: address(i), cluster: member.ClusterID{1}, members: roster,
		led: make(chan struct{}), quit: make(chan struct{}), dropped: map[string]int{},
	}
	m, err := mesh.New(mesh.Config{
		Encode: wire.Encode, Decode: wire.Decode, Size: len(roster), CustomBytes: MaxEventBytes,
		Key:    func(member.StoreID) storekey.Key { return keyOf(n.addr) },
		Report: func(mesh.Report) {},
	}, func(transport.Config) (transport.Network, error) { return net.Listen(n.addr) })
	if err != nil {
		t.Fatal(err)
	}
	if err := mux.Start(receiver.Setup{
		Scan: wire.Scan, Report: func(receiver.Failure) {},
	}); err != nil {
		t.Fatal(err)
	}
	n.Messenger = New(Config{
		Node: n, Self: n.addr, Mux: mux, Net: m,
		HeartbeatInterval: 100 * time.Millisecond,
		Quit:              n.quit, Cause: func() error { return n.cause },
		Dropped: func(d Drop) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.dropped[d.Reason]++
		},
	})
	if err := m.Start(n); err != nil {
		t.Fatal(err)
	}
	return n
}
