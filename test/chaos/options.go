// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
)

// maxNodes is the largest number of nodes.
const maxNodes = 9

// options are the options of a command.
type options struct {
	nodes  int
	seed   uint64
	length time.Duration
	out    string // folder of the evidence
	athena string // path of the program of the daemons; empty for no daemon
	// daemons is how many of the last nodes are daemons. The first node is never one.
	daemons int
	// history is the folder in which every process writes its steps; empty for none.
	history string
	tls     bool // the nodes use TLS on TCP instead of QUIC
	soak    bool
	names   bool     // the nodes have names
	only    []string // kinds of faults; empty for all
	// nemesis is the length of each fault of a schedule, which replaces the drawn plan if positive.
	nemesis time.Duration
	guards  bool   // half of the runs of nodes have guards, which announce their end
	events  uint64 // number of events that a flood must send; 0 for no flood
	stuck   bool   // a handler never returns
	// rate is the number of events per second from all nodes together; 0 for as many as possible.
	rate int
	// handOver is the longest permitted time without a leader after one leaves.
	handOver time.Duration
	// previous is the path of this program, built with the library of the release before; empty if
	// no node runs it.
	previous string
	// witness makes the nodes two hosts and a witness. back is how long the preferred host must be
	// active until it leads again; 0 for never.
	witness bool
	back    time.Duration
	// payload is the size of the bodies of events; 0 for mixed sizes.
	payload int
	// plain makes the nodes share the loopback interface, so that only processes can have faults.
	plain bool
	// With fewer faults or changes of leader, a run proves nothing.
	minFaults, minChanges int
	config                cluster.Config // timings
}

// commands are the commands with flags, and their default durations.
var commands = []struct {
	name, meaning string
	length        time.Duration
}{
	{"run", "inject faults, then expect every node to be active", 5 * time.Minute},
	{"soak", "do the same for hours, and check for leaks", 2 * time.Hour},
	{"events", "inject faults while all nodes send, and account for each event", time.Hour},
	{"stuck", "measure the memory of a handler that never returns", time.Minute},
	{"rolling", "restart each node in turn while all nodes send", 20 * time.Second},
	{"witness", "let each of two hosts and a witness fail in turn", 4 * time.Minute},
}

// makeFlags returns the flags of a command and the options that they set.
func makeFlags(name string) (*flag.FlagSet, *options) {
	f := flag.NewFlagSet("chaos "+name, flag.ExitOnError)
	o := &options{config: cluster.DefaultConfig(), soak: name == "soak", stuck: name == "stuck"}
	var length time.Duration
	for _, c := range commands {
		if c.name == name {
			length = c.length
		}
	}
	f.StringVar(&o.out, "out", "",
		"directory for the evidence (default: a new one under results/chaos)")
	f.DurationVar(&o.length, "for", length, "duration; for events, the maximum duration")
	f.Func("transport", "quic or tls, as for athena run (default quic)", func(name string) error {
		o.tls = name == "tls"
		if !o.tls && name != "quic" {
			return errors.New("must be quic or tls")
		}
		return nil
	})
	o.addTimings(f)
	if name == "rolling" {
		o.plain = true
		f.IntVar(&o.nodes, "n", 5, fmt.Sprintf("number of nodes, 3 to %d", maxNodes))
		f.IntVar(&o.rate, "rate", 1000, "events per second, summed over all nodes")
		f.DurationVar(&o.handOver, "hand-over", handOver,
			"longest acceptable time without a leader at a restart")
		f.StringVar(&o.previous, "previous", "", "path of this program with the library of the release "+
			"before (scripts/previous.sh): upgrade all nodes from it, and downgrade them again")
		return f, o
	}
	if name == "witness" {
		o.witness, o.nodes = true, witnessNodes
		f.DurationVar(&o.back, "return", 0,
			"time after which the preferred host leads again (HandOverToPreferred); 0 for never")
		return f, o
	}
	if name == "stuck" {
		o.plain = true
		f.IntVar(&o.nodes, "n", maxStuckNodes, fmt.Sprintf("number of nodes, 2 to %d", maxStuckNodes))
		f.IntVar(&o.payload, "payload", 1024, "bytes in each event")
		return f, o
	}
	f.IntVar(&o.nodes, "n", 5, fmt.Sprintf("number of nodes, 1 to %d", maxNodes))
	f.Uint64Var(&o.seed, "seed", 0, "seed of the fault plan; 0 means a random seed")
	if name == "events" {
		f.Uint64Var(&o.events, "events", 10_000_000, "number of events to send in total")
		return f, o
	}
	o.guards = true
	f.StringVar(&o.athena, "athena", "",
		"path of an athena program, of this version or another one, to run as the last nodes")
	f.IntVar(&o.daemons, "daemons", 1, "number of nodes that run the program of -athena")
	f.StringVar(&o.history, "history", "",
		"directory for the steps of every process, which spec/validate judges; it must be empty")
	f.BoolVar(&o.names, "names", false,
		"the nodes have names, which a server resolves that may be silent; not with -athena")
	f.Func("only", "comma-separated kinds of faults, such as kill,split (default all)",
		o.readKinds)
	f.DurationVar(&o.nemesis, "nemesis", 0,
		"instead of drawing faults, take those of Jepsen's tests in turn, each for this time")
	f.IntVar(&o.minFaults, "min-faults", -1, "minimum number of faults; -1 means 12 per minute, "+
		"or with -nemesis one in three times its time")
	f.IntVar(&o.minChanges, "min-changes", -1,
		"minimum number of leader changes; -1 means 2 per minute, or with -nemesis 1 of 4 faults")
	return f, o
}

