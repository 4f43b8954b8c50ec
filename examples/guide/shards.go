// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

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
