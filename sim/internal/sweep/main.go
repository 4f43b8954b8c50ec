// SPDX-License-Identifier: Apache-2.0

// Command sweep runs seeds of the simulator. It is small so that it builds
// quickly with an overlay that plants a bug (package mutants).
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/athena-go/athena/sim"
)

func main() {
	var s sim.Sweeping
	flag.Uint64Var(&s.Options.Seed, "seed", 1, "first seed")
	flag.IntVar(&s.Runs, "runs", 1000, "how many seeds")
	flag.IntVar(&s.Options.Size, "size", 0, "N; 0 draws it")
	flag.DurationVar(&s.Options.For, "for", 0, "time with faults; 0 draws it")
	flag.DurationVar(&s.Budget, "budget", 0, "real time after which to end; 0 for none")
	flag.IntVar(&s.Failures, "failures", 0, "failed runs after which to end; 0 for the maximum")
	without := flag.Uint("without", 0, "classes of faults to leave out, as a set of bits")
	history := flag.Bool("history", false, "print what happens in the first seed, and end")
	flag.Parse()
	s.Options.Without = sim.Faults(*without)
	if *history {
		s.Options.Record = func(r sim.Record) { fmt.Println(r) }
		fmt.Println(sim.Run(s.Options))
		return
	}
	report := sim.Sweep(s)
	fmt.Println(report)
	if len(report.Failed) > 0 {
		os.Exit(1)
	}
}
