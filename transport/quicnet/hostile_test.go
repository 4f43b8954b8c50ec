// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// stuckNode is a node whose handlers do not return. Its Needs accepts the six members and
// seeds that a cluster of three can have.
type stuckNode struct {
	*node
	quit chan struct{}
}

const neededHosts = "10.9.1."

func (n *stuckNode) Needs(a member.Address) bool {
	return strings.HasPrefix(a.Host, neededHosts)
}

func (n *stuckNode) Custom(transport.Kind, member.Identity, []byte) error {
	<-n.quit
	return nil
}

func (n *stuckNode) Stream(member.Identity, []byte, mesh.BulkStream) { <-n.quit }

func joinStuck(t *testing.T, w *world, at member.Address) *stuckNode {
	s := &stuckNode{quit: make(chan struct{})}
	startHandler(t, w.config(at), at, 1, func(n *node) mesh.Handler {
		s.node = n
		return s
	})
	// This runs before the node is closed, which waits for handlers.
	t.Cleanup(func() { close(s.quit) })
	return s
}

func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// hostile is a process that knows the secret and sends as much as a node accepts.
type hostile struct {
	t      *testing.T
	victim *node
	hosts  []*network // several networks, because the handshakes per host are bounded
}

func newHostile(t *testing.T, w *world, victim *node) *hostile {
	h := &hostile{t: t, victim: victim}
	for i := range 8 {
		n, err := newNetwork(w.config(member.Address{Host: fmt.Sprintf("10.0.1.%d", i+1), Port: 7000}))
		if err != nil {
			t.Fatalf("newNetwork: %v", err)
		}
		t.Cleanup(func() { _ = n.Close() })
		h.hosts = append(h.hosts, n)
	}
	return h
}

// greet sends a greeting as the member at an address. id numbers the member's connections.
func (h *hostile) greet(c transport.Conn, at member.Address, id uint64) error {
	greet := h.victim.Greet()
	greet.To = h.victim.self.Address
	greet.From = member.Identity{Address: at, StoreID: testKey.StoreID(), Incarnation: 1}
	body := greet.Body.(message.Greet)
	body.Active = true
	body.StoreKey, body.Proof = testKey.Sign(c.Binding(), true)
	greet.Body = body
	b, err := wire.Encode(greet)
	if err != nil {
		h.t.Errorf("Encode: %v", err)
	}
	prefix := binary.BigEndian.AppendUint64(nil, id)
	prefix = binary.BigEndian.AppendUint64(prefix, 0)
	// A frame follows the greeting, because a connection without one is closed.
	b = append(lengthed(append(prefix, b...)), lengthed([]byte("x"))...)
	if _, err := c.Stream(transport.System).Write(b); err != nil {
		return err
	}
	_, err = c.Stream(transport.System).Read(make([]byte, 4096))
	return err
}

func lengthed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// These are the bytes that a hostile process writes: a frame without its last byte, two frames, and
// a bulk stream.
var (
	partOfFrame = lengthed(make([]byte, 1<<20))[:4+1<<20-1]
	twoFrames   = append(lengthed(make([]byte, 1<<20)), lengthed(make([]byte, 1<<20))...)
	bulkBytes   = append([]byte{0, 0, 0, 0}, make([]byte, 1<<20)...)
)

// fill opens connections, each as one of several members whose hosts start with prefix, and
// greets unless id is 0. It writes on all streams until the node accepts no more.
func (h *hostile) fill(prefix string, members int, id uint64) {
	var dialed sync.WaitGroup
	for i := range members {
		dialed.Go(func() {
			c, err := h.hosts[i%len(h.hosts)].Dial(h.t.Context(), h.victim.self.Address)
			if err != nil {
				h.t.Errorf("Dial: %v", err)
				return
			}
			if id > 0 {
				at := member.Address{Host: fmt.Sprint(prefix, i+1), Port: 7000}
				if err := h.greet(c, at, id); err != nil {
					h.t.Errorf("%v, connection %d: greet: %v", at, id, err)
				}
			}
			for k, b := range [transport.Kinds][]byte{partOfFrame, twoFrames, twoFrames} {
				if id > 0 || transport.Kind(k) != transport.System {
					go func() { _, _ = c.Stream(transport.Kind(k)).Write(b) }()
				}
			}
			for range transport.MaxStreams {
				s, err := c.OpenStream()
				if err != nil {
					h.t.Errorf("OpenStream: %v", err)
					return
				}
				go func() { _, _ = s.Write(bulkBytes) }()
			}
		})
	}
	dialed.Wait()
	time.Sleep(300 * time.Millisecond)
}

// TestHostilePeersTakeBoundedMemory lets a process that knows the secret open and fill all
// connections that a node of a cluster of three allows. These are the connections of members, seeds
// and other peers, and connections without a greeting. For each of these peers, there are also two
// connections that the node is leaving. The limit is the figure in docs/security.md. It includes
// the memory of both ends of the connections.
func TestHostilePeersTakeBoundedMemory(t *testing.T) {
	limit := documentedBytes(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		victim := joinStuck(t, w, addrB)
		h := newHostile(t, w, victim.node)
		before := heapBytes()
		took := func(what string) {
			bytes := heapBytes() - before
			t.Logf("%s: %d connections in use, %.1f MiB", what, victim.Stats().Connections,
				float64(bytes)/(1<<20))
			if bytes > limit {
				t.Errorf("%s: peers took %d MiB, want at most %d", what, bytes>>20, limit>>20)
			}
		}
		h.fill("10.9.0.", 38, 1)
		took("strangers")
		h.fill(neededHosts, 6, 1)
		took("and members")
		if got := victim.Stats().Connections; got != maxPeersOf3 {
			t.Errorf("%d connections, want %d", got, maxPeersOf3)
		}
		h.fill("10.9.0.", 38, 3)
		h.fill(neededHosts, 6, 3)
		took("and connections in their place")
		h.fill("", 44, 0)
		took("and greets that do not come")
	})
}

func documentedBytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`all peers together can make a node keep.*\| (\d+) MiB;`)
	found := row.FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/security.md has no figure of what peers can make a node keep")
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 20
}

// maxPeersOf3 is 4 x Size + 32.
const maxPeersOf3 = 44
