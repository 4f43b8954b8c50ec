// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
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
	if n := strings.Count(said, "overlaps: 0\n"); n != 4 {
		t.Errorf("%d of 4 tables show no overlaps", n)
	}
	var last member.Token
	for _, m := range regexp.MustCompile(`leads the job with token (\S+)`).
		FindAllStringSubmatch(said, -1) {
		var token member.Token
		if _, err := fmt.Sscanf(m[1], "%d.%d", &token.Version, &token.Revision); err != nil {
			t.Fatal(err)
		}
		if !last.Less(token) {
			t.Errorf("token %v after %v", token, last)
		}
		last = token
	}
	gone := regexp.MustCompile(`(\S+), which leads the job, crashes\n`).FindStringSubmatch(said)
	if gone == nil {
		t.Fatal("no leader crashed")
	}
	_, after, _ := strings.Cut(said, gone[0])
	if !strings.Contains(after, " leads the job ") || strings.Contains(after, " at "+gone[1]+",") {
		t.Errorf("after the crash of %s:\n%swant another to lead, and to assign its shards", gone[1],
			after)
	}
	if t.Failed() {
		t.Log(said)
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

// TestFormerLeader checks that nothing is committed with a stale token.
func TestFormerLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, s *stage, _ *memnet.Network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var starting sync.WaitGroup
		nodes := make([]*cluster.Node, len(addresses))
		for i, addr := range addresses {
			starting.Go(func() {
				var err error
				if nodes[i], err = s.start(ctx, addr); err != nil {
					t.Errorf("start %s: %v", addr, err)
				}
			})
		}
		starting.Wait()
		for _, n := range nodes {
			defer n.Close()
		}
		w := &worker{node: nodes[0], say: s.say}
		key, err := election.JobKey(jobName)
		if err != nil {
			t.Fatal(err)
		}
		lead := func() (token member.Token) { // each call returns a new token
			token, err := w.node.Records().Session(nil).Commit(ctx,
				record.Op{Kind: record.Set, Key: key, Value: []byte(addresses[0])})
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		former, present := lead(), lead()
		if err := w.assign(ctx, former); !errors.Is(err, record.ErrConflict) {
			t.Errorf("assign with a stale token: %v, want %v", err, record.ErrConflict)
		}
		if got := planned(w); len(got) != 0 {
			t.Errorf("%d records of what was refused, want none", len(got))
		}
		if err := w.assign(ctx, present); err != nil {
			t.Errorf("assign by the token of the leader: %v", err)
		}
		if got := planned(w); len(got) != shards {
			t.Errorf("%d records, want %d", len(got), shards)
		}
	})
}

// planned returns the plan as a member sees it.
func planned(w *worker) []member.Record {
	records, _ := w.node.Records().List(context.Background(), plan)
	return records
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
