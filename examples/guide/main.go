// SPDX-License-Identifier: Apache-2.0

// Command guide is the program of docs/guide.md: a service of three processes of which
// one at a time counts, and any can be asked for the count.
//
//	go run ./cmd/athena secret new secret
//	seeds='127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003'
//	go run ./examples/guide 127.0.0.1:7001 secret data1 $seeds &
//	go run ./examples/guide 127.0.0.1:7002 secret data2 $seeds &
//	go run ./examples/guide 127.0.0.1:7003 secret data3 $seeds
//
// The first address is that of the process. Kill the one that leads, and another one
// counts: from 0, since each process has its own counter here, see counter.
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
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Count asks the leader for its count, and Counted is the answer.
type Count struct{}

// Counted is how far the leader has come.
type Counted struct{ Number int }

// counter is what only one process may change at a time. In a real service it is a
// table or a bucket, which remembers the greatest token beside what it keeps.
type counter struct {
	mu     sync.Mutex
	token  member.Token
	number int
}

// add refuses a former leader.
func (c *counter) add(token member.Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token.Less(c.token) {
		return fmt.Errorf("token %v is of a former leader: %v has written", token, c.token)
	}
	c.token = token
	c.number++
	return nil
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: guide ADDRESS SECRET-FILE DATA-DIR SEED...")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	secret, err := cluster.ReadSecret(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(ctx, cluster.Config{
		Addr:    os.Args[1],
		Size:    3,
		Seeds:   os.Args[4:],
		DataDir: os.Args[3],
		Secret:  secret,
	}); err != nil {
		log.Fatal(err)
	}
}

// serve runs one process of the service until ctx ends.
func serve(ctx context.Context, cfg cluster.Config) error {
	var count counter
	rx := receiver.NewMux()
	receiver.HandleRequest(rx, func(context.Context, member.Member, Count) (Counted, error) {
		return Counted{count.get()}, nil
	})
	cfg.Receiver = rx
	node, err := cluster.Start(ctx, cfg)
	if err != nil {
		return err
	}
	go report(ctx, node)
	err = node.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		return work(ctx, term, &count)
	})
	if ctx.Err() == nil {
		return err // the node ended by itself
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return node.Leave(bound)
}

// work is done by the leader alone, until its context ends.
func work(ctx context.Context, term leader.Term, count *counter) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := count.add(term.Token()); err != nil {
				return err // gives the leadership up
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// report asks whoever leads how far it has come.
func report(ctx context.Context, node *cluster.Node) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 5*time.Second)
		got, err := cluster.RequestLeader[Counted](wait, node, Count{})
		switch {
		case err == nil:
			fmt.Println("the leader has counted to", got.Number)
		case errors.Is(err, cluster.ErrNoQuorum):
			fmt.Println("nobody leads:", node.Status().NoLeader)
		default:
			fmt.Println(err)
		}
		<-wait.Done()
		cancel()
	}
}
