// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/transport/tlsnet"
)

// typoPause is the time between the end of a typo and its next start, as of a supervisor.
const typoPause = time.Second

// startClaim reads the task of a process that claims an address, and opens its evidence. ctx ends
// on SIGTERM, and the process with the runner.
func startClaim(task string) (w *testNode, ctx context.Context, err error) {
	w = &testNode{}
	if err := json.Unmarshal([]byte(task), &w.task); err != nil {
		return nil, nil, err
	}
	w.evidence, err = openEvidence(w.task.Evidence, evidence{
		Node: w.task.Name, Size: w.task.Config.Size, To: w.task.Claims,
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, _ = signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		}
		os.Exit(0) // the runner is gone
	}()
	return w, ctx, nil
}

// typoMain runs a node that advertises the address of a member by mistake, again and again, until
// SIGTERM.
func typoMain(task string) error {
	w, ctx, err := startClaim(task)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		w.runTypo(ctx)
		_ = waitFor(ctx, typoPause) // the loop ends with ctx
	}
	return nil
}

// runTypo runs the node once, and records how it ended.
func (w *testNode) runTypo(ctx context.Context) {
	opts := []cluster.Option{
		cluster.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
		cluster.WithListening(w.watchTypo),
	}
	if w.task.TLS {
		opts = append(opts, cluster.WithTransport(tlsnet.Open))
	}
	begin := readMonotonic()
	n, err := cluster.Start(ctx, w.task.Config, opts...)
	if err == nil { // it leads provisionally, because it heard no other seed
		select {
		case <-n.Done():
			err = n.Err()
		case <-ctx.Done():
			bound, cancel := context.WithTimeout(context.Background(), 2*w.task.Config.LeaderTimeout)
			defer cancel()
			err = n.Leave(bound)
		}
	}
	end := evidence{Kind: kindEnd, Begin: begin, End: readMonotonic(), Cause: "left"}
	if err != nil {
		end.Cause = err.Error()
	}
	if ctx.Err() != nil {
		end.Cause = causeStopped
	}
	w.evidence.appendLine(end)
}

// causeStopped is the cause in the last line of a typo that got SIGTERM.
const causeStopped = "SIGTERM"

// watchTypo records each view and each term of a node until it ends.
func (w *testNode) watchTypo(n *cluster.Node) {
	own := &testNode{task: w.task, evidence: w.evidence, node: n}
	w.evidence.appendLine(evidence{Kind: kindView, View: own.readView()})
	go func() {
		for range n.Events(context.Background()) {
			w.evidence.appendLine(evidence{Kind: kindView, View: own.readView()})
		}
	}()
	go func() {
		for term := range n.Terms(context.Background()) {
			if begin := readMonotonic(); term.Valid() {
				w.evidence.appendLine(evidence{
					Kind: kindHold, Token: term.Token().Version, Begin: begin, End: readMonotonic(),
				})
			}
		}
	}()
}
