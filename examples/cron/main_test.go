// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// inBubble runs a test in virtual time, with an in-memory network.
func inBubble(t *testing.T, test func(*testing.T, *stage, *memnet.Network)) (said string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		net, dir := memnet.New(), t.TempDir()
		start := func(ctx context.Context, addr string) (*cluster.Node, error) {
			listen := func(transport.Config) (transport.Network, error) {
				return net.Listen(address(t, addr))
			}
			return cluster.Start(ctx, config(dir, addr), cluster.WithTransport(listen),
				cluster.WithClock(time.Now), cluster.WithLogger(slog.New(slog.DiscardHandler)))
		}
		s := newStage(&out, start)
		test(t, s, net)
		if s.table.overlaps != 0 {
			t.Errorf("two members ran one shard %d times", s.table.overlaps)
		}
	})
	if t.Failed() {
		t.Log(out.String())
	}
	return out.String()
}

func address(t *testing.T, s string) member.Address {
	a, err := member.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPlay runs the program and checks its output.
func TestPlay(t *testing.T) {
	said := inBubble(t, func(t *testing.T, s *stage, _ *memnet.Network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.play(ctx); err != nil {
			t.Errorf("play: %v", err)
		}
	})
	if n := strings.Count(said, "overlaps: 0\n"); n != 5 {
		t.Errorf("%d of 5 tables show no overlaps", n)
	}
	for _, gone := range addresses[:2] {
		_, after, crashed := strings.Cut(said, gone+" crashes\n")
		until, _, restarted := strings.Cut(after, gone+" restarts\n")
		if !crashed || !restarted || strings.Contains(until, " at "+gone+",") {
			t.Errorf("after the crash of %s:\n%swant the others to run its shards", gone, until)
		}
	}
}

// TestCutOff cuts off a running member. The member must stop its shards before another member runs
// them. After the network heals, it must take over some shards again.
func TestCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, s *stage, net *memnet.Network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		defer s.end(ctx)
		begun := make(chan error)
		for _, addr := range addresses {
			go func() { begun <- s.begin(ctx, addr) }()
		}
		for range addresses {
			if err := <-begun; err != nil {
				t.Fatalf("begin: %v", err)
			}
		}
		for _, alone := range addresses {
			if err := s.shown(ctx, 3, ""); err != nil {
				t.Fatalf("before %s is cut off: %v", alone, err)
			}
			others(t, alone, net.Cut)
			if err := s.shown(ctx, 2, alone); err != nil {
				t.Fatalf("%s is cut off: %v", alone, err)
			}
			others(t, alone, net.Heal)
		}
	})
}

// others applies the change to all links of one member.
func others(t *testing.T, alone string, change func(from, to member.Address)) {
	for _, other := range addresses {
		if other != alone {
			change(address(t, alone), address(t, other))
			change(address(t, other), address(t, alone))
		}
	}
}
