// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
)

// The first node that sets the record does the work.
func ExampleNode_Records() {
	ctx := context.Background()
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: "127.0.0.1:17391", Seeds: []string{"127.0.0.1:17391"}, Size: 1,
		Insecure: true, Memory: true, Receiver: receiver.NewMux(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	session := node.Records().Session(nil)
	const key = "jobs/billing"
	token, err := session.Commit(ctx,
		record.Op{Kind: record.Absent, Key: key},
		record.Op{Kind: record.SetOwned, Key: key, Value: []byte("n1")})
	if errors.Is(err, record.ErrConflict) {
		fmt.Println("another node does it")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	lease, err := session.Hold(ctx, key, token)
	if err != nil {
		log.Fatal(err)
	}
	err = lease.Term().Do(ctx, func(context.Context) error {
		fmt.Println("billing, with a token greater than all before")
		return nil
	})
	fmt.Println(err)
	// Output:
	// billing, with a token greater than all before
	// <nil>
}
