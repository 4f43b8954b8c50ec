// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

func ExampleShards() {
	store := record.NewMemory().Store("host-1") // in a cluster, use node.Records()
	shards, err := election.NewShards(store, "orders", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	working := make(chan int)
	go shards.Run(ctx, func(ctx context.Context, shard int, term leader.Term) error {
		working <- shard // every write of the shard carries term.Token()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	<-working
	<-working // both shards
	shard, owner, _ := shards.Owner("customer 7")
	fmt.Println("shard", shard, "at", owner.ID)
	// Output: shard 1 at host-1
}
