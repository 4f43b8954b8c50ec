// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/athena-go/athena/cluster"
)

// maxNodes is the largest cluster here.
const maxNodes = 9

// options are the flags of run and soak.
type options struct {
	nodes  int
	seed   uint64
	length time.Duration
	out    string // folder of the evidence
	athena string // program of the last node, empty for none
	soak   bool
	// What a run must show, or it has proved nothing.
	minFaults, minChanges int
	config                cluster.Config // timings
}

// flags are those of a command, and the options that they set.
func flags(name string) (*flag.FlagSet, *options) {
	f := flag.NewFlagSet("chaos "+name, flag.ExitOnError)
	o := &options{config: cluster.DefaultConfig(), soak: name == "soak"}
	length := 5 * time.Minute
	if o.soak {
		length = 2 * time.Hour
	}
	f.IntVar(&o.nodes, "n", 5, fmt.Sprintf("number of nodes, 1 to %d", maxNodes))
	f.Uint64Var(&o.seed, "seed", 0, "of the plan of faults; 0 draws one")
	f.DurationVar(&o.length, "for", length, "how long faults happen")
	f.StringVar(&o.out, "out", "", "folder for the evidence (default under results/chaos)")
	f.StringVar(&o.athena, "athena", "", "the last of several nodes is this daemon (bin/athena)")
	f.IntVar(&o.minFaults, "min-faults", -1, "the least faults that must happen; -1 for 12 a minute")
	f.IntVar(&o.minChanges, "min-changes", -1, "the least changes of the leader; -1 for 2 a minute")
	const timing = "timing of the nodes, as of athena run"
	f.DurationVar(&o.config.HeartbeatInterval, "interval", o.config.HeartbeatInterval, timing)
	f.DurationVar(&o.config.HeartbeatTimeout, "heartbeat-timeout", o.config.HeartbeatTimeout, timing)
	f.DurationVar(&o.config.LeaderTimeout, "leader-timeout", o.config.LeaderTimeout, timing)
	f.DurationVar(&o.config.TTLTimeout, "ttl-timeout", o.config.TTLTimeout, timing)
	f.DurationVar(&o.config.RetryInterval, "retry-interval", o.config.RetryInterval, timing)
	return f, o
}

// help lists the commands and the flags of each.
func help(w io.Writer) {
	fmt.Fprint(w, "chaos run [flags]   faults for a while, then everybody must be active\n"+
		"chaos soak [flags]  the same for hours, and whether anything leaks\n"+
		"chaos check DIR     the evidence of an earlier run again; no flags\n"+
		"chaos clean         what a run that was killed left behind; no flags\n")
	for _, name := range []string{"run", "soak"} {
		fmt.Fprintf(w, "\nflags of chaos %s:\n", name)
		f, _ := flags(name)
		f.SetOutput(w)
		f.PrintDefaults()
	}
}

// parse reads the flags. The least numbers of faults and changes are those of
// the time that is asked for: 60 and 10 in five minutes.
func parse(name string, args []string) (options, error) {
	f, set := flags(name)
	err := f.Parse(args)
	o := *set
	if err != nil {
		return o, err
	}
	if o.athena != "" {
		if _, err := os.Stat(o.athena); err != nil {
			return o, fmt.Errorf("-athena: %w", err)
		}
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: only flags are read", f.Arg(0))
	case o.nodes < 1 || o.nodes > maxNodes:
		return o, fmt.Errorf("-n %d: must be 1 to %d", o.nodes, maxNodes)
	case o.length <= 0:
		return o, fmt.Errorf("-for %v: must be above 0", o.length)
	}
	for o.seed == 0 {
		o.seed = rand.Uint64() >> 32 // short enough to be typed
	}
	if o.out == "" {
		o.out = filepath.Join("results", "chaos", time.Now().UTC().Format("20060102-150405"))
	}
	if o.minFaults < 0 {
		o.minFaults = int(12 * o.length.Minutes())
	}
	if o.minChanges < 0 {
		o.minChanges = int(2 * o.length.Minutes())
	}
	return o, nil
}
