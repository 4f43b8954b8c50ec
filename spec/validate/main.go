// SPDX-License-Identifier: Apache-2.0

// Command validate checks that histories are behaviours of the specification (spec/README.md). It
// reads histories from files, or from folders with a file per process, repeats a recorded run, or
// draws runs from seeds.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"time"
)

// options are the flags.
type options struct {
	spec, quint string
	out         string
	steps       int
	runs, size  int
	seed        uint64
	faults      time.Duration
	kept        string
	first       bool
}

func main() {
	var o options
	flag.StringVar(&o.spec, "spec", "spec", "folder of the specification")
	flag.StringVar(&o.quint, "quint", "bin/quint", "folder in which Quint is installed")
	flag.StringVar(&o.out, "o", "", "folder in which to keep the traces (default a temporary folder)")
	flag.IntVar(&o.steps, "steps", 1500, "maximum number of steps to validate in each history, or 0")
	flag.IntVar(&o.runs, "runs", 0, "number of simulator runs to validate, drawn from seeds")
	flag.IntVar(&o.size, "size", 3, "number of members in a drawn run")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed")
	flag.DurationVar(&o.faults, "for", 10*time.Second, "virtual time with faults in a drawn run")
	flag.StringVar(&o.kept, "replay", "", "validate the run in this file (athena sim --shrink)")
	flag.BoolVar(&o.first, "first", false, "stop at the first rejected history of a batch")
	flag.Parse()
	if o.steps == 0 {
		o.steps = math.MaxInt
	}
	if err := o.validateHistories(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "validate:", err)
		os.Exit(1)
	}
}

func (o options) validateHistories(files []string) error {
	dir := o.out
	if dir == "" {
		temp, err := os.MkdirTemp("", "validate")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	switch {
	case o.kept != "":
		return o.judgeHistories(dir, o.listKept())
	case o.runs > 0:
		return o.judgeHistories(dir, o.listRuns())
	case len(files) > 0:
		return o.judgeHistories(dir, o.listFiles(files))
	default:
		return fmt.Errorf("nothing to validate: pass files with histories, or set -runs or -replay")
	}
}
