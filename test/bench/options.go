// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"time"

	"github.com/athena-go/athena/cluster"
)

// These are the values of Options.Signals: the ways in which a process dies. A stopped process is
// like a host that hangs: its socket stays open, and its peers are not notified.
const (
	Kill = "kill"
	Stop = "stop"
	// Cut leaves the process alive but cuts it off from all others. Only the measurement
	// "holder" supports it.
	Cut = "cut"
)

// These are the values of Options.Holds.
const (
	Job       = "job"
	Lock      = "lock"
	Semaphore = "semaphore"
)

// Options are the settings of a measurement.
type Options struct {
	Sizes        []int         // sizes of the clusters that are measured one after another
	Seeds        int           // number of seeds in each cluster; 0 means all nodes
	Reps         int           // repetitions of each case
	Signals      []string      // how a process dies: Kill, Stop or Cut
	Guards       bool          // nodes have guards, which announce the end of a killed node
	Holds        []string      // what the node that dies holds: Job, Lock or Semaphore
	Jobs         int           // number of jobs or shards of all nodes
	PayloadBytes []int         // payload sizes of events
	Workers      []int         // numbers of concurrent senders
	OwnEncoding  bool          // events encode themselves without reflection
	For          time.Duration // duration of each case
	Dir          string        // folder for the stores during the measurement
	Out          string        // file for the rows; it is overwritten
	JSON         bool          // print the rows of the file instead of tables
	Config       cluster.Config

	cuts bool // nodes can be cut off
}

// Measurement describes a measurement.
type Measurement struct {
	Name  string
	About string
	Least int // smallest suitable cluster size
	// Defaults are the default options. Signals, Holds, PayloadBytes, Workers and For are zero if
	// the measurement does not use them.
	Defaults Options
}

// Measurements lists all measurements.
func Measurements() []Measurement {
	dies := []string{Kill, Stop}
	lan := cluster.DefaultConfig()
	failing, detecting := lan, lan
	failing.LeaderTimeout = 500 * time.Millisecond
	detecting.HeartbeatTimeout = 500 * time.Millisecond
	all := []Measurement{
		{"failover", "from the death of the leader until all others see the next one", 3,
			Options{Sizes: []int{3, 5}, Reps: 20, Signals: dies, Config: failing}},
		{"formation", "from a cold start until all are active and a leader has authority", 1,
			Options{Sizes: []int{3, 5, 25, 50}, Reps: 20, Config: lan}},
		{"detection", "from the death of a member until no survivor sees it as active", 3,
			Options{Sizes: []int{5, 25}, Reps: 20, Signals: dies, Config: detecting}},
		{"oneway", "events from one member to another", 2,
			Options{Sizes: []int{3}, Reps: 3, PayloadBytes: []int{64, 1 << 10, 64 << 10},
				Workers: []int{1, 16}, For: 400 * time.Millisecond, Config: lan}},
		{"request", "requests from one member to another, which echoes them", 2,
			Options{Sizes: []int{3}, Reps: 3, PayloadBytes: []int{64, 1 << 10},
				Workers: []int{1, 64}, For: 400 * time.Millisecond, Config: lan}},
		{"stream", "bytes from one member to another, on one stream per goroutine", 2,
			Options{Sizes: []int{3}, Reps: 3, PayloadBytes: []int{64 << 10},
				Workers: []int{1}, For: 400 * time.Millisecond, Config: lan}},
		{"broadcast", "events from one member to all others", 2,
			Options{Sizes: []int{5}, Reps: 5, PayloadBytes: []int{1 << 10},
				Workers: []int{1, 16}, For: time.Second, Config: lan}},
		{"jobs", "from opening jobs on all nodes until each sees every leader", 1,
			Options{Sizes: []int{5}, Reps: 5, Jobs: 1000, Config: lan}},
		{"holder", "from the death or isolation of a job or lock holder to the next", 3,
			Options{Sizes: []int{5}, Reps: 20, Signals: []string{Kill, Cut},
				Holds: []string{Job, Lock, Semaphore}, Config: lan}},
		{"locks", "records acquired and dropped by all nodes, one record per client", 3,
			Options{Sizes: []int{5}, Reps: 3, Workers: []int{10, 200}, For: 4 * time.Second,
				Config: lan}},
		{"shards", "balance of shards over five nodes; one is killed and restarted", 3,
			Options{Sizes: []int{5}, Reps: 20, Jobs: 256, Config: lan}},
		{"group", "election by Lowest: the leader dies, or two partitions merge", 4,
			Options{Sizes: []int{5}, Reps: 20, Config: lan}},
		{"idle", "CPU time and memory of idle nodes", 1,
			Options{Sizes: []int{5}, Reps: 1, For: 10 * time.Second, Config: lan}},
	}
	for i, m := range all {
		all[i].Defaults.Dir = "/dev/shm"
		all[i].Defaults.Out = "results/" + m.Name + ".jsonl"
	}
	return all
}
