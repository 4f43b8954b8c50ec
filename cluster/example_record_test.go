// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/receiver"
)

// One node of many does the work of a job: who sets the record first.
func ExampleNode_Commit() {
	ctx := context.Background()
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: "127.0.0.1:17391", Seeds: []string{"127.0.0.1:17391"}, Size: 1,
		Insecure: true, Memory: true, Receiver: receiver.NewMux(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	session := node.Session()
	const key = "jobs/billing"
	token, err := node.Commit(ctx,
		cluster.Absent(key), cluster.Set(key, []byte("n1"), session))
	if errors.Is(err, cluster.ErrConflict) {
		fmt.Println("another node does it")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	holding, err := session.Hold(ctx, key, token)
	if err != nil {
		log.Fatal(err)
	}
	err = holding.Do(ctx, func(context.Context) error {
		fmt.Println("billing, with a token greater than all before")
		return nil
	})
	fmt.Println(err, session.Close(ctx))
	// Output:
	// billing, with a token greater than all before
	// <nil> <nil>
}
