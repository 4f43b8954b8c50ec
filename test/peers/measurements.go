// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/athena-go/athena/test/results"
)

// maxSize is the size of the largest cluster that has enough ports.
const maxSize = 255

type row = results.Row

// column is a value for which a table is printed.
type column struct{ name, means string }

// measurement is one of the commands.
type measurement struct {
	name, about string
	sizes       []int // nil if the measurement has fixed sizes
	reps        int
	duration    time.Duration // duration of each case; 0 if the cases end by themselves
	dies        bool          // a process dies, so that -signal applies
	peers       func() []string
	keys        []string // columns that identify a line of a table; the last column is the peer
	columns     []column
	run         func(context.Context, options, *recorder) error
}

var measurements = []measurement{
	{
		name: "failover", about: "from the death of the leader until all others see the next one",
		sizes: []int{3, 5, 9, 25}, reps: 7, dies: true, peers: namesOfNodes,
		keys: []string{"n", "timing", "how", "peer"},
		columns: []column{
			{"ms", "from the death of the leader until all others see another one"},
		},
		run: measureFailover,
	}, {
		name: "formation", about: "from a cold start until all see each other, and a leader",
		sizes: []int{3, 5, 25, 50, 101}, reps: 3, peers: namesOfNodes,
		keys: []string{"n", "timing", "peer"},
		columns: []column{
			{"ms", "from the start of all nodes until each sees all and the same leader"},
			{"cpu_ms", "processor time of all nodes for that"},
		},
		run: measureFormation,
	}, {
		name: "detection", about: "from the death of a member until no survivor sees it",
		sizes: []int{25}, reps: 5, dies: true, peers: namesOfNodes,
		keys:    []string{"n", "how", "peer"},
		columns: []column{{"ms", "from the death of a member until no survivor sees it"}},
		run:     measureDetection,
	}, {
		name: "locks", about: "locks acquired and released, with empty and full tables",
		sizes: []int{5}, reps: 3, duration: time.Second, peers: namesOfLockers,
		keys: []string{"n", "clients", "table", "peer"},
		columns: []column{
			{"locks_s", "locks acquired and released per second, each by its own client"},
			{"of_empty", "the same, divided by that of the empty table of the same cluster"},
			{"cpu_ms_per_lock", "processor time of all nodes per lock"},
		},
		run: measureLocks,
	}, {
		name: "messages", about: "one-way messages and requests between two processes",
		reps: 5, duration: 400 * time.Millisecond, peers: namesOfMessengers,
		keys: []string{"bytes", "workers", "peer"},
		columns: []column{
			{"msgs_s", "one-way messages handled per second"},
			{"mb_s", "their payload in MB per second"},
			{"cpu_s_per_million", "processor time of both processes per million, in seconds"},
			{"p50_us", "microseconds from request to answer, median"},
			{"p99_us", "microseconds from request to answer, 99th percentile"},
			{"calls_cpu_s_per_million", "processor time of both per million requests, in seconds"},
		},
		run: measureMessages,
	}, {
		name: "broadcast", about: "messages of 1 KiB to four processes",
		reps: 3, duration: time.Second, peers: namesOfBroadcasters,
		keys: []string{"bytes", "members", "peer"},
		columns: []column{
			{"msgs_s", "broadcasts handled by all four per second"},
			{"cpu_s_per_million", "processor time of all processes per million, in seconds"},
		},
		run: measureBroadcast,
	}, {
		name: "idle", about: "processor time and memory of clusters at rest, heartbeats every 100 ms",
		sizes: []int{5}, reps: 2, duration: 10 * time.Second, peers: namesOfNodes,
		keys: []string{"n", "peer"},
		columns: []column{
			{"cpu_percent", "processor time of a node, as a percentage of one processor"},
			{"rss_mib", "memory of a node in MiB, including a program with all peers"},
			{"packets_s", "packets on the loopback interface per second and node"},
		},
		run: measureIdle,
	},
}

// measure runs a measurement and prints its tables.
func (m measurement) measure(ctx context.Context, o options) (err error) {
	path := filepath.Join("results", o.out+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	about := results.Describe()
	fmt.Println(about.Title())
	maps.Copy(about, row{
		"measurement": m.name, "command": o.command, "reps": o.reps, "versions": moduleVersions(),
	})
	if o.duration > 0 {
		about["for"] = o.duration.String()
	}
	about.AddLoad()
	rec := &recorder{file: file}
	began := time.Now()
	if err := errors.Join(about.Write(file), m.run(ctx, o, rec)); err != nil {
		return err
	}
	fmt.Printf("%s took %v; rows in %s\n", o.command, time.Since(began).Round(time.Second), path)
	return m.printTables(rec.rows, o.against, os.Stdout)
}

func (m measurement) printTables(rows []row, against string, w io.Writer) error {
	var errs []error
	for _, c := range m.columns {
		t := results.Table{Column: c.name, Means: c.means, Keys: m.keys, Against: against}
		errs = append(errs, t.Print(w, rows))
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		if r["missed"] != nil {
			fmt.Fprintln(w, describeMissed(r))
		}
	}
	return errors.Join(errs...)
}

// describeMissed describes a case without a result.
func describeMissed(r row) string {
	text := fmt.Sprintf("missed: %v, repetition %v", r["peer"], r["rep"])
	if n, ok := r["n"]; ok {
		text += fmt.Sprintf(", n=%v, %v", n, r["timing"])
	}
	return text + ": " + fmt.Sprint(r["missed"])
}

// printTablesOf prints the tables of a file.
func printTablesOf(path, against string, w io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() // only read
	about, rows, err := results.Read(file)
	if err != nil {
		return err
	}
	for _, m := range measurements {
		if about["measurement"] == m.name {
			fmt.Fprintf(w, "%s\n%s\n", about.Title(), about["command"])
			return m.printTables(rows, against, w)
		}
	}
	return fmt.Errorf("unknown measurement %q", about["measurement"])
}

// recorder writes rows to a file and keeps them for the tables.
type recorder struct {
	file *os.File
	rows []row
}

// record records a row with the load of the machine. A case that failed gets the field "missed"
// instead of a result, and the measurement continues, because repeating it may take long.
func (rec *recorder) record(r row, err error) error {
	if err != nil {
		r["missed"] = err.Error()
		fmt.Fprintln(os.Stderr, describeMissed(r))
	}
	r.AddLoad()
	rec.rows = append(rec.rows, r)
	return r.Write(rec.file)
}

// moduleVersions lists the versions of the modules that are measured.
func moduleVersions() map[string]string {
	versions := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, d := range info.Deps {
		for _, name := range []string{
			"hashicorp/raft", "hashicorp/memberlist", "etcd/server/v3", "nats-server/v2", "nats.go",
			"quic-go/quic-go", "google.golang.org/grpc",
		} {
			if strings.HasSuffix(d.Path, name) {
				versions[d.Path] = d.Version
			}
		}
	}
	return versions
}
