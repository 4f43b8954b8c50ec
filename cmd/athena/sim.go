// SPDX-License-Identifier: Apache-2.0

// athena sim: simulate clusters under faults, and check that every promise holds.

package main

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/sim"
)

// traceTail is how many of the last things that happened are printed of a run
// that failed, keep-alives and their acks left out.
const traceTail = 400

// simulation are the flags of sim.
type simulation struct {
	options  sim.Options
	runs     int
	budget   time.Duration
	replay   string // file to do again
	shrink   string // file for the first run that fails
	history  bool   // print everything that happens
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
		Example: "  athena sim --runs 1000 --size 5 --for 10m\n" +
			"  athena sim --seed 7 --history\n" +
			"  athena sim --seed 7 --shrink found.json && athena sim --replay found.json",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("replay") {
				return s.replayFile(cmd)
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
			if err := errors.Join(s.checkFlags(), s.checkWritable()); err != nil {
				return cli.Usage(err)
			}
			return s.runSeeds(cmd.OutOrStdout())
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
		"make the first run that fails smaller, and write it to this file for --replay; "+
			"what the file had is replaced, and kept where all runs are clean")
	f.BoolVar(&s.history, "history", false,
		"print everything that happens; for one run: --seed, or --replay")
	f.BoolVar(&s.coverage, "coverage", false,
		"print how many runs reached each rule after each fault; fail where none did")
	return cmd
}

