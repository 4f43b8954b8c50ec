// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/observer"
	"github.com/athena-go/athena/receiver"
)

type Reserve struct{ Title string }

// Example asks the leader from a process without a seat.
func Example() {
	ctx, secret := context.Background(), cluster.NewSecret()
	rx := receiver.NewMux()
	receiver.HandleRequest(rx, func(_ context.Context, _ member.Member, r Reserve) (string, error) {
		return "reserved " + r.Title, nil
	})
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: "127.0.0.1:17340", Size: 1, Secret: secret, Receiver: rx,
	}, cluster.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	o, err := observer.Start(ctx, observer.Config{
		Cluster: cluster.DefaultCluster, Members: []string{"127.0.0.1:17340"}, Secret: secret,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer o.Close()
	answer, err := observer.RequestLeader[string](ctx, o, Reserve{"Emma"})
	fmt.Println(answer, err, len(o.View().Members))
	// Output: reserved Emma <nil> 1
}
