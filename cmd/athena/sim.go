// SPDX-License-Identifier: Apache-2.0

// athena sim: simulate clusters under faults, and check that all guarantees hold.

package main

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/test/sim"
)

// traceTail is the number of events printed from the end of a failed run. Keep-alives and their
// acks do not count.
const traceTail = 400

// simulation holds the flags of sim.
type simulation struct {
	options  sim.Options
	runs     int
	budget   time.Duration
	replay   string // file with the run to repeat
	shrink   string // file to write the first failed run to
	history  string // format in which every event is printed, or empty
	coverage bool
}

// shrinkTime limits the time spent on shrinking a failed run.
const shrinkTime = 2 * time.Minute

func newSim() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "simulate clusters under faults and check the invariants",
		Long: "sim runs clusters in virtual time with network, disk and clock faults, and checks\n" +
			"the invariants after every step. The seed determines the whole run. At the first run that\n" +
			"violates an invariant, sim prints the events, the invariant and the command that repeats\n" +
			"the run, and exits with 1.",
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
			return s.runSeeds(cmd.OutOrStdout(), s.reportWriter(cmd))
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&s.options.Seed, "seed", 0, "first seed (default random)")
	f.IntVar(&s.runs, "runs", 100, "number of runs with consecutive seeds; 1 if --seed is set")
	f.IntVar(&s.options.Size, "size", 0,
		fmt.Sprintf("number of members, 1 to %d (default chosen by the seed)", sim.MaxSize))
	f.DurationVar(&s.options.For, "for", 0,
		"virtual time with faults (default chosen by the seed)")
	f.DurationVar(&s.budget, "budget", 0,
		"stop after this CPU time, summed over all cores (default no limit)")
	f.StringVar(&s.replay, "replay", "", "repeat only the run in this file")
	f.StringVar(&s.shrink, "shrink", "",
		"shrink the first failed run and write it to this file, for --replay; "+
			"the file is unchanged if no run fails")
	f.StringVar(&s.history, "history", "",
		"print every event of a single run as text, or its steps as json; needs --seed or --replay")
	f.Lookup("history").NoOptDefVal = historyText
	f.BoolVar(&s.coverage, "coverage", false,
		"count the runs that reached each rule after each fault; fail if any count is 0")
	return cmd
}

// checkFlags validates the options. Its errors name the flags.
func (s simulation) checkFlags() error {
	o := s.options
	switch {
	case o.Size < 0 || o.Size > sim.MaxSize:
		return fmt.Errorf("--size %d: must be between 0 and %d", o.Size, sim.MaxSize)
	case o.For < 0 || o.For > sim.MaxFor:
		return fmt.Errorf("--for %v: must be between 0 and %v", o.For, sim.MaxFor)
	case s.budget < 0:
		return fmt.Errorf("--budget %v: must not be negative", s.budget)
	case s.runs < 1:
		return fmt.Errorf("--runs %d: must be at least 1", s.runs)
	case o.Seed+uint64(s.runs)-1 < o.Seed:
		return fmt.Errorf("--seed %d --runs %d: the last seed would be greater than %d",
			o.Seed, s.runs, uint64(math.MaxUint64))
	case !slices.Contains([]string{"", historyText, historyJSON}, s.history):
		return fmt.Errorf("--history=%s: must be %s or %s", s.history, historyText, historyJSON)
	case s.history != "" && s.runs > 1:
		return errors.New("--history prints a single run: set --seed, and omit --runs and --budget")
	default:
		return nil
	}
}

// randomSeed returns a seed below 2^31, so that the seeds of later runs do not overflow.
func randomSeed() uint64 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return uint64(binary.BigEndian.Uint32(b[:])) % (math.MaxUint32 / 2)
}

// checkWritable reports, before any run starts, whether the --shrink file can be written. It does
// not change the file, which is not needed if no run fails.
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

// The forms of a history.
const (
	historyText = "text"
	historyJSON = "json"
)

