// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/transport"
)

// TestPathShrinks reduces the MTU of a link while events are sent. If the MTU is reduced at both
// ends, the kernel of the sender refuses large packets. If it is reduced only at the far end, large
// packets disappear.
func TestPathShrinks(t *testing.T) {
	t.Run("both ends", func(t *testing.T) { testPathShrinks(t, 0, 1) })
	t.Run("far end", func(t *testing.T) { testPathShrinks(t, 1) })
}

func testPathShrinks(t *testing.T, ends ...int) {
	const interval, longest = 20 * time.Millisecond, 500 * time.Millisecond
	l := simnet.NewLink(t)
	var nodes [2]*node
	for i := range nodes {
		socket, err := l.Listen(i, l.Host(i)+":0")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		nodes[i] = start(t, socket, secured(t), 1)
	}
	a, b := nodes[0], nodes[1]
	repeat(t, func() { _ = a.Send(t.Context(), b.self.Address, make([]byte, 8<<10)) })
	repeat(t, func() {
		a.Notify(b.self.Address, []byte("heartbeat"))
		<-time.After(interval)
	})
	a.awaitSize(t, b, 1400, 1452)
	for _, i := range ends {
		l.SetMTU(t, i, 1280)
	}
	gap := make(chan time.Duration, 1)
	go func() { gap <- b.longestGap(2 * time.Second) }()
	if got := next(t, gap, "heartbeats"); got > longest {
		t.Errorf("heartbeats were missing for %v, want at most %v", got, longest)
	} else {
		t.Logf("heartbeats were missing for at most %v", got)
	}
	a.awaitSize(t, b, 1200, 1256) // the kernel accepts 4 more bytes, for a VLAN tag
	t.Log(a.nextReport(t, mesh.ReportLost))
}

// repeat calls f until the test ends.
func repeat(t *testing.T, f func()) {
	go func() {
		for t.Context().Err() == nil {
			f()
		}
	}()
}

// awaitSize waits until the packets of n have a size, while events arrive at another node.
func (n *node) awaitSize(t *testing.T, to *node, least, most int) {
	t.Helper()
	for begin := time.Now(); n.packetSize() < least || n.packetSize() > most; {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("packets have %d bytes, want %d to %d", n.packetSize(), least, most)
		}
		next(t, to.frames[transport.Custom], "event")
	}
}

// longestGap returns the longest time between two system frames within a period, and discards
// events.
func (n *node) longestGap(period time.Duration) (longest time.Duration) {
	begin := time.Now()
	last := begin
	for last.Sub(begin) < period {
		select {
		case <-n.frames[transport.Custom]:
		case <-n.frames[transport.System]:
			now := time.Now()
			longest, last = max(longest, now.Sub(last)), now
		}
	}
	return longest
}
