// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// Quote requests the price of an item.
type Quote struct{ Item string }

// The handler of a request is replaced while the node runs, and an interceptor checks a key in the
// metadata of each request.
func ExampleRequest_interceptor() {
	rx := receiver.NewMux(receiver.WithInterceptor(func(
		ctx context.Context, info receiver.Info, next func(context.Context) error,
	) error {
		if info.Request && receiver.Metadata(ctx)["key"] != "secret" {
			return errors.New("wrong key")
		}
		return next(ctx)
	}))
	priceOf := func(cents int) func(context.Context, member.Member, Quote) (int, error) {
		return func(context.Context, member.Member, Quote) (int, error) { return cents, nil }
	}
	quotes := receiver.HandleRequest(rx, priceOf(100))

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

	ask := func(key string) {
		cents, err := cluster.Request[int](context.Background(), n, n.Self().Address, Quote{"book"},
			cluster.WithMetadata(map[string]string{"key": key}))
		fmt.Println(cents, err)
	}
	ask("secret")
	receiver.HandleRequest(rx, priceOf(200), receiver.Replacing(quotes))
	<-quotes.Remove() // wait for running calls
	ask("secret")
	ask("guess")
	// Output:
	// 100 <nil>
	// 200 <nil>
	// 0 cluster: the handler of 127.0.0.1:7001 failed: wrong key
}
