// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// Reserve requests an item; the answer is Reserved.
type Reserve struct{ Item string }

// Reserved has the number of items left.
type Reserved struct{ Left int }

// The request has a deadline, and its error shows whether the handler ran. This node sends the
// request to itself; requests to other members look the same.
func ExampleRequest() {
	rx := receiver.NewMux()
	receiver.HandleRequest(rx, func(_ context.Context, _ member.Member, r Reserve) (Reserved, error) {
		if r.Item != "book" {
			return Reserved{}, errors.New("out of stock")
		}
		return Reserved{Left: 3}, nil
	})
	n, err := cluster.Start(context.Background(),
		cluster.Config{Addr: "127.0.0.1:7001", Size: 1, Receiver: rx},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		// For the example only: nodes in memory.
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return memnet.New().Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()

	for _, item := range []string{"book", "lamp"} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		got, err := cluster.Request[Reserved](ctx, n, n.Self().Address, Reserve{item})
		cancel()
		var failed *cluster.HandlerError
		switch {
		case err == nil:
			fmt.Println(item, "is reserved,", got.Left, "are left")
		case errors.As(err, &failed):
			fmt.Println(item, "is not:", failed.Text) // the handler ran and returned an error
		case errors.Is(err, cluster.ErrUnknownOutcome), errors.Is(err, cluster.ErrBadAnswer):
			log.Print("it may have run, so it is not simply repeated: ", err)
		default:
			log.Print("it did not run: ", err)
		}
	}
	// Output:
	// book is reserved, 3 are left
	// lamp is not: out of stock
}

var errNotLeader = errors.New("this node no longer leads")

// writeItem writes an item unless a greater token has written before.
func writeItem(context.Context, member.Token, string) error { return nil }

// The handler writes with the token of its term, so that storage refuses the write of a former
// leader.
func ExampleRequestLeader() {
	rx := receiver.NewMux()
	handle := func(ctx context.Context, _ member.Member, r Reserve) (Reserved, error) {
		term, _ := cluster.FromContext(ctx).Leader()
		if !term.Valid() {
			return Reserved{}, errNotLeader
		}
		return Reserved{}, writeItem(ctx, term.Token(), r.Item)
	}
	receiver.HandleRequest(rx, handle)
}
