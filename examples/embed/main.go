// SPDX-License-Identifier: Apache-2.0

// Command embed is a whole program on a cluster: it prints what happens, sends
// an event to all members each time, and says when it leads.
//
//	go run ./examples/embed 127.0.0.1:7001 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003
//	go run ./examples/embed 127.0.0.1:7002 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003
//	go run ./examples/embed 127.0.0.1:7003 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003
//
// The first address is that of the process, the others are the seeds. Without a
// secret it runs on loopback only. Interrupt or terminate one of them to see it leave, kill
// one to see it missed.
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

// Hello is an event; it travels under its name, with its exported fields.
type Hello struct{ Text string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 3 {
		log.Fatal("usage: embed ADDRESS SEED...")
	}
	rx := receiver.NewMux()
	receiver.Handle(rx, func(ctx context.Context, from member.Member, m Hello) error {
		fmt.Println(from.Name, "says", m.Text)
		return nil
	})
	cfg := cluster.Config{Addr: os.Args[1], Seeds: os.Args[2:], Size: 3, Receiver: rx, Memory: true}
	node, err := cluster.Start(ctx, cfg)
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
		_ = node.Broadcast(ctx, Hello{"hi"})
	}
}
