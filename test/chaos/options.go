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

// options are the flags of a command.
type options struct {
	nodes  int
	seed   uint64
	length time.Duration
	out    string // folder of the evidence
	athena string // program of the last node, empty for none
	soak   bool
	events uint64 // that a flood must have taken; 0 for no flood
	stuck  bool   // a handler never returns
	// rate is how many events all nodes together send in a second, 0 for as many as
	// they can.
	rate int
	// handOver is how long nobody may lead when a leader leaves.
	handOver time.Duration
	// payload is the size of the bodies of events, 0 for mixed sizes.
	payload int
	// plain nodes share the loopback of the machine: no faults but of processes.
	plain bool
	// What a run must show, or it has proved nothing.
	minFaults, minChanges int
	config                cluster.Config // timings
}

// commands are those with flags, and how long each goes on.
var commands = []struct {
	name, meaning string
	length        time.Duration
}{
	{"run", "faults for a while, then everybody must be active", 5 * time.Minute},
	{"soak", "the same for hours, and whether anything leaks", 2 * time.Hour},
	{"events", "faults while all send as fast as they can, and what became of each event", time.Hour},
	{"stuck", "a handler that never returns while all send to it, and the memory of it", time.Minute},
	{"rolling", "each node is restarted in order while all send", 20 * time.Second},
}

// makeFlags are those of a command, and the options that they set.
func makeFlags(name string) (*flag.FlagSet, *options) {
	f := flag.NewFlagSet("chaos "+name, flag.ExitOnError)
	o := &options{config: cluster.DefaultConfig(), soak: name == "soak", stuck: name == "stuck"}
	var length time.Duration
	for _, c := range commands {
		if c.name == name {
			length = c.length
		}
	}
	f.StringVar(&o.out, "out", "", "folder for the evidence (default under results/chaos)")
	f.DurationVar(&o.length, "for", length, "how long it goes on; for events, at most")
	const timing = "timing of the nodes, as of athena run"
	f.DurationVar(&o.config.HeartbeatInterval, "interval", o.config.HeartbeatInterval, timing)
	f.DurationVar(&o.config.HeartbeatTimeout, "heartbeat-timeout", o.config.HeartbeatTimeout, timing)
	f.DurationVar(&o.config.LeaderTimeout, "leader-timeout", o.config.LeaderTimeout, timing)
	f.DurationVar(&o.config.TTLTimeout, "ttl-timeout", o.config.TTLTimeout, timing)
	f.DurationVar(&o.config.RetryInterval, "retry-interval", o.config.RetryInterval, timing)
	if name == "rolling" {
		o.plain = true
		f.IntVar(&o.nodes, "n", 5, fmt.Sprintf("number of nodes, 3 to %d", maxNodes))
		f.IntVar(&o.rate, "rate", 1000, "events a second, of all nodes together")
		f.DurationVar(&o.handOver, "hand-over", handOver, "how long nobody may lead at a restart")
		return f, o
	}
	if name == "stuck" {
		o.plain = true
		f.IntVar(&o.nodes, "n", maxStuckNodes, fmt.Sprintf("number of nodes, 2 to %d", maxStuckNodes))
		f.IntVar(&o.payload, "payload", 1024, "bytes of each event")
		return f, o
	}
	f.IntVar(&o.nodes, "n", 5, fmt.Sprintf("number of nodes, 1 to %d", maxNodes))
	f.Uint64Var(&o.seed, "seed", 0, "of the plan of faults; 0 draws one")
	if name == "events" {
		f.Uint64Var(&o.events, "events", 10_000_000, "how many must be taken in all")
		return f, o
	}
	f.StringVar(&o.athena, "athena", "", "the last of several nodes is this daemon (bin/athena)")
	f.IntVar(&o.minFaults, "min-faults", -1, "the least faults that must happen; -1 for 12 a minute")
	f.IntVar(&o.minChanges, "min-changes", -1, "the least changes of the leader; -1 for 2 a minute")
	return f, o
}

// printHelp lists the commands and the flags of each.
func printHelp(w io.Writer) {
	for _, c := range commands {
		fmt.Fprintf(w, "chaos %-6s [flags]  %s\n", c.name, c.meaning)
	}
	fmt.Fprint(w, "chaos check DIR       the evidence of an earlier run again; no flags\n"+
		"chaos clean           what a run that was killed left behind; no flags\n")
	for _, c := range commands {
		fmt.Fprintf(w, "\nflags of chaos %s:\n", c.name)
		f, _ := makeFlags(c.name)
		f.SetOutput(w)
		f.PrintDefaults()
	}
}

// parseFlags reads the flags. The least numbers of faults and changes are those of
// the time that is asked for: 60 and 10 in five minutes.
func parseFlags(name string, args []string) (options, error) {
	f, set := makeFlags(name)
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
	case o.stuck && (o.nodes < 2 || o.nodes > maxStuckNodes):
		return o, fmt.Errorf("-n %d: must be 2 to %d", o.nodes, maxStuckNodes)
	case !o.stuck && (o.nodes < 1 || o.nodes > maxNodes):
		return o, fmt.Errorf("-n %d: must be 1 to %d", o.nodes, maxNodes)
	case name == "events" && (o.nodes < 3 || o.events == 0):
		return o, fmt.Errorf("-n %d -events %d: must be at least 3 and 1", o.nodes, o.events)
	case o.stuck && (o.payload < 1 || o.payload > noiseBytes):
		return o, fmt.Errorf("-payload %d: must be 1 to %d", o.payload, noiseBytes)
	case name == "rolling" && (o.nodes < 3 || o.rate < 1):
		return o, fmt.Errorf("-n %d -rate %d: must be at least 3 and 1", o.nodes, o.rate)
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
