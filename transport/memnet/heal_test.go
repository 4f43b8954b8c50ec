// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// repeating dials like QUIC: during a cut it repeats the first packet with growing pauses, and
// finally gives up.
type repeating struct{ *endpoint }

func (r repeating) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	for _, pause := range []time.Duration{0, 200, 400, 800, 1600} {
		select {
		case <-time.After(pause * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if c, _, err := r.net.tryDial(r.endpoint, to); err != nil {
			return nil, err
		} else if c != nil {
			return c, nil
		}
	}
	return nil, transport.ErrNoAnswer
}

func begin(t *testing.T, network *Network, port int) *node {
	t.Helper()
	n := &node{at: member.Address{Host: "a", Port: uint16(port)}}
	var err error
	if n.endpoint, err = network.listen(n.at); err != nil {
		t.Fatalf("listen: %v", err)
	}
	cfg := mesh.Config{Encode: encode, Decode: decode, Key: keyOf, Size: 200}
	n.Mesh, err = mesh.New(cfg, func(transport.Config) (transport.Network, error) {
		return repeating{n.endpoint}, nil
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := n.Start(n); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return n
}

// TestHealOfMany checks that a node that was cut off from many others reconnects about as fast as
// one that was cut off from a single node.
func TestHealOfMany(t *testing.T) {
	const interval, limit = 100 * time.Millisecond, 1200 * time.Millisecond
	for _, count := range []int{1, 120} {
		synctest.Test(t, func(t *testing.T) {
			network := New()
			alone := begin(t, network, 1)
			var others []*node
			for i := range count {
				n := begin(t, network, 2+i)
				others = append(others, n)
				network.Cut(alone.at, n.at)
				network.Cut(n.at, alone.at)
			}
			beat := func() (connected int) {
				for _, n := range others {
					alone.Notify(n.at, []byte("x"))
				}
				time.Sleep(interval)
				for _, p := range alone.Peers() {
					if p.Connected {
						connected++
					}
				}
				return connected
			}
			for range 400 {
				beat()
			}
			for _, n := range others {
				network.Heal(alone.at, n.at)
				network.Heal(n.at, alone.at)
			}
			healed := time.Now()
			for beat() < count {
				if took := time.Since(healed); took > limit {
					t.Fatalf("%d nodes are not all connected %v after the heal", count, took)
				}
			}
			for _, n := range append(others, alone) {
				if err := n.Mesh.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		})
	}
}

// redialing is the network of a node that dials twice. It holds back the second connection.
type redialing struct {
	*endpoint
	dialed *[]*conn
}

func (r redialing) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	c, err := r.net.dial(ctx, r.endpoint, to)
	if err != nil {
		return nil, err
	}
	if *r.dialed = append(*r.dialed, c); len(*r.dialed) > 1 {
		c.hold(true)
		c.other.hold(true)
	}
	return c, nil
}

// dialTwice makes a node dial again because its connection is silent. Both connections are held
// back.
func dialTwice(t *testing.T) (a, b *node, first, second *conn) {
	network := New()
	var dialed []*conn
	a = meetOn(t, network, "a", func(e *endpoint, _ *node) transport.Network {
		return redialing{e, &dialed}
	})
	b = meet(t, network, "b")
	a.talk(t, b)
	dialed[0].hold(true)
	dialed[0].other.hold(true)
	for len(dialed) < 2 {
		a.talk(t, b)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	return a, b, dialed[0], dialed[1]
}

// TestConnectionThatComesBack makes a node dial again because its connection is silent. Before the
// other node gets the greeting, the first connection carries frames again. The frames on it must
// not be lost, whichever node wrote them.
func TestConnectionThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, first, second := dialTwice(t)
		b.talk(t, a)
		first.other.hold(false)
		synctest.Wait()
		first.other.hold(true)
		a.talk(t, b)
		b.talk(t, a)
		second.hold(false)
		second.other.hold(false)
		synctest.Wait()
		first.hold(false)
		first.other.hold(false)
		a.talk(t, b)
		b.talk(t, a)
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			from, to := pair[0], pair[1]
			for k := range transport.Kinds {
				if got, want := to.received(k), from.sent[k]; !slices.Equal(got, want) {
					t.Errorf("%v frames from %s: got %v, want %v", k, from.at, got, want)
				}
			}
		}
	})
}

// TestConnectionThatStaysSilent checks that a silent connection without a sign of life does not
// delay the frames on the one that replaces it.
func TestConnectionThatStaysSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, second := dialTwice(t)
		second.hold(false)
		second.other.hold(false)
		synctest.Wait()
		b.talk(t, a)
		if len(a.received(transport.System)) == 0 {
			t.Error("a waits for frames on the connection that stays silent")
		}
		sent := len(a.sent[transport.System])
		a.talk(t, b)
		time.Sleep(50 * time.Millisecond)
		if got := b.received(transport.System); !slices.Contains(got, fmt.Sprint(sent)) {
			t.Errorf("b still waits for frames on the connection that stays silent: got %v", got)
		}
	})
}
