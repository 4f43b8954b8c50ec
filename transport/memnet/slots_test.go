// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// slow is a network whose handshakes take a while.
type slow struct {
	*endpoint
	handshake     time.Duration
	now, most, of atomic.Int64 // dials in progress, their maximum, and all dials
}

func (s *slow) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	s.of.Add(1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	select {
	case <-time.After(s.handshake):
		return s.net.dial(ctx, s.endpoint, to)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dialAll starts a node that has a frame for each of 40 others, in a cluster of 100. It returns the
// node's network, and the number of its connections after a time.
func dialAll(t *testing.T, handshake, after time.Duration) (s *slow, connected int) {
	t.Helper()
	network := New()
	var others []*node
	for port := range 40 {
		others = append(others, begin(t, network, 2+port))
	}
	n := &node{at: member.Address{Host: "a", Port: 1}}
	s = &slow{handshake: handshake}
	var err error
	if s.endpoint, err = network.listen(n.at); err != nil {
		t.Fatalf("listen: %v", err)
	}
	cfg := mesh.Config{Encode: encode, Decode: decode, Key: keyOf, Size: 100}
	n.Mesh, err = mesh.New(cfg, func(transport.Config) (transport.Network, error) { return s, nil })
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := n.Start(n); err != nil {
		t.Fatalf("Start: %v", err)
	}
	for _, to := range others {
		n.Notify(to.at, []byte("x"))
	}
	time.Sleep(after)
	for _, p := range n.Peers() {
		if p.Connected {
			connected++
		}
	}
	for _, o := range append(others, n) {
		if err := o.Mesh.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	return s, connected
}

// A node that starts and has frames for many others dials few of them at a time, and each of them
// once.
func TestFewPeersAreDialedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, connected := dialAll(t, 50*time.Millisecond, time.Second)
		if connected != 40 || s.of.Load() != 40 || s.most.Load() > 8 {
			t.Errorf("%d connections by %d dials, up to %d at the same time, want 40 by 40, up to 8",
				connected, s.of.Load(), s.most.Load())
		}
	})
}

// If handshakes take a second because the machines are busy, there are fewer dials, not more.
func TestBusyPeersAreDialedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := dialAll(t, time.Second, 2*time.Second)
		// Without slots there are 75 dials.
		if got := s.of.Load(); got < 16 || got > 60 {
			t.Errorf("%d dials in two seconds, want 16 to 60", got)
		}
	})
}

// A node rarely dials a peer that does not answer yet, since all nodes of a large cluster dial such
// a peer.
func TestManyMembersDialRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := New()
		n := begin(t, network, 1) // of 200
		absent := member.Address{Host: "a", Port: 2}
		for range 20 {
			n.Notify(absent, []byte("x"))
			time.Sleep(100 * time.Millisecond)
		}
		if got := n.Stats().Dials; got == 0 || got > 4 {
			t.Errorf("%d dials in two seconds, want 1 to 4", got)
		}
		if err := n.Mesh.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
