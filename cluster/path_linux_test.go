// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

type bulky struct{ Data []byte }

// TestPathShrinks cuts the MTU of the link between the two nodes of a cluster while they send
// each other large events. The leader keeps its lease, and events arrive again.
func TestPathShrinks(t *testing.T) {
	l := simnet.NewLink(t)
	arrived := make(chan struct{}, 1)
	nodes := make([]*Node, 2)
	for i := range nodes {
		cfg := quicConfig(0, clusterSecret)
		cfg.Seeds, cfg.Size = []string{l.Host(0) + ":7000", l.Host(1) + ":7000"}, 2
		cfg.Addr, cfg.LeaderTimeout = cfg.Seeds[i], 3*time.Second // long enough for a busy machine
		receiver.Handle(cfg.Receiver, func(context.Context, member.Member, bulky) error {
			select {
			case arrived <- struct{}{}:
			default:
			}
			return nil
		})
		var err error
		nodes[i], err = Start(t.Context(), cfg, WithLogger(slog.New(slog.DiscardHandler)),
			WithSocket(func(addr string) (net.PacketConn, error) { return l.Listen(i, addr) }))
		if err != nil {
			t.Fatalf("Start of node %d: %v", i, err)
		}
		defer nodes[i].Close()
	}
	for _, n := range nodes {
		if err := n.WaitActive(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
	term, err := nodes[0].WaitLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i, n := range nodes {
		to := nodes[1-i].cfg.self
		go func() {
			for ctx.Err() == nil {
				_ = n.Send(ctx, to, bulky{make([]byte, 8<<10)}) // some events may be lost
			}
		}()
	}
	for _, end := range []int{0, 1} {
		<-time.After(time.Second) // events are sent in larger packets
		l.SetMTU(t, end, 1400-60*end)
	}
	select {
	case <-term.Done():
		t.Errorf("the leader was replaced: %v", term)
	case <-time.After(2 * time.Second):
	}
	for len(arrived) > 0 {
		<-arrived
	}
	select {
	case <-arrived:
	case <-time.After(10 * time.Second):
		t.Error("no event arrives")
	}
}
