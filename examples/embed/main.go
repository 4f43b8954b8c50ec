// SPDX-License-Identifier: Apache-2.0

// Command embed is the program of README.md. It prints changes of the cluster,
// sends an event to all members at each change, and prints when it leads.
//
//	mkdir try && go run ./cmd/athena secret new try/secret
//	seeds='127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003'
//	go run ./examples/embed 127.0.0.1:7001 try/secret try/1 $seeds &
//	go run ./examples/embed 127.0.0.1:7002 try/secret try/2 $seeds &
//	go run ./examples/embed 127.0.0.1:7003 try/secret try/3 $seeds
//
// The first address is that of the process. Interrupt one process to see it leave, or
// kill one to see it fail.
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
	if len(os.Args) < 5 {
		log.Fatal("usage: embed ADDRESS SECRET-FILE DATA-DIR SEED...")
	}
	rx := receiver.NewMux()
	receiver.Handle(rx, func(ctx context.Context, from member.Member, m Hello) error {
		fmt.Println(from.Name, "says", m.Text)
		return nil
	})
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: os.Args[1], SecretFile: os.Args[2], DataDir: os.Args[3],
		Seeds: os.Args[4:], Size: 3, Receiver: rx,
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
