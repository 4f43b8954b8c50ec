// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/sim"
)

// traceTail is how many of the last things that happened are printed of a run
// that failed.
const traceTail = 400

// simulation are the flags of sim.
type simulation struct {
	options sim.Options
	runs    int
}

func newSim() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "simulate clusters under faults and check what they promise",
		Long: "sim runs clusters in virtual time, on a network, disks and clocks that fail, and\n" +
			"checks after every step what Athena promises. A seed is a run; the same seed is the\n" +
			"same run. It ends with 0 when all runs were clean. It ends with 1 at a run that was\n" +
			"not, after it printed what happened, what broke, and the command that repeats it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				s.options.Seed = randomSeed()
			} else if !cmd.Flags().Changed("runs") {
				s.runs = 1
			}
			if err := s.validate(); err != nil {
				return usageError{err}
			}
			return s.run(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&s.options.Seed, "seed", 0, "first seed (default random)")
	f.IntVar(&s.runs, "runs", 100, "number of seeds, one after the other; 1 where --seed is given")
	f.IntVar(&s.options.Size, "size", 0,
		fmt.Sprintf("number of members, 1 to %d (default drawn from the seed)", sim.MaxSize))
	f.DurationVar(&s.options.For, "for", 0,
		"virtual time during which faults happen (default drawn from the seed)")
	return cmd
}

// validate says what sim.Options would say, in the words of the flags.
func (s simulation) validate() error {
	o := s.options
	switch {
	case o.Size < 0 || o.Size > sim.MaxSize:
		return fmt.Errorf("--size %d: must be between 1 and %d, or 0 to draw it", o.Size, sim.MaxSize)
	case o.For < 0 || o.For > sim.MaxFor:
		return fmt.Errorf("--for %v: must be at most %v, or 0 to draw it", o.For, sim.MaxFor)
	case s.runs < 1:
		return fmt.Errorf("--runs %d: must be at least 1", s.runs)
	case o.Seed+uint64(s.runs)-1 < o.Seed:
		return fmt.Errorf("--seed %d --runs %d: the last seed would be greater than %d",
			o.Seed, s.runs, uint64(math.MaxUint64))
	default:
		return nil
	}
}

// randomSeed leaves room for the seeds that follow it.
func randomSeed() uint64 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return uint64(binary.BigEndian.Uint32(b[:])) % (math.MaxUint32 / 2)
}

func (s simulation) run(out io.Writer) error {
	return show(out, sim.Sweep(sim.Sweeping{Options: s.options, Runs: s.runs, Failures: 1}))
}

// show prints a report. What happened before a failure comes first, since it is
// long.
func show(out io.Writer, report sim.Report) error {
	if len(report.Failed) == 0 {
		fmt.Fprintln(out, report)
		return nil
	}
	failed := report.Failed[0]
	printTrace(out, failed.Options)
	fmt.Fprintf(out, "\n%v\n", report)
	return fmt.Errorf("seed %d broke %s; the same run again: %s%s", failed.Options.Seed,
		failed.Violation.Invariant, self(), strings.TrimPrefix(failed.Options.Replay(), "athena"))
}

// printTrace runs a seed again and prints how it ended.
func printTrace(out io.Writer, o sim.Options) {
	var last []sim.Record
	o.Record = func(r sim.Record) {
		if len(last) == 2*traceTail {
			last = append(last[:0], last[traceTail:]...)
		}
		last = append(last, r)
	}
	sim.Run(o)
	for _, r := range last[max(0, len(last)-traceTail):] {
		fmt.Fprintln(out, r)
	}
}
