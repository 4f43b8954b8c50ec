// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// Question is answered by an Answer.
type Question struct{ Number int }

// Answer is sent to the node that asked.
type Answer struct{ Square int }

// A handler replies to the sender of an event through its own node.
func ExampleFromContext() {
	rx := receiver.NewMux()
	receiver.Handle(rx, func(ctx context.Context, from member.Member, q Question) error {
		return cluster.FromContext(ctx).Send(ctx, from.Address, Answer{q.Number * q.Number})
	})
	answers := make(chan Answer, 1)
	receiver.Handle(rx, func(_ context.Context, _ member.Member, a Answer) error {
		answers <- a
		return nil
	})

	ctx := context.Background()
	n, err := cluster.Start(ctx, cluster.Config{Addr: "127.0.0.1:7001", Size: 1, Receiver: rx},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		// For the example only: nodes in memory.
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return memnet.New().Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Send(ctx, n.Self().Address, Question{7}); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-answers).Square)
	if err := n.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 49
}
