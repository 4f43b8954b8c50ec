// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// deliver keeps one connection open from each part of the network. The Groups of each node were
// created with its Mux, before the node started.
func deliver(
	ctx context.Context, node *cluster.Node, groups *election.Groups,
	connect func(context.Context) error,
) error {
	delivery, err := groups.Open(node, "delivery", election.Options{Strategy: election.Lowest})
	if err != nil {
		return err
	}
	return errors.Join(
		delivery.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
			return connect(ctx)
		}),
		delivery.Close(context.WithoutCancel(ctx)))
}

func Example() {
	rx := receiver.NewMux()
	groups := election.NewGroups(rx)
	node, err := cluster.Start(context.Background(),
		cluster.Config{Addr: "127.0.0.1:7001", Size: 1, Receiver: rx},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		// In memory, for this example only; omit it in a program.
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return memnet.New().Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		log.Print(err)
		return
	}
	defer node.Close()
	timing := election.DefaultTiming()
	timing.Sample, timing.Campaign = 10*time.Millisecond, 50*time.Millisecond
	delivery, err := groups.Open(node, "delivery", election.Options{
		Strategy: election.Lowest, Timing: timing,
	})
	if err != nil {
		log.Print(err)
		return
	}
	ctx, enough := context.WithCancel(context.Background())
	err = delivery.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		fmt.Println(term.Leader(), "leads")
		enough()
		<-ctx.Done()
		return nil
	})
	fmt.Println(err)
	fmt.Println(delivery.Close(context.Background()))

	err = deliver(ctx, node, groups, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// 127.0.0.1:7001 leads
	// context canceled
	// <nil>
	// context canceled
}
