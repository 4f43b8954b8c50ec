// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// simulated opens a network on a host of a world.
func (w world) simulated(t *testing.T, at member.Address) *network {
	t.Helper()
	packets, err := w.Open(at.String())
	if err != nil {
		t.Fatal(err)
	}
	h := simnet.NewTCPHost(packets)
	n, err := newNetwork(transport.Config{Size: 3, TLS: secretTLS}, h, h.Dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Host(n).Close() }) // nothing can be done about an error
	return n
}

// inPair runs a test in a bubble with the networks of two hosts.
func inPair(t *testing.T, test func(t *testing.T, a, b *network, to member.Address)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, to := newWorld(), member.Address{Host: "10.0.0.2", Port: 7000}
		a, b := w.simulated(t, member.Address{Host: "10.0.0.1", Port: 7000}), w.simulated(t, to)
		test(t, a, b, to)
	})
}

// TestLateLaneLeavesTheGate connects bulk lanes for a connection that does not exist. Each counts
// as a pending handshake until the dialer closes it or closeTimeout has passed.
func TestLateLaneLeavesTheGate(t *testing.T) {
	inPair(t, func(t *testing.T, a, b *network, to member.Address) {
		for _, closes := range []bool{true, false} {
			c, err := a.handshake(t.Context(), to.String(), connID{9}, bulkLane)
			if err != nil {
				t.Fatalf("handshake: %v", err)
			}
			time.Sleep(4 * delay)
			if got := b.gate.Pending(); got != 1 {
				t.Errorf("%d handshakes are pending, want 1", got)
			}
			taken := closeTimeout
			if closes {
				_ = c.socket.Close() // always returns nil
				taken = 4 * delay
			}
			time.Sleep(taken)
			if got := b.gate.Pending(); got != 0 {
				t.Errorf("closed by the dialer: %v: %d handshakes are pending after %v, want none",
					closes, got, taken)
			}
			_ = c.socket.Close() // always returns nil
		}
	})
}

// TestLaneIsTriedAgain checks that the bulk lane is connected in the end, even if the peer has too
// many pending handshakes at first.
func TestLaneIsTriedAgain(t *testing.T) {
	inPair(t, func(t *testing.T, a, b *network, to member.Address) {
		dialed, err := a.Dial(t.Context(), to)
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		accepted, err := b.Accept()
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		synctest.Wait() // wait until its handshake no longer counts
		from := accepted.(*conn).lanes[systemLane].remote()
		var leave []func()
		for {
			end, ok := b.gate.Enter(from)
			if !ok {
				break
			}
			leave = append(leave, end)
		}
		if _, err := dialed.Stream(transport.Custom).Write([]byte("event")); err != nil {
			t.Fatalf("Write: %v", err)
		}
		time.Sleep(handshakeTimeout / 2)
		for _, end := range leave {
			end()
		}
		got := make([]byte, 5)
		_, err = io.ReadFull(accepted.Stream(transport.Custom), got)
		if err != nil || string(got) != "event" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}
