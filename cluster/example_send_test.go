// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// Order is an event that asks for a Receipt.
type Order struct{ Item string }

// Receipt is the answer to an Order.
type Receipt struct{ Item string }

// shop answers orders.
type shop struct {
	node     *cluster.Node
	receipts chan string
}

func (s *shop) onOrder(ctx context.Context, from member.Member, o Order) error {
	// Orders may arrive before s.node is set.
	return cluster.FromContext(ctx).Send(ctx, from.Address, Receipt(o))
}

func (s *shop) onReceipt(_ context.Context, from member.Member, r Receipt) error {
	s.receipts <- fmt.Sprintf("%s from %s", r.Item, from.Name)
	return nil
}

func openShop(name, addr string, network cluster.Option) *shop {
	s := &shop{receipts: make(chan string, 1)}
	rx := receiver.NewMux()
	receiver.Handle(rx, s.onOrder)
	receiver.Handle(rx, s.onReceipt)
	var err error
	s.node, err = cluster.Start(context.Background(), cluster.Config{
		Name: name, Addr: addr, Size: 2, Receiver: rx,
		Seeds: []string{"127.0.0.1:7001", "127.0.0.1:7002"},
	}, cluster.WithLogger(slog.New(slog.DiscardHandler)), network)
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// A handler that replies gets its node from FromContext, because an event may arrive before Start
// returns the node.
func ExampleNode_Send() {
	network := memnet.New() // for the example only: nodes in memory
	at := func(port uint16) cluster.Option {
		return cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return network.Listen(member.Address{Host: "127.0.0.1", Port: port})
		})
	}
	var north, south *shop
	var starts sync.WaitGroup
	starts.Go(func() { north = openShop("north", "127.0.0.1:7001", at(7001)) })
	starts.Go(func() { south = openShop("south", "127.0.0.1:7002", at(7002)) })
	starts.Wait()

	ctx := context.Background()
	for _, s := range []*shop{north, south} {
		if err := s.node.WaitActive(ctx, 2); err != nil {
			log.Fatal(err)
		}
	}
	if err := north.node.Send(ctx, south.node.Self().Address, Order{"tea"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-north.receipts)
	for _, s := range []*shop{south, north} {
		if err := s.node.Leave(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output: tea from south
}
