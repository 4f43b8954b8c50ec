// SPDX-License-Identifier: Apache-2.0

// Command shards gives each of three shards one worker at a time, as docs/guide.md explains. Run it
// on three addresses, as examples/guide.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: os.Getenv("ADDR"), Seeds: os.Args[1:], Size: 3,
		SecretFile: os.Getenv("SECRET_FILE"), DataDir: os.Getenv("DATA_DIR"),
	})
	if err != nil {
		log.Fatal(err)
	}
	var workers sync.WaitGroup
	for _, shard := range []string{"shard-1", "shard-2", "shard-3"} {
		workers.Go(func() { logError(runShard(ctx, node, shard, printShard)) })
	}
	workers.Wait()
	logError(node.Leave(context.WithoutCancel(ctx)))
}

// runShard calls work whenever this member leads the job of the shard. At most one
// member does, and its token is greater than that of every earlier worker of the shard.
func runShard(
	ctx context.Context, node *cluster.Node, shard string,
	work func(ctx context.Context, shard string, token member.Token) error,
) error {
	if err := node.WaitActive(ctx, node.Status().Quorum); err != nil { // or it takes all shards
		return err
	}
	job, err := election.OpenJob(ctx, node.Records(), shard, election.JobOptions{})
	if err != nil {
		return err
	}
	err = job.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		return work(ctx, shard, term.Token())
	})
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, job.Close(bound))
}

// printShard stands for the work on a shard. Every write must carry the token.
func printShard(ctx context.Context, shard string, token member.Token) error {
	fmt.Println("working on", shard, "with token", token)
	<-ctx.Done()
	return context.Cause(ctx)
}

func logError(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Print(err)
	}
}
