// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command bench measures clusters of real processes on this machine: how long
// a cluster is without a leader when its leader dies, how long a cold start
// takes, and what a cluster at rest costs.
//
//	go run ./bench failover     the leader is killed, or stopped as a host that hangs
//	go run ./bench formation    processes that wait are told to begin at once
//	go run ./bench idle         processor and memory of nodes with nothing to do
//
// Every node is a process of its own. Times are CLOCK_MONOTONIC, which is one
// clock for all processes, read in each node when its view changes. A result
// ends when the last node came to the view that was waited for. The rows go to
// a file of JSON lines, the first of which describes the machine; a table of
// medians and maxima goes to standard output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
)

// options are the flags, the same for every measurement.
type options struct {
	sizes   []int
	seeds   int // of each cluster, 0 for all
	reps    int
	signals []string
	dir     string
	out     string
	config  cluster.Config
}

// measurements by name. Each gets the recorder for its rows.
var measurements = map[string]func(options, *recorder) error{
	"failover":  failover,
	"formation": formation,
	"idle":      idle,
}

func main() {
	if os.Getenv(childVariable) != "" {
		if err := childMain(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) < 2 || measurements[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: bench failover|formation|idle [flags]; -h lists the flags")
		os.Exit(2)
	}
	o, err := parse(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := measure(os.Args[1], o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(name string, args []string) (options, error) {
	f := flag.NewFlagSet("bench "+name, flag.ExitOnError)
	sizes := map[string]string{"failover": "3,5", "formation": "3,5", "idle": "5"}[name]
	reps := map[string]int{"failover": 20, "formation": 20, "idle": 1}[name]
	list := f.String("n", sizes, "sizes of the clusters")
	signals := f.String("signals", "kill,stop", "how the leader dies: kill, stop or both")
	o := options{config: cluster.DefaultConfig()}
	f.IntVar(&o.seeds, "seeds", 0, "how many nodes are seeds, 0 for all")
	f.IntVar(&o.reps, "reps", reps, "repetitions of each case")
	f.StringVar(&o.dir, "dir", "/dev/shm", "where stores are made; on a disk to measure its syncs too")
	f.StringVar(&o.out, "out", "results/"+name+".jsonl", "file for the rows")
	if name == "failover" {
		o.config.LeaderTimeout = 500 * time.Millisecond
	}
	f.DurationVar(&o.config.HeartbeatInterval, "interval", o.config.HeartbeatInterval, "")
	f.DurationVar(&o.config.HeartbeatTimeout, "heartbeat-timeout", o.config.HeartbeatTimeout, "")
	f.DurationVar(&o.config.LeaderTimeout, "leader-timeout", o.config.LeaderTimeout, "")
	f.DurationVar(&o.config.LeaseTimeout, "lease-timeout", 0, "0 for the leader timeout")
	f.BoolVar(&o.config.TrustRefusal, "trust-refusal", false,
		"elect at once when the host refuses the port")
	f.DurationVar(&o.config.RetryInterval, "retry-interval", o.config.RetryInterval, "")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.signals = strings.Split(*signals, ",")
	for _, s := range o.signals {
		if _, known := deaths[s]; !known {
			return o, fmt.Errorf("-signals %q: must be kill, stop or kill,stop", *signals)
		}
	}
	for field := range strings.SplitSeq(*list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || n > cluster.MaxSize {
			return o, fmt.Errorf("-n %q: must be numbers from 1 to %d", *list, cluster.MaxSize)
		}
		o.sizes = append(o.sizes, n)
	}
	return o, nil
}

var errInterrupted = errors.New("interrupted")

// measure runs a measurement. An interrupt ends every process.
func measure(name string, o options) error {
	rec, err := newRecorder(name, o)
	if err != nil {
		return err
	}
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	result := make(chan error, 1)
	go func() { result <- measurements[name](o, rec) }()
	select {
	case err = <-result:
	case <-interrupt:
		err = errInterrupted // the nodes die with this process
	}
	return errors.Join(err, rec.close())
}
