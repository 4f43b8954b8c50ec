// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/athena-go/athena/cluster"
	athena "github.com/athena-go/athena/contrib/gocron"
)

// startElector starts a node of a cluster of three, and an Elector for it.
func startElector() *athena.Elector {
	node, err := cluster.Start(context.Background(), cluster.Config{
		Addr: os.Getenv("ADDR"), Seeds: strings.Fields(os.Getenv("SEEDS")), Size: 3,
		DataDir: os.Getenv("DATA_DIR"),
	})
	if err != nil {
		log.Fatal(err)
	}
	elector := athena.NewElector(node)
	go elector.Run(context.Background())
	return elector
}
