// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// If the context of Start ends, Start leaves nothing behind and does not wait for a silent seed.
func TestStartIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.start(0)
		w.net.cut(func(*end, *end) bool { return true })
		began := time.Now()
		for _, after := range []time.Duration{0, time.Second} {
			ctx, stop := context.WithTimeout(t.Context(), after)
			if n, err := Start(ctx, w.config(1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Start: %v, %v", n, err)
			}
			stop()
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v, want 1s", took)
		}
		w.net.cut(nil)
		w.start(1) // the address is free
		w.one([]int{0, 1}, time.Minute)
	})
}

// Each silent seed delays a start only briefly, and the node finds the seeds later.
func TestAllSeedsAreDownAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.startThese(between(0, 3))
		w.net.cut(func(from, to *end) bool { return from.index == 3 != (to.index == 3) })
		began := time.Now()
		w.start(3)
		if took := time.Since(began); took > 3*DefaultRejoinInterval {
			t.Errorf("started after %v, want at most %v", took, 3*DefaultRejoinInterval)
		}
		w.one([]int{3}, sample+campaign)
		w.net.cut(nil)
		w.until(w.see(between(0, 4), 4), 2*memberlist.DefaultLANConfig().TCPTimeout)
	})
}

// If a seed is the node itself under another address, the node keeps searching.
func TestSeedIsTheNodeItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.start(0)
		cfg := w.config(1)
		alias := netip.MustParseAddrPort("127.0.1.1:7946")
		w.net.ends[alias] = w.net.ends[address(1)]
		cfg.Seeds = []string{alias.String(), address(0).String()}
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[1] = n
		if got := n.Members(); len(got) != 2 {
			t.Errorf("the node started and sees %v", got)
		}
	})
}

// Close and Leave do not wait for a dial to a silent host.
func TestCloseWaitsForNoDial(t *testing.T) {
	for _, stop := range []func(*Node) error{
		(*Node).Close,
		func(n *Node) error { return n.Leave(context.Background()) },
	} {
		for i := range 5 {
			inWorld(t, 2, func(t *testing.T, w *world) {
				w.net.cut(func(*end, *end) bool { return true })
				w.until(w.see(between(0, 1), 1), time.Minute)
				w.pause(10*time.Second + time.Duration(i)*time.Second)
				began := time.Now()
				if err := stop(w.nodes[0]); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// IPv6 addresses work.
func TestIPv6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		for i := range w.nodes {
			at := netip.MustParseAddrPort(fmt.Sprintf("[fd00::%d]:7946", i+1))
			wire := w.net.connect(i, at)
			n, err := Start(t.Context(), Config{
				Name: name(i), Addr: at.String(), Seeds: []string{"[fd00::1]:7946"},
				Secret: make([]byte, 16), Tune: func(c *memberlist.Config) { c.Transport = wire },
			})
			if err != nil {
				t.Fatal(err)
			}
			if n.Addr() != at.String() {
				t.Errorf("it is at %s, want %v", n.Addr(), at)
			}
			w.nodes[i] = n
			w.open(t, i, "group")
		}
		w.one(between(0, 2), time.Minute)
		w.net.cut(func(from, to *end) bool { return true })
		w.until(w.see(between(0, 2), 1), time.Minute)
		w.net.cut(nil)
		w.until(w.see(between(0, 2), 2), time.Minute)
	})
}
