// SPDX-License-Identifier: Apache-2.0

// Command explore visits every state that a small cluster can reach in an election. It
// exits with code 1 if an invariant is violated.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/athena-go/athena/test/sim/explore"
)

func main() {
	var opt explore.Options
	flag.IntVar(&opt.Size, "size", 3, "number of nodes, 2 or 3")
	flag.IntVar(&opt.Attempts, "attempts", 3, "total number of proposals by all nodes")
	flag.IntVar(&opt.Crashes, "crashes", 1, "number of crashes, each with a restart on the same store")
	flag.BoolVar(&opt.Refusals, "refusals", false, "also deliver vote refusals")
	flag.BoolVar(&opt.Paxos, "paxos",
		false, "explore package paxos alone, without the rest of the node")
	flag.IntVar(&opt.States, "states", 0, "stop after this many states; 0 for no limit")
	flag.Parse()
	begin := time.Now()
	r, err := explore.Run(opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	took := time.Since(begin)
	fmt.Printf("%d states and %d steps between them; the farthest state is %d steps away; "+
		"%d steps chose a leader\n", r.States, r.Transitions, r.Depth, r.Elections)
	fmt.Printf("%d states of single nodes, %d distinct events, took %s\n",
		r.Machines, r.Events, took.Round(time.Millisecond))
	switch {
	case r.Violation != nil:
		fmt.Println(r.Violation)
		os.Exit(1)
	case !r.Complete:
		fmt.Println("incomplete: stopped at the limit of --states")
	default:
		fmt.Println("every invariant held in all states")
	}
}
