// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"time"

	"github.com/athena-go/athena/cluster"
)

// Ways to die, the values of Options.Signals. A stopped process is like a host
// that hangs: its socket stays open, and nobody is told.
const (
	Kill = "kill"
	Stop = "stop"
	// Cut is no death: the process lives, and reaches nobody. Of the measurement holder.
	Cut = "cut"
)

// Options are the settings of a measurement.
type Options struct {
	Sizes        []int         // of clusters, each measured by itself
	Seeds        int           // how many nodes of each, 0 for all
	Reps         int           // repetitions of each case
	Signals      []string      // how a process dies: Kill, Stop; Cut
	Jobs         int           // that all nodes open
	PayloadBytes []int         // of an event
	Workers      []int         // goroutines that send side by side
	OwnEncoding  bool          // events encode themselves, without reflection
	For          time.Duration // how long each case goes on
	Dir          string        // where stores are made, for the time of the measurement
	Out          string        // file for the rows; what it had is replaced
	JSON         bool          // print the rows, as the file has them, in place of tables
	Config       cluster.Config

	cuts bool // nodes can be cut off from each other
}

// A Measurement is a thing to measure.
type Measurement struct {
	Name  string
	About string
	Least int // nodes of the smallest cluster that shows it
	// Defaults are what it is measured with. Signals, PayloadBytes, Workers and For
	// are empty where it has no use for them.
	Defaults Options
}

// Measurements lists all there are.
func Measurements() []Measurement {
	dies := []string{Kill, Stop}
	lan := cluster.DefaultConfig()
	failing, detecting := lan, lan
	failing.LeaderTimeout = 500 * time.Millisecond
	detecting.HeartbeatTimeout = 500 * time.Millisecond
	all := []Measurement{
		{"failover", "the leader dies, until all others see the next", 3,
			Options{Sizes: []int{3, 5}, Reps: 20, Signals: dies, Config: failing}},
		{"formation", "a cold start, until all are active under a leader with authority", 1,
			Options{Sizes: []int{3, 5, 25, 50}, Reps: 20, Config: lan}},
		{"detection", "another member dies, until no survivor sees it as active", 3,
			Options{Sizes: []int{5, 25}, Reps: 20, Signals: dies, Config: detecting}},
		{"oneway", "events from one member to another", 2,
			Options{Sizes: []int{3}, Reps: 3, PayloadBytes: []int{64, 1 << 10, 64 << 10},
				Workers: []int{1, 16}, For: 400 * time.Millisecond, Config: lan}},
		{"request", "requests of one member to another, which sends them back", 2,
			Options{Sizes: []int{3}, Reps: 3, PayloadBytes: []int{64, 1 << 10},
				Workers: []int{1, 64}, For: 400 * time.Millisecond, Config: lan}},
		{"stream", "bytes from one member to another, on a stream for each goroutine", 2,
			Options{Sizes: []int{3}, Reps: 3, PayloadBytes: []int{64 << 10},
				Workers: []int{1}, For: 400 * time.Millisecond, Config: lan}},
		{"broadcast", "events from one member to all others", 2,
			Options{Sizes: []int{5}, Reps: 5, PayloadBytes: []int{1 << 10},
				Workers: []int{1, 16}, For: time.Second, Config: lan}},
		{"jobs", "all nodes open the same jobs at once, until each sees all led", 1,
			Options{Sizes: []int{5}, Reps: 5, Jobs: 1000, Config: lan}},
		{"holder", "the node that leads a job dies or is cut off, until another leads", 3,
			Options{Sizes: []int{5}, Reps: 50, Signals: []string{Kill, Cut}, Config: lan}},
		{"locks", "records taken and dropped by all nodes, each client one of its own", 3,
			Options{Sizes: []int{5}, Reps: 3, Workers: []int{10, 200}, For: 4 * time.Second,
				Config: lan}},
		{"group", "election by Lowest: its leader dies, or two parts meet", 4,
			Options{Sizes: []int{5}, Reps: 20, Config: lan}},
		{"idle", "processor and memory of nodes with nothing to do", 1,
			Options{Sizes: []int{5}, Reps: 1, For: 10 * time.Second, Config: lan}},
	}
	for i, m := range all {
		all[i].Defaults.Dir = "/dev/shm"
		all[i].Defaults.Out = "results/" + m.Name + ".jsonl"
	}
	return all
}
