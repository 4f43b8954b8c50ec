// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Order is a request to the leader, and Ticket its answer.
type (
	Order  struct{ Item string }
	Ticket struct{ Number int }
)

// office is a program whose leader numbers orders.
type office struct{ book *athenatest.Register }

func (o office) main(ctx context.Context, _ int, cfg cluster.Config, opts ...cluster.Option) error {
	cfg.Receiver = receiver.NewMux()
	receiver.HandleRequest(cfg.Receiver, func(
		ctx context.Context, _ member.Member, r Order,
	) (Ticket, error) {
		term, ok := cluster.FromContext(ctx).Leader()
		if !ok || !term.Valid() {
			return Ticket{}, errors.New("no longer the leader")
		}
		if err := o.book.Write(term.Token(), r.Item); err != nil {
			return Ticket{}, err
		}
		return Ticket{len(o.book.Written())}, nil
	}, receiver.Concurrency(1))
	n, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return n.Leave(context.WithoutCancel(ctx))
}

// TestRequestsThroughFailOver sends orders continuously while the leader crashes. It checks
// that the next leader answers further orders and that each answered order was booked
// exactly once.
func TestRequestsThroughFailOver(t *testing.T) {
	var book athenatest.Register
	opts := athenatest.Options{Main: office{&book}.main}
	athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
		old := c.Leader()
		client := c.Node((old + 1) % c.Size())
		outcome := make(map[string]error)
		for i := range 40 {
			if i == 10 {
				c.Crash(old)
			}
			item := fmt.Sprint("item ", i)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, outcome[item] = cluster.RequestLeader[Ticket](ctx, client, Order{item})
			cancel()
			c.Advance(10 * time.Millisecond)
		}
		written := make(map[string]int)
		for _, w := range book.Written() {
			written[w.Value]++
		}
		failed := 0
		for item, err := range outcome {
			switch {
			case err == nil && written[item] != 1:
				t.Errorf("%s: answered, and %d times in the book", item, written[item])
			case err != nil && !errors.Is(err, cluster.ErrUnknownOutcome) && written[item] > 0:
				t.Errorf("%s: in the book, but the client got %v", item, err)
			case err != nil:
				failed++
			}
		}
		if failed > 1 {
			t.Errorf("%d orders failed, want the one at most that was under way", failed)
		}
		if next := c.Leader(); next == old {
			t.Errorf("node %d leads, which has crashed", next)
		}
	})
}