// reportWriter returns where the result of a run is printed. Steps are printed alone, so that
// programs can read them.
func (s simulation) reportWriter(cmd *cobra.Command) io.Writer {
	if s.history == historyJSON {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

func (s simulation) runSeeds(history, out io.Writer) error {
	end := func() {}
	if s.history != "" {
		s.options.Record, end = s.historyPrinter(history)
	}
	report := sim.Sweep(sim.Sweeping{
		Options: s.options, Runs: s.runs, Budget: s.budget, Failures: 1,
	})
	end()
	if s.history != "" {
		fmt.Fprintln(out)
	}
	return s.printEnd(out, report)
}

// printEnd prints the result of the runs, and writes a failed run to the --shrink file.
func (s simulation) printEnd(out io.Writer, report sim.Report) error {
	if report.Runs == 0 {
		return fmt.Errorf("--budget %v: too short for a single run; nothing was checked", s.budget)
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

// checkCovered returns an error if the coverage table has empty cells.
func checkCovered(empty []sim.Cell) error {
	if len(empty) == 0 {
		return nil
	}
	const most = 20 // the coverage table shows all of them
	var cells []string
	for _, c := range empty[:min(len(empty), most)] {
		cells = append(cells, c.String())
	}
	if more := len(empty) - len(cells); more > 0 {
		cells = append(cells, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("no run reached %d cells of the table: %s "+
		"(use more runs; an hour of CPU time, --budget 1h, fills the table)",
		len(empty), strings.Join(cells, ", "))
}

// keepFailure shrinks the failed run and writes it to the --shrink file.
func (s simulation) keepFailure(out io.Writer, report sim.Report) error {
	if len(report.Failed) == 0 {
		fmt.Fprintf(out, "%s is unchanged: no run failed\n", s.shrink)
		return nil
	}
	fmt.Fprintf(out, "\nshrinking the run for at most %v\n", shrinkTime)
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
	fmt.Fprintf(out, "wrote %s: %d faults, %d messages; repeat it with: %s sim --replay %s\n",
		file, len(r.Faults), len(r.Fates), cli.Self(), file)
	return nil
}

// replayFile repeats the run in the --replay file and prints its result.
func (s simulation) replayFile(cmd *cobra.Command) error {
	out := s.reportWriter(cmd)
	for _, other := range []string{
		"seed", "runs", "size", "for", "budget", "shrink", "coverage",
	} {
		if cmd.Flags().Changed(other) {
			return cli.Usage(fmt.Errorf("--replay %s contradicts --%s: remove --%s", s.replay, other,
				other))
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
	if s.history != "" {
		record, end = s.historyPrinter(cmd.OutOrStdout())
	}
	result := sim.Reproduce(r, record)
	if result.Violation != nil || s.history != "" {
		end()
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, result)
	if result.Violation == nil {
		fmt.Fprintf(out, "no violation; the file was recorded for: %s\n", r.Note)
		return nil
	}
	return fmt.Errorf("%s violates %s", s.replay, result.Violation.Invariant)
}

// maxReplayBytes is far above the size of any recorded run.
const maxReplayBytes = 64 << 20

func readReplay(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxReplayBytes+1))
	if len(content) > maxReplayBytes {
		err = fmt.Errorf("--replay %s: larger than %d MiB, so it is not a recorded run",
			file, maxReplayBytes>>20)
	}
	return content, err
}

// printReport prints a report. If --history has not already printed the events that led to a
// failure, printReport prints them first, so that the report is at the end of the output.
func (s simulation) printReport(out io.Writer, report sim.Report) error {
	if len(report.Failed) == 0 {
		fmt.Fprintln(out, report)
		return nil
	}
	failed := report.Failed[0]
	if s.history == "" {
		printTrace(out, failed.Options)
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, report)
	return fmt.Errorf("seed %d violates %s; repeat the run with: %s%s", failed.Options.Seed,
		failed.Violation.Invariant, cli.Self(), strings.TrimPrefix(failed.Options.Replay(), "athena"))
}

// historyPrinter returns functions that print each event, or each step, and that flush the output.
func (s simulation) historyPrinter(out io.Writer) (record func(sim.Record), end func()) {
	b := bufio.NewWriter(out)
	steps := json.NewEncoder(b)
	record = func(r sim.Record) {
		switch isStep := r.Kind == sim.Stepped; {
		case isStep && s.history == historyJSON:
			_ = steps.Encode(r.Step) // the reader may have closed the pipe
		case !isStep && s.history == historyText:
			fmt.Fprintln(b, r)
		}
	}
	return record, func() { _ = b.Flush() } // the reader may have closed the pipe
}

// printTrace repeats a run and prints the last events.
func printTrace(out io.Writer, o sim.Options) {
	t := &tail{}
	o.Record = t.addRecord
	sim.Run(o)
	t.printTail(out)
}

// tail keeps the last records of a history, except keep-alives and their acks.
type tail struct {
	last  []tailRecord
	all   int // number of records, including those no longer in last
	beats int // number of keep-alives and acks
}

// tailRecord is a record, with the number of keep-alives and acks before it.
type tailRecord struct {
	sim.Record
	beats int
}

func (t *tail) addRecord(r sim.Record) {
	switch {
	case r.Kind == sim.Stepped:
		return
	case r.IsPeriodic():
		t.beats++
		return
	}
	if len(t.last) == 2*traceTail {
		t.last = append(t.last[:0], t.last[traceTail:]...)
	}
	t.last = append(t.last, tailRecord{r, t.beats})
	t.all++
}

func (t *tail) printTail(out io.Writer) {
	last := t.last[max(0, len(t.last)-traceTail):]
	if len(last) == 0 {
		return
	}
	fmt.Fprintf(out, "the last %d of %d events, omitting %d keep-alives and their acks "+
		"(--history prints all)\n", len(last), t.all, t.beats-last[0].beats)
	for _, r := range last {
		fmt.Fprintln(out, r.Record)
	}
}
