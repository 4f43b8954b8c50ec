// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/receiver"
)

// The code below is also in docs/testing.md.

func run(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
	cfg.Receiver = handlers()
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	<-ctx.Done() // here your program works
	return node.Leave(context.WithoutCancel(ctx))
}

func TestSurvivesACrash(t *testing.T) {
	opts := athenatest.Options{Size: 3, Main: run} // of your program, see below
	athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
		c.Crash(c.Leader())
		c.Advance(10 * time.Second)
		// check what your program did
	})
}

func handlers() *receiver.Mux { return receiver.NewMux() }