// checkFlags says what sim.Options would say, in the words of the flags.
func (s simulation) checkFlags() error {
	o := s.options
	switch {
	case o.Size < 0 || o.Size > sim.MaxSize:
		return fmt.Errorf("--size %d: must be between 1 and %d, or 0 to draw it", o.Size, sim.MaxSize)
	case o.For < 0 || o.For > sim.MaxFor:
		return fmt.Errorf("--for %v: must be above 0 and at most %v, or 0 to draw it", o.For, sim.MaxFor)
	case s.budget < 0:
		return fmt.Errorf("--budget %v: must not be negative", s.budget)
	case s.runs < 1:
		return fmt.Errorf("--runs %d: must be at least 1", s.runs)
	case o.Seed+uint64(s.runs)-1 < o.Seed:
		return fmt.Errorf("--seed %d --runs %d: the last seed would be greater than %d",
			o.Seed, s.runs, uint64(math.MaxUint64))
	case s.history && s.runs > 1:
		return errors.New("--history: is of one run: give its --seed, and neither --runs nor --budget")
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

// checkWritable finds out before the runs whether the file of --shrink can be written.
// It leaves the file as it is: the runs may be clean.
func (s simulation) checkWritable() error {
	if s.shrink == "" {
		return nil
	}
	_, err := os.Lstat(s.shrink)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(s.shrink, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = f.Close()
	}
	if err == nil && isNew {
		err = os.Remove(s.shrink)
	}
	if err != nil {
		return fmt.Errorf("--shrink: %w", err)
	}
	return nil
}

func (s simulation) runSeeds(out io.Writer) error {
	end := func() {}
	if s.history {
		s.options.Record, end = historyPrinter(out)
	}
	report := sim.Sweep(sim.Sweeping{
		Options: s.options, Runs: s.runs, Budget: s.budget, Failures: 1,
	})
	end()
	if s.history {
		fmt.Fprintln(out)
	}
	return s.printEnd(out, report)
}

// printEnd prints how the runs ended, and writes the one that failed.
func (s simulation) printEnd(out io.Writer, report sim.Report) error {
	if report.Runs == 0 {
		return fmt.Errorf("--budget %v: too short for a single run, so nothing was checked", s.budget)
	}
	err := s.printReport(out, report)
	if s.shrink != "" {
		err = errors.Join(err, s.keepFailure(out, report))
	}
	if err != nil || !s.coverage {
		return err
	}
	fmt.Fprintf(out, "\n%v", report.Cover)
	return checkCovered(report.Cover.Empty())
}

// checkCovered is an error where a cell of the table has no run.
func checkCovered(empty []sim.Cell) error {
	if len(empty) == 0 {
		return nil
	}
	const most = 20 // the table has them all
	var cells []string
	for _, c := range empty[:min(len(empty), most)] {
		cells = append(cells, c.String())
	}
	if more := len(empty) - len(cells); more > 0 {
		cells = append(cells, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("no run reached this, %d of the cells of the table: %s "+
		"(few runs leave some empty; an hour of CPU time, --budget 1h, does not)",
		len(empty), strings.Join(cells, ", "))
}

// keepFailure writes the failed run to the file of --shrink, as small as it gets.
func (s simulation) keepFailure(out io.Writer, report sim.Report) error {
	if len(report.Failed) == 0 {
		fmt.Fprintf(out, "nothing was written to %s: no run failed\n", s.shrink)
		return nil
	}
	fmt.Fprintf(out, "\nmakes the run smaller, for at most %v\n", shrinkTime)
	_, r := sim.Capture(report.Failed[0].Options)
	r = sim.Shrink(r, shrinkTime)
	content, err := r.Format()
	if err == nil {
		err = os.WriteFile(s.shrink, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("--shrink: %w", err)
	}
	file := cli.ShellWord(s.shrink)
	fmt.Fprintf(out, "written to %s: faults %d, messages %d; %s sim --replay %s does it again\n",
		file, len(r.Faults), len(r.Fates), cli.Self(), file)
	return nil
}

// replayFile does the run of a file and prints how it ended.
func (s simulation) replayFile(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	for _, other := range []string{
		"seed", "runs", "size", "for", "budget", "shrink", "coverage",
	} {
		if cmd.Flags().Changed(other) {
			return cli.Usage(fmt.Errorf("--replay %s: the file settles the whole run: leave --%s out",
				s.replay, other))
		}
	}
	content, err := readReplay(s.replay)
	if err != nil {
		return cli.Usage(err)
	}
	r, err := sim.ParseReplay(content)
	if err != nil {
		return cli.Usage(fmt.Errorf("--replay %s: %w", s.replay, err))
	}
	t := &tail{}
	record, end := t.addRecord, func() { t.printTail(out) }
	if s.history {
		record, end = historyPrinter(out)
	}
	result := sim.Reproduce(r, record)
	if result.Violation != nil || s.history {
		end()
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, result)
	if result.Violation == nil {
		fmt.Fprintf(out, "clean; the file was kept for: %s\n", r.Note)
		return nil
	}
	return fmt.Errorf("%s broke %s", s.replay, result.Violation.Invariant)
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

// printReport prints a report. What happened before a failure comes first, since it is
// long, unless all of the history was printed.
func (s simulation) printReport(out io.Writer, report sim.Report) error {
	if len(report.Failed) == 0 {
		fmt.Fprintln(out, report)
		return nil
	}
	failed := report.Failed[0]
	if !s.history {
		printTrace(out, failed.Options)
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, report)
	return fmt.Errorf("seed %d broke %s; the same run again: %s%s", failed.Options.Seed,
		failed.Violation.Invariant, cli.Self(), strings.TrimPrefix(failed.Options.Replay(), "athena"))
}

// historyPrinter prints a history as it comes; end writes the rest of it.
func historyPrinter(out io.Writer) (record func(sim.Record), end func()) {
	b := bufio.NewWriter(out)
	record = func(r sim.Record) { fmt.Fprintln(b, r) }
	return record, func() { _ = b.Flush() } // who reads no more wants no more
}

// printTrace runs a seed again and prints how it ended.
func printTrace(out io.Writer, o sim.Options) {
	t := &tail{}
	o.Record = t.addRecord
	sim.Run(o)
	t.printTail(out)
}

// tail keeps the end of a history, without keep-alives and their acks.
type tail struct {
	last  []told
	all   int // told so far, also what is not kept any more
	beats int // left out so far
}

// told is a record, and how many were left out before it.
type told struct {
	sim.Record
	beats int
}

func (t *tail) addRecord(r sim.Record) {
	if r.IsPeriodic() {
		t.beats++
		return
	}
	if len(t.last) == 2*traceTail {
		t.last = append(t.last[:0], t.last[traceTail:]...)
	}
	t.last = append(t.last, told{r, t.beats})
	t.all++
}

func (t *tail) printTail(out io.Writer) {
	last := t.last[max(0, len(t.last)-traceTail):]
	if len(last) == 0 {
		return
	}
	fmt.Fprintf(out, "the last %d of %d events, and without %d about keep-alives and their acks "+
		"(--history prints all)\n", len(last), t.all, t.beats-last[0].beats)
	for _, r := range last {
		fmt.Fprintln(out, r.Record)
	}
}
