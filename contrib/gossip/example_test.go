// SPDX-License-Identifier: Apache-2.0

package gossip_test

import (
	"context"

	"github.com/athena-go/athena/contrib/gossip"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// work delivers while this process leads.
func work(ctx context.Context, key []byte, deliver func(context.Context) error) error {
	node, err := gossip.Start(ctx, gossip.Config{
		Name: "worker-17", Addr: "10.0.0.17:7946", Seeds: []string{"workers.internal:7946"}, Secret: key,
	})
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	delivery, err := node.Open("delivery", election.Options{Strategy: election.Lowest})
	if err != nil {
		return err
	}
	return delivery.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		return deliver(ctx)
	})
}

func Example() {
	key := []byte("sixteen bytes or")
	_ = work(context.Background(), key, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}
