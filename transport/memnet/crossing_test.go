// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// TestOrdersOfCrossing makes two nodes dial each other simultaneously, and releases the four
// directions of the two connections in every order. Each direction is released twice: first for the
// bytes in flight, and later permanently. Both nodes send continuously. The test checks that no
// frame is lost, duplicated or out of order, and that the connection dialed by the smaller address
// is kept. The test runs every twelfth of the 2,520 orders.
func TestOrdersOfCrossing(t *testing.T) {
	const stride = 12
	count := 0
	permute([]int{2, 2, 2, 2}, func(order []int) {
		if count++; count%stride == 0 {
			t.Run(fmt.Sprint(order), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crossInOrder(t, order) })
			})
		}
	})
	if count != 2520 {
		t.Errorf("%d orders, want 2520", count)
	}
}

// permute calls the function do for each sequence in which value i occurs left[i] times.
func permute(left []int, do func([]int), chosen ...int) {
	done := true
	for i := range left {
		if left[i] == 0 {
			continue
		}
		done = false
		left[i]--
		permute(left, do, append(slices.Clone(chosen), i)...)
		left[i]++
	}
	if done {
		do(chosen)
	}
}

// cross returns two nodes that have dialed each other and have not received anything yet.
func cross(t *testing.T) (network *Network, a, b *node) {
	network = New()
	a, b = meet(t, network, "a"), meet(t, network, "b")
	a.talk(t, b)
	b.talk(t, a)
	time.Sleep(50 * time.Millisecond) // wait until both nodes have dialed
	synctest.Wait()
	return network, a, b
}

func crossInOrder(t *testing.T, order []int) {
	network, a, b := cross(t)
	directions := []*conn{a.dialed, a.dialed.other, b.dialed, b.dialed.other}
	var seen [4]bool
	for _, i := range order {
		directions[i].hold(false)
		synctest.Wait()
		directions[i].hold(!seen[i])
		seen[i] = true
		a.talk(t, b)
		b.talk(t, a)
	}
	for _, n := range []*node{a, b} {
		if got := n.Stats().Connections; got != 1 {
			t.Errorf("%s: %d connections are left, want 1", n.at, got)
		}
		if p := n.Peers()[0]; p.Dialed != (n == a) {
			t.Errorf("%s: the connection of the greater address is left", n.at)
		}
	}
	for _, pair := range [][2]*node{{a, b}, {b, a}} {
		from, to := pair[0], pair[1]
		for k := range transport.Kinds {
			if got, want := to.received(k), from.sent[k]; !slices.Equal(got, want) {
				t.Errorf("%v frames from %s: got %v, want %v", k, from.at, got, want)
			}
		}
	}
	if a.Stats().Duplicates+b.Stats().Duplicates == 0 {
		t.Error("neither node knows that the connections crossed")
	}
	network.mu.Lock()
	defer network.mu.Unlock()
	if got := len(network.conns); got != 2 {
		t.Errorf("%d ends of connections are left, want 2", got)
	}
}

// TestDeadConnectionHoldsUpForAWhile never answers the greeting of the node with the greater
// address. Earlier frames to that node might still arrive on the connection of that greeting. So
// the node holds up the frames on the kept connection, but only for a limited time.
func TestDeadConnectionHoldsUpForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := cross(t)
		a.dialed.hold(false)
		a.dialed.other.hold(false)
		time.Sleep(900 * time.Millisecond)
		if got := b.received(transport.System); len(got) != 0 {
			t.Errorf("b did not wait for frames on its own connection: got %v", got)
		}
		time.Sleep(200 * time.Millisecond)
		if got := b.received(transport.System); len(got) != 1 {
			t.Errorf("b still waits: got %v, want one frame", got)
		}
		if got := a.received(transport.System); len(got) != 1 {
			t.Errorf("a got %v, want one frame", got)
		}
	})
}

// node is a Mesh. The first connection that it dials is held back in both directions.
type node struct {
	*mesh.Mesh
	*endpoint
	at     member.Address
	dialed *conn

	sent [transport.Kinds][]string
	mu   sync.Mutex
	got  [transport.Kinds][]string
	work sync.WaitGroup
}

// testKey is the key of the store of every node.
var testKey = storekey.Key{1}

func keyOf(member.StoreID) storekey.Key { return testKey }

func meet(t *testing.T, network *Network, host string) *node {
	return meetOn(t, network, host, func(e *endpoint, n *node) transport.Network { return held{e, n} })
}

func meetOn(
	t *testing.T, network *Network, host string, on func(*endpoint, *node) transport.Network,
) *node {
	n := &node{at: member.Address{Host: host, Port: 1}}
	var err error
	if n.endpoint, err = network.listen(n.at); err != nil {
		t.Fatalf("listen: %v", err)
	}
	cfg := mesh.Config{Encode: encode, Decode: decode, Key: keyOf, Size: 2}
	n.Mesh, err = mesh.New(cfg, func(transport.Config) (transport.Network, error) {
		return on(n.endpoint, n), nil
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := n.Start(n); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Mesh.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		n.work.Wait()
	})
	return n
}

// held is the network of a node. It holds back the first connection that the node dials.
type held struct {
	*endpoint
	node *node
}

func (h held) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	c, err := h.net.dial(ctx, h.endpoint, to)
	if err != nil {
		return nil, err
	}
	if h.node.dialed == nil {
		h.node.dialed = c
		c.hold(true)
		c.other.hold(true)
	}
	return c, nil
}

func (n *node) talk(t *testing.T, to *node) {
	frame := fmt.Sprint(len(n.sent[transport.System]))
	n.sent[transport.System] = append(n.sent[transport.System], frame)
	n.Notify(to.at, []byte(frame))
	n.sent[transport.Custom] = append(n.sent[transport.Custom], frame)
	n.work.Go(func() {
		if err := n.Send(t.Context(), to.at, []byte(frame)); err != nil {
			t.Errorf("Send: %v", err)
		}
	})
	synctest.Wait()
}

func (n *node) Greet() message.Message {
	return message.Message{
		From: member.Identity{Address: n.at, StoreID: testKey.StoreID(), Incarnation: 1},
		Body: message.Greet{Size: 2},
	}
}

func (n *node) Greeted(message.Message)            {}
func (n *node) Needs(member.Address) bool          { return true }
func (n *node) Ask(member.Address, member.StoreID) {}

func (n *node) StoreOf(member.Address) member.StoreID { return testKey.StoreID() }

func (n *node) System(_ member.Identity, frame []byte) error {
	n.take(transport.System, frame)
	return nil
}

func (n *node) Custom(k transport.Kind, _ member.Identity, frame []byte) error {
	n.take(k, frame)
	return nil
}

func (n *node) Stream(member.Identity, []byte, mesh.BulkStream) {}
func (n *node) Datagram(member.Identity, []byte)                {}

func (n *node) Lost(member.Identity) {}

func (n *node) take(k transport.Kind, frame []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got[k] = append(n.got[k], string(frame))
}

func (n *node) received(k transport.Kind) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got[k])
}

// greet encodes a greeting for these tests.
type greet struct {
	From member.Identity
	To   member.Address
	Body message.Greet
}

func encode(m message.Message) ([]byte, error) {
	return json.Marshal(greet{m.From, m.To, m.Body.(message.Greet)})
}

func decode(b []byte) (message.Message, error) {
	var g greet
	err := json.Unmarshal(b, &g)
	return message.Message{From: g.From, To: g.To, Body: g.Body}, err
}
