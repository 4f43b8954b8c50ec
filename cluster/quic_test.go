// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

func quicConfig(i int, secret string) Config {
	c := Config{
		Addr:     fmt.Sprintf("10.0.0.%d:7000", i),
		Name:     fmt.Sprint("n", i),
		Seeds:    []string{"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"},
		Size:     3,
		Secret:   []byte(secret),
		Receiver: receiver.NewMux(),
	}
	return c
}

// Secrets as NewSecret returns them.
const (
	clusterSecret = "DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg="
	otherSecret   = "RSlX9s8Hu81SooNo2txGhdNM/mx976RKTj4sWAVXlgw="
)

// TestWholeStackOverQUIC checks that a cluster forms over QUIC, delivers events, replaces a leader
// that is cut off, and refuses a node with another secret.
func TestWholeStackOverQUIC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		options := []Option{WithSocket(p.Open), WithClock(time.Now),
			WithLogger(slog.New(slog.DiscardHandler))}
		var box mailbox
		nodes := make([]*Node, 3)
		for i := range nodes {
			cfg := quicConfig(i+1, clusterSecret)
			receiver.Handle(cfg.Receiver, func(_ context.Context, from member.Member, m note) error {
				box.add("n%d %s %s", i+1, from.Name, m.Text)
				return nil
			})
			var err error
			if nodes[i], err = Start(t.Context(), cfg, options...); err != nil {
				t.Fatalf("Start of node %d: %v", i+1, err)
			}
			defer nodes[i].Close()
		}
		w := &world{t: t, nodes: nodes}
		for _, n := range nodes {
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := nodes[0].Broadcast(t.Context(), note{Text: "roar"}); err != nil {
			t.Errorf("Broadcast: %v", err)
		}
		time.Sleep(time.Second)
		if got := box.sorted(); len(got) != 2 || got[0] != "n2 n1 roar" || got[1] != "n3 n1 roar" {
			t.Errorf("handlers saw %q, want the roar of n1 twice", got)
		}
		old := w.leader()
		term, _ := old.Leader()
		begin := time.Now()
		w.eachLink(old, p.Cut)
		<-term.Done()
		var next leader.Term
		for next = range w.others(old)[0].Terms(w.within(time.Minute)) {
			if next.Leader() != old.cfg.self.String() {
				break
			}
		}
		if took := time.Since(begin); took > 2*old.cfg.LeaderTimeout {
			t.Errorf("next leader after %v; want within 2 x LeaderTimeout", took)
		}
		if !term.Token().Less(next.Token()) {
			t.Errorf("tokens: got %v after %v", next.Token(), term.Token())
		}
		w.eachLink(old, p.Heal)
		if err := old.WaitActive(w.within(10*time.Second), 3); err != nil {
			t.Errorf("after the heal: %v", err)
		}
		_, err := Start(w.within(time.Minute), quicConfig(4, otherSecret), options...)
		if !errors.Is(err, transport.ErrCertificate) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start with another secret: got %v, want ErrCertificate before the context ends", err)
		}
	})
}
