// SPDX-License-Identifier: Apache-2.0

// Command sweep runs seeds of the simulator. It has few dependencies so that package
// mutants can quickly build it with a planted bug.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/athena-go/athena/test/sim"
)

func main() {
	var s sim.Sweeping
	flag.Uint64Var(&s.Options.Seed, "seed", 1, "first seed")
	flag.IntVar(&s.Runs, "runs", 1000, "number of seeds")
	flag.IntVar(&s.Options.Size, "size", 0, "cluster size; 0 to draw it")
	flag.DurationVar(&s.Options.For, "for", 0, "duration of the faults; 0 means a random one")
	flag.DurationVar(&s.Budget, "budget", 0,
		"stop after this much CPU time on all cores; 0 for no limit")
	flag.IntVar(&s.Failures, "failures", 0,
		"stop after this many failed runs; 0 for the maximum")
	without := flag.Uint("without", 0, "classes of faults to exclude, as a bit mask")
	history := flag.Bool("history", false, "print the history of the first seed and exit")
	replay := flag.String("replay", "", "repeat the run in this file and exit")
	shrunk := flag.String("shrink", "", "shrink the first failed run and write it to this file")
	within := flag.Duration("shrink-within", time.Minute, "time limit for shrinking, in real time")
	note := flag.String("note", "", "note to add to the file")
	flag.Parse()
	s.Options.Without = sim.Faults(*without)
	var record func(sim.Record)
	if *history {
		record = func(r sim.Record) { fmt.Println(r) }
	}
	switch {
	case *replay != "":
		r, err := read(*replay)
		end(err)
		result := sim.Reproduce(r, record)
		fmt.Println(result)
		if result.Violation != nil {
			os.Exit(1)
		}
		return
	case *history:
		s.Options.Record = record
		fmt.Println(sim.Run(s.Options))
		return
	}
	report := sim.Sweep(s)
	fmt.Println(report)
	if len(report.Failed) == 0 {
		return
	}
	if *shrunk != "" {
		_, r := sim.Capture(report.Failed[0].Options)
		r.Note += *note
		content, err := sim.Shrink(r, *within).Format()
		end(err)
		end(os.WriteFile(*shrunk, content, 0o600))
	}
	os.Exit(1)
}

func read(file string) (sim.Replay, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return sim.Replay{}, err
	}
	return sim.ParseReplay(content)
}

// end exits with code 2 if err is not nil; exit code 1 means a failed run.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
