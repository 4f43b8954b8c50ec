// SPDX-License-Identifier: Apache-2.0

package latch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/latch"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// lead does the work of a job while this node leads it.
func lead(
	ctx context.Context, node *cluster.Node, work func(context.Context, member.Token),
) error {
	if err := node.WaitActive(ctx, node.Status().Quorum); err != nil { // so that jobs spread
		return err
	}
	job, err := latch.Open(ctx, node.Records(), "billing", latch.Options{})
	if err != nil {
		return err
	}
	ended := job.WhileLeader(ctx, work) // why
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	return errors.Join(ended, job.Close(ctx))
}

// migrate is called on all members, and runs on one at a time.
func migrate(ctx context.Context, job *latch.Job) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	return job.Do(ctx, "schema", func(ctx context.Context, token member.Token) error {
		fmt.Println("alone")
		return ctx.Err()
	})
}

func Example() {
	ctx, enough := context.WithCancel(context.Background())
	node, err := cluster.Start(ctx, cluster.Config{Addr: "127.0.0.1:7001", Size: 1},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		// In memory, for the example alone: leave it out.
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return memnet.New().Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		log.Fatal(err)
	}
	job, err := latch.Open(ctx, node.Records(), "setup", latch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(migrate(ctx, job), job.Close(ctx))
	err = lead(ctx, node, func(ctx context.Context, token member.Token) {
		fmt.Println("leading:", !token.IsZero())
		enough()     // a program works on, and gives away its token with all that it writes,
		<-ctx.Done() // until another member is to lead
	})
	fmt.Println(err)
	if err := node.Leave(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// alone
	// <nil> <nil>
	// leading: true
	// context canceled
}
