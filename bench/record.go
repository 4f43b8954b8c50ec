// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of a result.
type row map[string]any

// recorder writes rows to a file, and keeps them for the tables.
type recorder struct {
	file *os.File
	rows []row
}

func newRecorder(name string, o options) (*recorder, error) {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(o.out)
	if err != nil {
		return nil, err
	}
	rec := &recorder{file: file}
	c := o.config.WithDefaults()
	about := row{
		"measurement": name, "date": time.Now().UTC().Format(time.RFC3339), "commit": commit(),
		"go": runtime.Version(), "processors": runtime.NumCPU(), "processor": processor(),
		"kernel": firstLine("/proc/sys/kernel/osrelease"), "stores": o.dir,
		"interval": c.HeartbeatInterval.String(), "heartbeat_timeout": c.HeartbeatTimeout.String(),
		"leader_timeout": c.LeaderTimeout.String(), "lease_timeout": c.LeaseTimeout.String(),
		"retry_interval": c.RetryInterval.String(),
	}
	fmt.Printf("%s, %d x %s, Linux %s, %s, commit %s\n", about["date"], about["processors"],
		about["processor"], about["kernel"], about["go"], about["commit"])
	fmt.Printf("interval %s, leader timeout %s, lease %s, stores in %s\n\n",
		about["interval"], about["leader_timeout"], about["lease_timeout"], o.dir)
	return rec, rec.write(about)
}

// put records a row, with how busy the machine was.
func (rec *recorder) put(r row) error {
	var load float64
	if _, err := fmt.Sscan(firstLine("/proc/loadavg"), &load); err == nil {
		r["load"] = load
	}
	rec.rows = append(rec.rows, r)
	return rec.write(r)
}

func (rec *recorder) write(r row) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = rec.file.Write(append(text, '\n'))
	return err
}

func (rec *recorder) close() error { return rec.file.Close() }

// table prints a column, over the rows that have it and share their keys.
func (rec *recorder) table(column string, keys ...string) error {
	var order []string
	values := map[string][]float64{}
	for _, r := range rec.rows {
		value, ok := r[column].(float64)
		if !ok {
			continue
		}
		var name []string
		for _, k := range keys {
			name = append(name, fmt.Sprint(r[k]))
		}
		group := strings.Join(name, "\t")
		if _, known := values[group]; !known {
			order = append(order, group)
		}
		values[group] = append(values[group], value)
	}
	slices.Sort(order)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tcount\tmin\tmedian\tp99\tmax\t%s\n", strings.Join(keys, "\t"), column)
	for _, group := range order {
		v := values[group]
		slices.Sort(v)
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\n",
			group, len(v), v[0], quantile(v, 0.5), quantile(v, 0.99), v[len(v)-1])
	}
	return w.Flush()
}

// quantile is the nearest rank in ascending values, of which there is one.
func quantile(ascending []float64, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}

// commit is that of the working copy in which the measurement runs; go run
// stamps none into the program.
func commit() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
