// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// TestDiagramHandshake plays docs/plantuml/HANDSHAKE_CONFLICT.puml: protocol.md section 8. Two
// nodes dial each other simultaneously; the test decides the order in which their greetings
// arrive.
func TestDiagramHandshake(t *testing.T) {
	t.Parallel()
	const member1, member2 = 0, 1
	checkScenes(t, "HANDSHAKE_CONFLICT.puml", []scene{
		greets("that of member2 arrives first, then that of member1",
			greet{member1, true}, greet{member2, true}, greet{member2, false}, greet{member1, false}),
		greets("that of member2 arrives first, then the answer to it",
			greet{member1, true}, greet{member2, false}, greet{member2, true}, greet{member1, false}),
		greets("that of member1 arrives first, then the answer to it",
			greet{member2, true}, greet{member1, false}, greet{member1, true}),
	})
}

// A greeting is identified by its receiver and by whether it is active.
type greet struct {
	to     int
	active bool
}

// arrow returns the greeting as the diagram draws it, in the colour of its connection: red if
// member1 dialed the connection, green if member2 did.
func (g greet) arrow() string {
	from := 1 - g.to
	if g.active {
		return fmt.Sprintf("member%d -[#%s]> member%d: Greet(active)", from+1, colours[from], g.to+1)
	}
	return fmt.Sprintf("member%d -[#%s]-> member%d: Greet(passive)", from+1, colours[g.to], g.to+1)
}

var colours = [2]string{"red", "green"}

// greets returns a scene in which exactly these greetings arrive, in this order.
func greets(part string, order ...greet) scene {
	return scene{part, []string{"member1", "member2"}, func(t *testing.T) (arrows []string) {
		synctest.Test(t, func(t *testing.T) { arrows = shake(t, order) })
		return arrows
	}}
}

// shake makes two nodes dial each other and delivers the greetings in order. It returns an arrow
// for each arrival and each change of the connection that a node uses.
func shake(t *testing.T, order []greet) (arrows []string) {
	h, err := newHandshake()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	var used [2]string
	for _, g := range order {
		if !h.open(g) {
			t.Errorf("%s: no such greet arrived", g.arrow())
		}
		arrows = append(arrows, g.arrow())
		for i := range h.nodes {
			now := h.uses(i)
			if now == used[i] {
				continue
			}
			what := "uses " + now
			if now == "" {
				what = "leaves " + used[i]
			}
			used[i] = now
			arrows = append(arrows, fmt.Sprintf("member%d -> member%d: %s", i+1, i+1, what))
		}
	}
	for _, g := range h.waiting() {
		t.Errorf("%s: it arrived, but no arrow shows it", g.arrow())
	}
	return arrows
}

// A handshake is a pair of nodes in a bubble that have dialed each other. Each greeting waits until
// open delivers it.
type handshake struct {
	*door
	nodes [2]*mesh.Mesh
}

func newHandshake() (h *handshake, err error) {
	h = &handshake{door: newDoor()}
	network := memnet.New()
	for i := range h.nodes {
		h.nodes[i], err = mesh.New(mesh.Config{
			Encode: wire.Encode, Decode: h.decode(i), Size: len(h.nodes),
			Key: func(member.StoreID) storekey.Key { return shaker(i).key() },
		}, func(transport.Config) (transport.Network, error) {
			return network.Listen(shaker(i).address())
		})
		if err == nil {
			err = h.nodes[i].Start(shaker(i))
		}
		if err != nil {
			return nil, err
		}
	}
	for i, n := range h.nodes {
		n.Notify(shaker(1-i).address(), []byte("hello"))
	}
	time.Sleep(50 * time.Millisecond) // the greater address waits for the other node to dial
	return h, nil
}

// open delivers a greeting, and reports whether it was waiting.
func (h *handshake) open(g greet) bool {
	synctest.Wait()
	defer synctest.Wait()
	return h.door.open(g)
}

func (h *handshake) close() error {
	h.openAll()
	return errors.Join(h.nodes[0].Close(), h.nodes[1].Close())
}

// uses returns the colour of the connection that a node uses, or "".
func (h *handshake) uses(i int) string {
	for _, p := range h.nodes[i].Peers() {
		switch {
		case p.Connected && p.Dialed:
			return colours[i]
		case p.Connected:
			return colours[1-i]
		}
	}
	return ""
}

// shaker is the handler of a node that only greets.
type shaker int

func (s shaker) address() member.Address {
	return member.Address{Host: "member", Port: uint16(s) + 1}
}

func (s shaker) key() storekey.Key { return storekey.Key{byte(s) + 1} }

func (s shaker) Greet() message.Message {
	return message.Message{
		From: member.Identity{Address: s.address(), StoreID: s.key().StoreID(), Incarnation: 1},
		Body: message.Greet{
			Name: "member", Cluster: "athena", Size: 2, Timings: lan(), MinProtocol: 1, MaxProtocol: 1,
		},
	}
}

func (shaker) StoreOf(a member.Address) member.StoreID { return shaker(a.Port - 1).key().StoreID() }

func (shaker) Greeted(message.Message)                              {}
func (shaker) Needs(member.Address) bool                            { return true }
func (shaker) Ask(member.Address, member.StoreID)                   {}
func (shaker) System(member.Identity, []byte) error                 { return nil }
func (shaker) Custom(transport.Kind, member.Identity, []byte) error { return nil }
func (shaker) Lost(member.Identity)                                 {}

func (shaker) Stream(member.Identity, []byte, mesh.BulkStream) {}
func (shaker) Datagram(member.Identity, []byte)                {}

// A door holds back each greeting until the door is opened for it.
type door struct {
	mu    sync.Mutex
	come  map[greet]bool
	gates map[greet]*gate
}

type gate struct {
	once sync.Once
	ch   chan struct{}
}

func (g *gate) open() { g.once.Do(func() { close(g.ch) }) }

func newDoor() *door {
	d := &door{come: make(map[greet]bool), gates: make(map[greet]*gate)}
	for to := range 2 {
		for _, active := range []bool{true, false} {
			d.gates[greet{to, active}] = &gate{ch: make(chan struct{})}
		}
	}
	return d
}

// decode returns the decoder of node i. It blocks on a greeting until the door is opened for that
// greeting.
func (d *door) decode(i int) func([]byte) (message.Message, error) {
	return func(b []byte) (message.Message, error) {
		m, err := wire.Decode(b)
		if body, ok := m.Body.(message.Greet); ok {
			g := greet{i, body.Active}
			d.mu.Lock()
			d.come[g] = true
			d.mu.Unlock()
			<-d.gates[g].ch
		}
		return m, err
	}
}

// open delivers a greeting, and reports whether it was waiting.
func (d *door) open(g greet) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	come := d.come[g]
	d.come[g] = false
	d.gates[g].open()
	return come
}

// waiting lists the greetings that have arrived but were not delivered.
func (d *door) waiting() []greet {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []greet
	for g, come := range d.come {
		if come {
			out = append(out, g)
		}
	}
	return out
}

func (d *door) openAll() {
	for _, g := range d.gates {
		g.open()
	}
}
