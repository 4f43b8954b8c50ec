// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/transport"
)

// rounds is the number of times that two nodes dial each other.
const rounds = 24

func testCrossing(t *testing.T, w World) {
	var duplicates uint64
	for round := range rounds {
		a, b := join(t, w, addr(1)), join(t, w, addr(2))
		meet(w, a, b, round)
		duplicates += settle(t, a, b, 1)
		closeAll(t, a, b)
	}
	mustCross(t, w, duplicates)
}

// mustCross fails the test unless connections crossed.
func mustCross(t *testing.T, w World, duplicates uint64) {
	t.Helper()
	if duplicates == 0 && w.Delay() > 0 {
		t.Errorf("no connections crossed in %d rounds, so the test proves nothing", rounds)
	}
}

// meet makes two nodes dial each other at about the same time. They dial simultaneously in even
// rounds, and shortly after each other in odd rounds.
func meet(w World, a, b *node, round int) {
	first, second := a, b
	if round%4 >= 2 {
		first, second = b, a
	}
	if round%2 == 0 {
		w.Cut(a.address(), b.address())
		defer w.Heal(a.address(), b.address())
	}
	first.Notify(second.address(), []byte("0"))
	if round%2 == 1 {
		time.Sleep(time.Duration(round/4) * time.Millisecond)
	}
	second.Notify(first.address(), []byte("0"))
	if round%2 == 0 {
		time.Sleep(50 * time.Millisecond)
	}
}

// settle waits until each of two nodes has received the given number of system frames. It checks
// that only one connection is left, and the correct one if two connections crossed. It returns the
// number of crossed connections.
func settle(t *testing.T, a, b *node, count int) (duplicates uint64) {
	t.Helper()
	eventually(t, 5*time.Second, "a has received its frames", a.hasReceived(transport.System, count))
	eventually(t, 5*time.Second, "b has received its frames", b.hasReceived(transport.System, count))
	eventually(t, 5*time.Second, "only one connection is left", func() bool {
		return a.peer(b.address()).Connected && b.peer(a.address()).Connected &&
			a.peer(b.address()).Dialed != b.peer(a.address()).Dialed
	})
	duplicates = a.Stats().Duplicates + b.Stats().Duplicates
	if duplicates > 0 && !a.peer(b.address()).Dialed {
		t.Error("kept the connection that the node with the greater address dialed, " +
			"want the one dialed by the other node")
	}
	for _, n := range []*node{a, b} {
		if got := n.Stats().Connections; got != 1 {
			t.Errorf("%v: %d connections, want 1", n.address(), got)
		}
		if errs := n.reported(mesh.ReportLost); len(errs) != 0 {
			t.Errorf("%v: crossed connections were reported as lost: %v", n.address(), errs)
		}
		if peers := n.lostPeers(); len(peers) != 0 {
			t.Errorf("%v: got Lost for %v, want no call", n.address(), peers)
		}
	}
	return duplicates
}

func closeAll(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			t.Errorf("%v: Close: %v", n.address(), err)
		}
	}
}

func testCrossingUnderLoad(t *testing.T, w World) {
	const frames = 100
	var want []string
	for i := range frames {
		want = append(want, fmt.Sprint(i))
	}
	var duplicates uint64
	for round := range rounds {
		a, b := join(t, w, addr(1)), join(t, w, addr(2))
		meet(w, a, b, round)
		done := make(chan error)
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			go func() { done <- talk(pair[0], pair[1], frames) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatalf("round %d: Send: %v", round, err)
			}
		}
		duplicates += settle(t, a, b, frames)
		for _, n := range []*node{a, b} {
			for k := transport.System + 1; k < transport.Kinds; k++ {
				eventually(t, time.Second, "all frames have arrived", n.hasReceived(k, frames))
			}
			for k := range transport.Kinds {
				if got := n.received(k); !slices.Equal(got, want) {
					t.Fatalf("round %d: node %v: %v frames\n got %q\nwant 0 to %d in order",
						round, n.address(), k, got, frames-1)
				}
			}
		}
		closeAll(t, a, b)
	}
	mustCross(t, w, duplicates)
}

// talk sends numbered frames of all kinds; meet has already sent the first system frame.
func talk(from, to *node, frames int) error {
	for i := range frames {
		frame := []byte(fmt.Sprint(i))
		if i > 0 {
			from.Notify(to.address(), frame)
		}
		if err := from.sendEach(to.address(), frame); err != nil {
			return err
		}
		if i%3 == 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return nil
}

func testFormation(t *testing.T, w World) {
	const size = 5
	var nodes []*node
	for i := range size {
		time.Sleep(2 * time.Millisecond)
		n := join(t, w, addr(i+1))
		for j := range size {
			if j != i {
				n.Notify(addr(j+1), []byte("hello"))
			}
		}
		nodes = append(nodes, n)
	}
	start := time.Now()
	for i, n := range nodes {
		for j := range size {
			if j != i {
				eventually(t, time.Second, "every pair is connected", n.hasPeer(addr(j+1)))
			}
		}
	}
	if took := time.Since(start); took > 20*time.Millisecond {
		t.Errorf("%d nodes needed %v to connect after the last node started, want at most 20 ms",
			size, took)
	}
	for _, n := range nodes {
		eventually(t, time.Second, "each pair has one connection", func() bool {
			return n.Stats().Connections == size-1
		})
	}
}
