// SPDX-License-Identifier: Apache-2.0

// athena bench: measure clusters of real processes on this machine.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/bench"
)

const (
	// maxPayloadBytes leaves 1 KiB for the encoding around the payload.
	maxPayloadBytes = cluster.MaxEventBytes - 1<<10
	// maxWorkers is far below cluster.MaxSending, so that no send fails with cluster.ErrBusy.
	maxWorkers = cluster.MaxSending / 8
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "benchmark clusters of real processes on this machine (Linux only)",
		Long: "bench runs nodes as separate processes on loopback addresses and measures them. It\n" +
			"prints tables and writes every result to a file of JSON lines, which begins with a\n" +
			"description of the machine. The help of each measurement explains its columns.",
		Example: "  athena bench failover --size 3,5 --reps 20\n  athena bench idle -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			all := strings.Join(names, ", ")
			if len(args) == 0 {
				return cli.Usage(fmt.Errorf("measurement missing: must be one of %s", all))
			}
			return cli.Usage(fmt.Errorf("unknown measurement %q: must be one of %s", args[0], all))
		},
	}
	for _, m := range bench.Measurements() {
		cmd.AddCommand(newMeasurement(m))
	}
	return cmd
}

// newMeasurement returns the command for one measurement, with the flags that apply to it.
func newMeasurement(m bench.Measurement) *cobra.Command {
	o := m.Defaults
	var output string
	cmd := &cobra.Command{
		Use:     m.Name,
		Short:   m.About,
		Long:    columnHelp(m),
		Example: "  athena bench " + m.Name + " --size 3 --reps 2",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckOutput(output); err != nil {
				return err
			}
			o.JSON = output == "json"
			if err := checkBench(o, m, cmd.Flags()); err != nil {
				return cli.Usage(err)
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return bench.Run(ctx, m.Name, o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntSliceVarP(&o.Sizes, "size", "n", o.Sizes, "cluster sizes to measure")
	f.IntVar(&o.Seeds, "seeds", o.Seeds, "number of seeds in each cluster; 0 means all nodes")
	f.IntVar(&o.Reps, "reps", o.Reps, "repetitions of each case")
	if len(o.Signals) > 0 {
		f.StringSliceVar(&o.Signals, "signals", o.Signals,
			"signals that end a process: "+strings.Join(m.Defaults.Signals, ", "))
	}
	f.BoolVar(&o.Guards, "guards", false, "give each node a guard, which announces its end")
	if len(o.PayloadBytes) > 0 {
		f.IntSliceVar(&o.PayloadBytes, "payload-bytes", o.PayloadBytes,
			"payload sizes to measure, in bytes")
		f.BoolVar(&o.OwnEncoding, "own-encoding", o.OwnEncoding,
			"let events encode themselves with AppendBinary, without reflection")
	}
	if len(o.Workers) > 0 {
		f.IntSliceVar(&o.Workers, "workers", o.Workers, "goroutines to run concurrently in each case")
	}
	if o.Jobs > 0 {
		f.IntVar(&o.Jobs, "jobs", o.Jobs, "number of jobs")
	}
	if o.For > 0 {
		f.DurationVar(&o.For, "for", o.For, "duration of each case")
	}
	f.StringVar(&o.Dir, "dir", o.Dir,
		"parent of the data directories; on a disk, the results include syncs")
	f.StringVar(&o.Out, "out", o.Out, "file to write the results to; it is overwritten")
	f.StringVarP(&output, "output", "o", "table", "table, or json for the same lines as in --out")
	for _, t := range settings.Timings(&o.Config) {
		f.DurationVar(t.Value, t.Flag, *t.Value, t.Use)
	}
	f.BoolVar(&o.Config.TrustRefusal, "trust-refusal", o.Config.TrustRefusal,
		"treat a leader as lost as soon as its host refuses packets to its port")
	return cmd
}

// columnHelp describes the tables of a measurement.
func columnHelp(m bench.Measurement) string {
	var b strings.Builder
	b.WriteString("The output has one table for each measured value, with one row for each case. " +
		"The columns before count identify the case, and count is the number of results:\n")
	for _, c := range m.Columns() {
		fmt.Fprintf(&b, "\n  %-17s %s", c.Name, wrapText(c.Means, 20))
	}
	return b.String()
}

// checkBench returns every error in the flags of a measurement.
func checkBench(o bench.Options, m bench.Measurement, f *pflag.FlagSet) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	within := func(flag string, values []int, low, high int) {
		check(len(values) > 0, "--%s: needs at least one number", flag)
		for _, v := range values {
			check(v >= low && v <= high, "--%s %d: must be between %d and %d", flag, v, low, high)
		}
	}
	within("size", o.Sizes, m.Least, cluster.MaxSize)
	within("seeds", []int{o.Seeds}, 0, cluster.MaxSize)
	check(o.Reps >= 1, "--reps %d: must be at least 1", o.Reps)
	if f.Lookup("signals") != nil {
		ways := strings.Join(m.Defaults.Signals, " or ")
		check(len(o.Signals) > 0, "--signals: needs at least one of %s", ways)
		for _, s := range o.Signals {
			check(slices.Contains(m.Defaults.Signals, s), "--signals %q: must be %s", s, ways)
		}
	}
	if f.Lookup("payload-bytes") != nil {
		within("payload-bytes", o.PayloadBytes, 0, maxPayloadBytes)
	}
	switch {
	case f.Lookup("payload-bytes") != nil:
		within("workers", o.Workers, 1, maxWorkers)
	case f.Lookup("workers") != nil: // workers are distributed over all nodes
		within("workers", o.Workers, 1, maxWorkers*m.Least)
	}
	if f.Lookup("jobs") != nil {
		within("jobs", []int{o.Jobs}, 1, member.MaxRecords)
	}
	if f.Lookup("for") != nil {
		check(o.For > 0, "--for %v: must be positive", o.For)
	}
	c := o.Config // each cluster sets its own addresses and size
	c.Addr, c.Size = "127.0.0.1:7000", 1
	if err := c.Validate(); err != nil {
		faults = append(faults, settings.InFlags(err, f))
	}
	return errors.Join(faults...)
}
