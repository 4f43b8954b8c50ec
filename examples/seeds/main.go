// SPDX-License-Identifier: Apache-2.0

// Command seeds shows how nodes find each other. It runs three nodes in one process; one of them is
// the seed. Run it with
//
//	go run ./examples/seeds
//
// The other two nodes start first and wait for the seed. When the seed crashes, they elect a leader
// without it. The seed restarts and finds them, because its store has the members of the cluster.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
)

// The seed of every node, and the addresses of the three nodes.
const seed = "127.0.0.1:7101"

var addresses = []string{seed, "127.0.0.1:7102", "127.0.0.1:7103"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "athena-seeds-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	start := func(ctx context.Context, addr string) (*cluster.Node, error) {
		return cluster.Start(ctx, config(dir, addr))
	}
	if err := show(ctx, os.Stdout, start); err != nil {
		log.Print(err)
	}
}

// config returns the configuration of a node. Nodes differ only in address and directory.
func config(dir, addr string) cluster.Config {
	return cluster.Config{
		Addr:    addr,
		Seeds:   []string{seed},
		Size:    len(addresses),
		DataDir: filepath.Join(dir, addr),
	}
}

type starter func(ctx context.Context, addr string) (*cluster.Node, error)

// joined is the result of starting a node.
type joined struct {
	node *cluster.Node
	err  error
}

func show(ctx context.Context, out io.Writer, start starter) error {
	others := make(chan joined)
	for _, addr := range addresses[1:] {
		go func() {
			fmt.Fprintln(out, addr, "is looking for the seed")
			node, err := start(ctx, addr) // blocks until the node has joined
			others <- joined{node, err}
		}()
	}
	first, err := start(ctx, seed)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, seed, "is the seed")
	var nodes []*cluster.Node
	for range addresses[1:] {
		j := <-others
		if j.err != nil {
			return j.err
		}
		defer j.node.Leave(context.WithoutCancel(ctx))
		fmt.Fprintln(out, j.node.Self().Address, "has joined")
		nodes = append(nodes, j.node)
	}
	if err := first.WaitActive(ctx, len(addresses)); err != nil {
		return err
	}
	term, err := first.WaitLeader(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, term.Leader(), "leads with token", term.Token())
	if err := first.Close(); err != nil { // without any message, like a crash
		return err
	}
	fmt.Fprintln(out, seed, "crashed")
	if term, err = without(ctx, nodes[0], first.Self().Address.String()); err != nil {
		return err
	}
	fmt.Fprintln(out, term.Leader(), "leads with token", term.Token())
	again, err := start(ctx, seed)
	if err != nil {
		return err
	}
	defer again.Leave(context.WithoutCancel(ctx))
	fmt.Fprintln(out, seed, "has restarted")
	return again.WaitActive(ctx, len(addresses))
}

// without waits for a term of a leader other than the given one.
func without(
	ctx context.Context, node *cluster.Node, gone string,
) (leader.Term, error) {
	for term := range node.Terms(ctx) {
		if term.Leader() != gone && term.Err() == nil {
			return term, nil
		}
	}
	return leader.Term{}, cluster.ErrNoQuorum
}
