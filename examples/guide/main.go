// SPDX-License-Identifier: Apache-2.0

// Command guide is the program of docs/guide.md: a service of three processes. One of them counts,
// and any process can ask for the count.
//
//	go build -o try/ ./cmd/athena ./examples/guide
//	try/athena secret new try/secret
//	export SECRET_FILE=try/secret seeds='127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003'
//	ADDR=127.0.0.1:7001 DATA_DIR=try/1 try/guide $seeds &
//	ADDR=127.0.0.1:7002 DATA_DIR=try/2 try/guide $seeds &
//	ADDR=127.0.0.1:7003 DATA_DIR=try/3 try/guide $seeds &
//
// Then kill -9 %1 makes a process fail. If it was the leader, another process counts from 0,
// because each process has its own counter in memory.
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

// Count asks the leader for its count.
type Count struct{}

// Counted is the answer to Count.
type Counted struct{ Number int }

// counter is the resource that only the leader may change. In a real service it is a table or a
// bucket that stores the greatest token with the data.
type counter struct {
	mu     sync.Mutex
	token  member.Token
	number int
}

// add increments the counter. It refuses the token of a former leader.
func (c *counter) add(token member.Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token.Less(c.token) {
		return fmt.Errorf("token %v is stale: the counter has already seen token %v", token, c.token)
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, cluster.Config{
		Addr:       os.Getenv("ADDR"),
		Size:       3,
		Seeds:      os.Args[1:],
		DataDir:    os.Getenv("DATA_DIR"),
		SecretFile: os.Getenv("SECRET_FILE"),
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
	go printCount(ctx, node)
	err = node.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		return work(ctx, term, &count)
	})
	if ctx.Err() == nil {
		return err // the node failed
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return node.Leave(bound)
}

// work increments the counter every second until its context ends.
func work(ctx context.Context, term leader.Term, count *counter) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := count.add(term.Token()); err != nil {
				return err // gives up leadership
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// printCount asks the leader for the count every five seconds.
func printCount(ctx context.Context, node *cluster.Node) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 5*time.Second)
		got, err := cluster.RequestLeader[Counted](wait, node, Count{})
		switch {
		case err == nil:
			fmt.Println("the leader has counted to", got.Number)
		case errors.Is(err, cluster.ErrNoQuorum):
			fmt.Println("no leader:", node.Status().NoLeader)
		default:
			fmt.Println(err)
		}
		<-wait.Done()
		cancel()
	}
}
