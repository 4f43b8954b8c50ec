// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThreeNodesForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memnet.New()
		seeds := []string{"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"}
		begin := time.Now()
		nodes := make([]*Node, 3)
		done := make(chan error)
		for i, addr := range seeds {
			go func() {
				var err error
				nodes[i], err = Start(t.Context(), Config{Addr: addr, Seeds: seeds, Size: 3, Name: fmt.Sprint("n", i)},
					WithTransport(listenOn(w, addr)), WithClock(time.Now), WithLogger(zerolog.New(zerolog.NewTestWriter(t)).With().Timestamp().Logger()))
				done <- err
			}()
		}
		for range seeds {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		t.Log(time.Since(begin))
		for _, n := range nodes {
			term, err := n.WaitLeader(t.Context())
			t.Log(time.Since(begin), term.Leader(), term.Token(), err)
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		t.Log(time.Since(begin))
		ctx, c := context.WithTimeout(t.Context(), time.Minute)
		defer c()
		go nodes[0].WhileLeader(ctx, func(ctx context.Context, term Term) error {
			t.Log("leading", term.Token(), time.Until(term.Deadline()))
			<-ctx.Done()
			t.Log("lead ended", context.Cause(ctx), term.Valid())
			return nil
		})
		go nodes[2].WhileLeader(ctx, func(ctx context.Context, term Term) error {
			t.Log("2 leading", term.Token(), time.Until(term.Deadline()))
			<-ctx.Done()
			t.Log("2 lead ended", context.Cause(ctx), term.Valid())
			return nil
		})
		go func() {
			for e := range nodes[1].Events(ctx) {
				t.Log("event", e)
			}
		}()
		time.Sleep(10 * time.Second)
		term, _ := nodes[0].Leader()
		for i, n := range nodes {
			if n.Self().Address == term.Leader().Address {
				t.Log("transfer", i, n.Transfer(t.Context(), member.Address{}))
			}
		}
		for _, n := range nodes {
			t.Log(n.Leave(context.Background()), time.Since(begin))
		}
	})
}

func listenOn(net *memnet.Network, addr string) Listen {
	a, _ := member.ParseAddress(addr)
	return func(c transport.Config) (*transport.Mesh, error) { return net.Listen(a, c) }
}