// readKinds sets the only kinds of faults.
func (o *options) readKinds(list string) error {
	var known []string
	for _, w := range weights {
		known = append(known, w.kind)
	}
	o.only = strings.Split(list, ",")
	for _, kind := range o.only {
		if !slices.Contains(known, kind) {
			return fmt.Errorf("no fault %q; known are: %s", kind, strings.Join(known, ", "))
		}
	}
	return nil
}

// addTimings adds the flags of the timings.
func (o *options) addTimings(f *flag.FlagSet) {
	const timing = "timing of the nodes, as for athena run"
	f.DurationVar(&o.config.HeartbeatInterval, "interval", o.config.HeartbeatInterval, timing)
	f.DurationVar(&o.config.HeartbeatTimeout, "heartbeat-timeout", o.config.HeartbeatTimeout, timing)
	f.DurationVar(&o.config.LeaderTimeout, "leader-timeout", o.config.LeaderTimeout, timing)
	f.DurationVar(&o.config.LeaseTimeout, "lease-timeout", 0, timing)
	f.DurationVar(&o.config.TTLTimeout, "ttl-timeout", o.config.TTLTimeout, timing)
	f.DurationVar(&o.config.RetryInterval, "retry-interval", o.config.RetryInterval, timing)
}

// printHelp lists the commands and their flags.
func printHelp(w io.Writer) {
	for _, c := range commands {
		fmt.Fprintf(w, "chaos %-6s [flags]  %s\n", c.name, c.meaning)
	}
	fmt.Fprint(w, "chaos check DIR       check the evidence of an earlier run again; no flags\n"+
		"chaos clean           remove what a killed run left on the machine; no flags\n")
	for _, c := range commands {
		fmt.Fprintf(w, "\nflags of chaos %s:\n", c.name)
		f, _ := makeFlags(c.name)
		f.SetOutput(w)
		f.PrintDefaults()
	}
}

// parseFlags parses the flags. The default minimum is proportional to the length of the run: 60
// faults and 10 changes in five minutes.
func parseFlags(name string, args []string) (options, error) {
	f, set := makeFlags(name)
	err := f.Parse(args)
	o := *set
	if err != nil {
		return o, err
	}
	for name, path := range map[string]string{"athena": o.athena, "previous": o.previous} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return o, fmt.Errorf("-%s: %w", name, err)
		}
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: unexpected argument", f.Arg(0))
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
	case len(o.only) > 0 && !slices.ContainsFunc(weights, (&planner{nil, o.nodes, o.only}).mayDraw):
		return o, fmt.Errorf("-only %s: none of these faults can affect %d nodes",
			strings.Join(o.only, ","), o.nodes)
	case o.names && o.athena != "":
		return o, errors.New("-names with -athena: an athena program does not ask the server of the run")
	case o.length <= 0:
		return o, fmt.Errorf("-for %v: must be positive", o.length)
	case o.nemesis != 0 && (o.nemesis < time.Second || len(newSchedule(o)) == 0):
		return o, fmt.Errorf("-nemesis %v: must be at least 1s, and -only must permit one of its faults",
			o.nemesis)
	}
	for o.seed == 0 {
		o.seed = rand.Uint64() >> 32 // short enough to type
	}
	if o.out == "" {
		o.out = filepath.Join("results", "chaos", time.Now().UTC().Format("20060102-150405"))
	}
	faults, changes := int(12*o.length.Minutes()), int(2*o.length.Minutes())
	if o.nemesis > 0 {
		faults = int(o.length / (3 * o.nemesis))
		changes = faults / 4
	}
	if o.minFaults < 0 {
		o.minFaults = faults
	}
	if o.minChanges < 0 {
		o.minChanges = changes
	}
	return o, nil
}
