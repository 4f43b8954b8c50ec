// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/sim"
)

// traceTail is how many of the last things that happened are printed of a run
// that failed.
const traceTail = 400

// simulation are the flags of sim.
type simulation struct {
	options  sim.Options
	runs     int
	budget   time.Duration
	replay   string // file to do again
	shrink   string // file for the first run that fails
	coverage bool
}

// shrinkTime is how long a failed run is made smaller.
const shrinkTime = 2 * time.Minute

func newSim() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "simulate clusters under faults and check what they promise",
		Long: "sim runs clusters in virtual time, on a network, disks and clocks that fail, and\n" +
			"checks after every step what Athena promises. A seed is a run; the same seed is the\n" +
			"same run. It ends with 0 when all runs were clean. It ends with 1 at a run that was\n" +
			"not, after it printed what happened, what broke, and the command that repeats it.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.replay != "" {
				return again(cmd.OutOrStdout(), s.replay)
			}
			switch changed := cmd.Flags().Changed; {
			case changed("runs"):
			case s.budget > 0:
				s.runs = math.MaxInt
			case changed("seed"):
				s.runs = 1
			}
			if !cmd.Flags().Changed("seed") {
				s.options.Seed = randomSeed()
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
	f.DurationVar(&s.budget, "budget", 0,
		"end once the runs took so much time, on all cores together (default no end)")
	f.StringVar(&s.replay, "replay", "", "do the run again that this file has, and nothing else")
	f.StringVar(&s.shrink, "shrink", "",
		"make the first run that fails smaller, and write it to this file for --replay")
	f.BoolVar(&s.coverage, "coverage", false,
		"print how many runs reached each rule after each fault; fail where none did")
	cmd.MarkFlagsMutuallyExclusive("replay", "shrink")
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
	case s.budget < 0:
		return fmt.Errorf("--budget %v: must not be negative", s.budget)
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
	report := sim.Sweep(sim.Sweeping{
		Options: s.options, Runs: s.runs, Budget: s.budget, Failures: 1,
	})
	if len(report.Failed) > 0 && s.shrink != "" {
		if err := writeShrunk(s.shrink, report.Failed[0]); err != nil {
			return err
		}
	}
	if err := show(out, report); err != nil || !s.coverage {
		return err
	}
	fmt.Fprintf(out, "\n%v", report.Cover)
	if empty := report.Cover.Empty(); len(empty) > 0 {
		return fmt.Errorf("%d cells of the table are empty: %v", len(empty), empty)
	}
	return nil
}

// writeShrunk writes a failed run to a file, as small as it gets.
func writeShrunk(file string, failed sim.Result) error {
	_, r := sim.Capture(failed.Options)
	content, err := sim.Shrink(r, shrinkTime).Format()
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// again does the run of a file and prints how it ended.
func again(out io.Writer, file string) error {
	content, err := readReplay(file)
	if err != nil {
		return usageError{err}
	}
	r, err := sim.ParseReplay(content)
	if err != nil {
		return usageError{fmt.Errorf("--replay %s: %w", file, err)}
	}
	t := &tail{}
	result := sim.Reproduce(r, t.add)
	if result.Violation == nil {
		fmt.Fprintf(out, "%v\nclean; the file was kept for: %s\n", result, r.Note)
		return nil
	}
	t.print(out)
	fmt.Fprintf(out, "\n%v\n", result)
	return fmt.Errorf("%s broke %s", file, result.Violation.Invariant)
}

// maxReplayBytes is far above what any run that is written down takes.
const maxReplayBytes = 64 << 20

func readReplay(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxReplayBytes+1))
	if len(content) > maxReplayBytes {
		err = fmt.Errorf("--replay %s: above %d MiB, which no run takes", file, maxReplayBytes>>20)
	}
	return content, err
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
	t := &tail{}
	o.Record = t.add
	sim.Run(o)
	t.print(out)
}

// tail keeps the end of a history.
type tail struct{ last []sim.Record }

func (t *tail) add(r sim.Record) {
	if len(t.last) == 2*traceTail {
		t.last = append(t.last[:0], t.last[traceTail:]...)
	}
	t.last = append(t.last, r)
}

func (t *tail) print(out io.Writer) {
	for _, r := range t.last[max(0, len(t.last)-traceTail):] {
		fmt.Fprintln(out, r)
	}
}
