// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// These are the ways in which a process dies. A stopped process is like a host that hangs: its
// sockets stay open.
const (
	killed  = "kill"
	stopped = "stop"
)

// options are the flags of a measurement.
type options struct {
	sizes    []int         // of the clusters
	peers    []string      // empty: all
	reps     int           // repetitions
	duration time.Duration // of each case
	how      string        // how a leader or member dies: killed or stopped
	profiles string        // folder for CPU profiles of senders and receivers; empty for none
	against  string        // the peer that all others are compared with
	dir      string        // folder for the stores
	out      string        // name of the results, without folder and .jsonl
	command  string        // the command line
}

// wants reports whether the flags select a peer.
func (o options) wants(peer string) bool {
	return len(o.peers) == 0 || slices.Contains(o.peers, peer)
}

func (o options) signal() syscall.Signal {
	if o.how == stopped {
		return syscall.SIGSTOP
	}
	return syscall.SIGKILL
}

// parseOptions reads the flags of a measurement.
func parseOptions(m measurement, args []string) (options, error) {
	o := options{
		sizes: m.sizes, reps: m.reps, duration: m.duration, how: killed,
		command: strings.Join(append([]string{"peers", m.name}, args...), " "),
	}
	f := flag.NewFlagSet("peers "+m.name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "peers %s: %s\n\npeers: %s\n\nflags:\n", m.name, m.about,
			strings.Join(m.peers(), ", "))
		f.PrintDefaults()
	}
	if len(m.sizes) > 0 {
		f.Func("n", fmt.Sprintf("comma-separated cluster sizes (default %v)", m.sizes),
			func(s string) (err error) { o.sizes, err = parseSizes(s); return err })
	}
	f.Func("peers", "comma-separated peers to measure (default all)", func(s string) error {
		o.peers = strings.Split(s, ",")
		for _, p := range o.peers {
			if !slices.Contains(m.peers(), p) {
				return fmt.Errorf("unknown peer %q: must be one of %s", p, strings.Join(m.peers(), ", "))
			}
		}
		return nil
	})
	if len(m.sizes) == 0 {
		f.StringVar(&o.profiles, "profiles", "", "existing folder for CPU profiles of each case")
	}
	f.IntVar(&o.reps, "reps", o.reps, "repetitions of each case")
	if m.duration > 0 {
		f.DurationVar(&o.duration, "for", o.duration, "duration of each case")
	}
	if m.dies {
		f.StringVar(&o.how, "signal", o.how, "kill, or stop for a host that hangs")
	}
	f.StringVar(&o.against, "against", "athena",
		"peer that the ratios compare with; the first of -peers if it is not measured")
	f.StringVar(&o.dir, "dir", "/dev/shm", "folder for the stores")
	f.StringVar(&o.out, "out", "peers-"+m.name, "name of the file in results/, without .jsonl")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w: %w", errUsage, err)
	case f.NArg() > 0:
		return o, fmt.Errorf("%w: unexpected %q", errUsage, f.Args())
	case o.reps < 1:
		return o, fmt.Errorf("%w: -reps %d: must be at least 1", errUsage, o.reps)
	case o.how != killed && o.how != stopped:
		return o, fmt.Errorf("%w: -signal %q: must be kill or stop", errUsage, o.how)
	}
	if !o.wants(o.against) {
		o.against = o.peers[0]
	}
	return o, nil
}

func parseSizes(s string) (sizes []int, err error) {
	for _, field := range strings.Split(s, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || n > maxSize {
			return nil, fmt.Errorf("%q: must be between 1 and %d", field, maxSize)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// printTables prints the tables of earlier measurements. The flags may select another peer to
// compare with.
func printTables(args []string) error {
	f := flag.NewFlagSet("peers table", flag.ContinueOnError)
	against := f.String("against", "athena", "peer that the ratios compare with")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return fmt.Errorf("%w: table needs a file", errUsage)
	}
	for _, path := range f.Args() {
		if err := printTablesOf(path, *against, os.Stdout); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
