// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener within the process, so that virtual time passes while it waits.
type pipes struct {
	dialed chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func newPipes() *pipes {
	p := &pipes{dialed: make(chan net.Conn)}
	p.closed, p.close = context.WithCancel(context.Background())
	return p
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialed <- theirs:
		return ours, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return nil }

// TestPlay runs the program in virtual time and checks its output.
func TestPlay(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := newStage(&out, p.dial)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := s.play(ctx, p); err != nil {
			t.Fatalf("play: %v\n%s", err, &out)
		}
		sameChains(t, s)
	})
	want := regexp.MustCompile(`(?s)^[^\n]* s  ` +
		`ordering service: n1 connects and requests blocks from number 0 on; connected: n1
.* s  blocks:  n1 \d+  n2 \d+  n3 \d+  n4 \d+  n5 \d+
.* s  n1 crashes
.* s  ordering service: n1 disconnects; connected: 
.* s  ordering service: n2 connects and requests blocks from number \d+ on; connected: n2
.* s  blocks:  n2 \d+  n3 \d+  n4 \d+  n5 \d+
.* s  the network is partitioned: .*
.* s  ordering service: n4 connects and requests blocks from number \d+ on; connected: n2 n4
.* s  blocks:  n2 \d+  n3 \d+  n4 \d+  n5 \d+
.* s  the network heals
.* s  ordering service: n4 disconnects; connected: n2
.* s  blocks:  n2 \d+  n3 \d+  n4 \d+  n5 \d+
.* s  n1 restarts with an empty state
.* s  blocks:  n1 \d+  n2 \d+  n3 \d+  n4 \d+  n5 \d+
.* s  ordering service: n2 disconnects; connected: 
$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("got\n%swant a match for\n%s", &out, want)
	}
	if n := bytes.Count(out.Bytes(), []byte(" connects ")); n != 3 {
		t.Errorf("%d connections in\n%swant 3: one for each part of the network", n, &out)
	}
}

// sameChains checks that each member has each block up to its height, in order.
func sameChains(t *testing.T, s *stage) {
	chains := make([][]Block, size)
	for i, p := range s.peers {
		chains[i] = p.after(0, p.height())
		for number, b := range chains[i] {
			if b.Number != number {
				t.Errorf("n%d has block %d in place of block %d", i+1, b.Number, number)
			}
		}
	}
	longest := slices.MaxFunc(chains, func(a, b []Block) int { return len(a) - len(b) })
	for i, c := range chains {
		if len(c) == 0 || !slices.Equal(c, longest[:len(c)]) {
			t.Errorf("n%d: other blocks than the longest chain has", i+1)
		}
	}
}

// TestCatchUp checks that a member that has missed blocks requests them when the next one arrives.
func TestCatchUp(t *testing.T) {
	var p peer
	for _, c := range []struct {
		number int
		want   bool
	}{{0, true}, {1, true}, {3, false}, {1, true}, {2, true}, {3, true}} {
		if got := p.add(Block{Number: c.number}); got != c.want {
			t.Errorf("add block %d: %v, want %v", c.number, got, c.want)
		}
	}
	if got := p.after(1, 2); len(got) != 2 || got[0].Number != 1 {
		t.Errorf("after 1, at most 2: %v, want blocks 1 and 2", got)
	}
	if got := p.after(-5, 100); len(got) != 4 {
		t.Errorf("after -5: %v, want all 4", got)
	}
}
