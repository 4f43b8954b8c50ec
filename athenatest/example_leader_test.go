// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
)

// biller is a program that charges customers, which must not happen twice: it works while it
// leads, and passes the token with every write.
type biller struct{ ledger *athenatest.Register }

func (b biller) main(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	return node.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		every := time.NewTicker(50 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done(): // this node no longer leads
				return context.Cause(ctx)
			case <-every.C:
			}
			if err := b.ledger.Write(term.Token(), fmt.Sprint("charged by node ", i)); err != nil {
				return err
			}
		}
	})
}

// TestLeaderWork runs every scenario and checks that the work continued and was done by one
// leader at a time.
func TestLeaderWork(t *testing.T) {
	for _, s := range athenatest.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			var ledger athenatest.Register
			opts := athenatest.Options{Size: 3, Main: biller{&ledger}.main}
			athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
				s.Play(c)
				c.Advance(time.Second)
				before := len(ledger.Written())
				c.Advance(time.Second)
				if done := len(ledger.Written()) - before; done != 20 {
					t.Errorf("the leader wrote %d times within a second, want 20%s", done, c)
				}
				// The context of the work ends before another leader begins, unless the
				// process is paused.
				late := ledger.Refused()
				if len(late) > 0 && s.Name != "leader pause" {
					t.Errorf("former leaders continued: %v", late)
				}
			})
		})
	}
}
