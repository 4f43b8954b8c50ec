// SPDX-License-Identifier: Apache-2.0

// Command embed is the program of README.md. It prints changes of the cluster,
// sends an event to all members at each change, and prints when it leads.
//
//	go build -o try/ ./cmd/athena ./examples/embed
//	try/athena secret new try/secret
//	export SECRET_FILE=try/secret seeds='127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003'
//	ADDR=127.0.0.1:7001 DATA_DIR=try/1 try/embed $seeds &
//	ADDR=127.0.0.1:7002 DATA_DIR=try/2 try/embed $seeds &
//	ADDR=127.0.0.1:7003 DATA_DIR=try/3 try/embed $seeds &
//
// Then kill %1 makes a process leave. Start it again before kill -9 %2, which makes one fail: two
// must run.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Hello is an event. It is sent as "Hello", with its exported fields.
type Hello struct{ Text string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rx := receiver.NewMux()
	receiver.Handle(rx, func(ctx context.Context, from member.Member, m Hello) error {
		fmt.Println(from.Name, "says", m.Text)
		return nil
	})
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: os.Getenv("ADDR"), Seeds: os.Args[1:], Size: 3, Receiver: rx,
		SecretFile: os.Getenv("SECRET_FILE"), DataDir: os.Getenv("DATA_DIR"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Leave(context.WithoutCancel(ctx))
	go node.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading, fencing token", term.Token())
		<-ctx.Done()
		return context.Cause(ctx)
	})
	for ev := range node.Events(ctx) {
		fmt.Println(ev)
		go node.Broadcast(ctx, Hello{"hi"}) // it waits 5 s for a member that is down
	}
}
