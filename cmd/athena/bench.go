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
	"github.com/athena-go/athena/internal/bench"
	"github.com/athena-go/athena/member"
)

const (
	// maxPayloadBytes leaves room for what carries a payload.
	maxPayloadBytes = cluster.MaxEventBytes - 1<<10
	// maxWorkers is far below what one node may send at once to all others.
	maxWorkers = cluster.MaxSending / 8
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure clusters of real processes on this machine (on Linux)",
		Long: "bench runs nodes, each a process of its own, on loopback addresses, and measures them.\n" +
			"It prints tables, and writes each single result to a file of JSON lines, of which the\n" +
			"first describes the machine. The help of each measurement says what its columns mean.",
		Example: "  athena bench failover --size 3,5 --reps 20\n  athena bench idle -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			all := strings.Join(names, ", ")
			if len(args) == 0 {
				return cli.Usage(fmt.Errorf("say what to measure: %s", all))
			}
			return cli.Usage(fmt.Errorf("%q is nothing to measure: must be one of %s", args[0], all))
		},
	}
	for _, m := range bench.Measurements() {
		cmd.AddCommand(newMeasurement(m))
	}
	return cmd
}

// newMeasurement makes the verb of one measurement, with the flags that it has a
// use for.
func newMeasurement(m bench.Measurement) *cobra.Command {
	o := m.Defaults
	var output string
	cmd := &cobra.Command{
		Use:     m.Name,
		Short:   m.About,
		Long:    m.Name + ": " + m.About + ".\n\n" + columnHelp(m),
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
	f.IntSliceVarP(&o.Sizes, "size", "n", o.Sizes, "numbers of nodes, each measured by itself")
	f.IntVar(&o.Seeds, "seeds", o.Seeds, "how many nodes of each cluster are seeds, 0 for all")
	f.IntVar(&o.Reps, "reps", o.Reps, "repetitions of each case")
	if len(o.Signals) > 0 {
		f.StringSliceVar(&o.Signals, "signals", o.Signals,
			"how a process dies: "+strings.Join(m.Defaults.Signals, ", ")+"; or several")
	}
	if len(o.PayloadBytes) > 0 {
		f.IntSliceVar(&o.PayloadBytes, "payload-bytes", o.PayloadBytes, "sizes of the payload")
		f.BoolVar(&o.OwnEncoding, "own-encoding", o.OwnEncoding,
			"events encode themselves (AppendBinary), without reflection")
	}
	if len(o.Workers) > 0 {
		f.IntSliceVar(&o.Workers, "workers", o.Workers, "numbers of goroutines that work side by side")
	}
	if o.Jobs > 0 {
		f.IntVar(&o.Jobs, "jobs", o.Jobs, "how many jobs")
	}
	if o.For > 0 {
		f.DurationVar(&o.For, "for", o.For, "how long each case is measured")
	}
	f.StringVar(&o.Dir, "dir", o.Dir, "where stores are made; on a disk, its syncs are measured too")
	f.StringVar(&o.Out, "out", o.Out, "file for the results; what it had is replaced")
	f.StringVarP(&output, "output", "o", "table", "table, or json: the lines of the file")
	for _, t := range settings.Timings(&o.Config) {
		f.DurationVar(t.Value, t.Flag, *t.Value, t.Use)
	}
	f.BoolVar(&o.Config.TrustRefusal, "trust-refusal", o.Config.TrustRefusal,
		"take a leader for lost once its host refuses the port")
	return cmd
}

// columnHelp says what the tables of a measurement are.
func columnHelp(m bench.Measurement) string {
	var b strings.Builder
	b.WriteString("Its tables have a row for each case, of which count says how many results there " +
		"are. The columns before count say which case it is; of the others each has a table:\n")
	for _, c := range m.Columns() {
		fmt.Fprintf(&b, "\n  %-17s %s", c.Name, wrapText(c.Means, 20))
	}
	return b.String()
}

// checkBench says what is wrong with settings in the words of the flags.
func checkBench(o bench.Options, m bench.Measurement, f *pflag.FlagSet) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	within := func(flag string, values []int, low, high int) {
		check(len(values) > 0, "--%s: must have at least one number", flag)
		for _, v := range values {
			check(v >= low && v <= high, "--%s %d: must be between %d and %d", flag, v, low, high)
		}
	}
	within("size", o.Sizes, m.Least, cluster.MaxSize)
	within("seeds", []int{o.Seeds}, 0, cluster.MaxSize)
	check(o.Reps >= 1, "--reps %d: must be at least 1", o.Reps)
	if f.Lookup("signals") != nil {
		ways := strings.Join(m.Defaults.Signals, " or ")
		check(len(o.Signals) > 0, "--signals: must have some of: %s", ways)
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
	case f.Lookup("workers") != nil: // of all nodes together
		within("workers", o.Workers, 1, maxWorkers*m.Least)
	}
	if f.Lookup("jobs") != nil {
		within("jobs", []int{o.Jobs}, 1, member.MaxRecords)
	}
	if f.Lookup("for") != nil {
		check(o.For > 0, "--for %v: must be above 0", o.For)
	}
	c := o.Config // the rest is chosen for each cluster
	c.Addr, c.Size = "127.0.0.1:7000", 1
	if err := c.Validate(); err != nil {
		faults = append(faults, settings.InFlags(err, f))
	}
	return errors.Join(faults...)
}
