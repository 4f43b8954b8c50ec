// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// shortRevision is the length of a shortened commit hash.
const shortRevision = 12

// row is a row of a result.
type row map[string]any

// recorder writes rows to a file and retains them for the tables.
type recorder struct {
	file *os.File
	also io.Writer // second destination of the rows
	out  io.Writer // destination of the tables
	cols []Column
	rows []row
}

func newRecorder(name string, o Options, out io.Writer) (*recorder, error) {
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(o.Out)
	if err != nil {
		return nil, err
	}
	rec := &recorder{file: file, also: io.Discard, out: out, cols: columns[name]}
	if o.JSON {
		rec.also, rec.out, out = out, io.Discard, io.Discard
	}
	c := o.Config.WithDefaults()
	about := row{
		"measurement": name, "date": time.Now().UTC().Format(time.RFC3339), "commit": findCommit(),
		"go": runtime.Version(), "processors": runtime.NumCPU(), "processor": processorName(),
		"kernel": firstLine("/proc/sys/kernel/osrelease"), "stores": o.Dir,
		"interval": c.HeartbeatInterval.String(), "heartbeat_timeout": c.HeartbeatTimeout.String(),
		"leader_timeout": c.LeaderTimeout.String(), "lease_timeout": c.LeaseTimeout.String(),
		"retry_interval": c.RetryInterval.String(), "trust_refusal": c.TrustRefusal,
		"own_encoding": o.OwnEncoding,
		"sizes":        o.Sizes, "seeds": o.Seeds, "reps": o.Reps,
	}
	if o.For > 0 {
		about["for"] = o.For.String()
	}
	fmt.Fprintf(out, "%s, %d x %s, Linux %s, %s, commit %s\n", about["date"], about["processors"],
		about["processor"], about["kernel"], about["go"], about["commit"])
	fmt.Fprintf(out, "interval %s, heartbeat timeout %s, leader timeout %s, lease %s, stores in %s\n",
		about["interval"], about["heartbeat_timeout"], about["leader_timeout"],
		about["lease_timeout"], o.Dir)
	return rec, rec.writeRow(about)
}

// recordResult records a row. If the measurement timed out, the row has the field "missed".
func (rec *recorder) recordResult(r row, err error) error {
	if errors.Is(err, errSlow) {
		r["missed"] = err.Error()
		fmt.Fprintf(rec.out, "n=%v, repetition %v: %v\n", r["n"], r["rep"], err)
		err = nil
	}
	if err != nil {
		return err
	}
	return rec.recordRow(r)
}

// recordRow records a row together with the load of the machine.
func (rec *recorder) recordRow(r row) error {
	var load float64
	if _, err := fmt.Sscan(firstLine("/proc/loadavg"), &load); err == nil {
		r["load"] = load
	}
	rec.rows = append(rec.rows, r)
	return rec.writeRow(r)
}

func (rec *recorder) writeRow(r row) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	_, err = rec.file.Write(text)
	_, alsoErr := rec.also.Write(text)
	return errors.Join(err, alsoErr)
}

func (rec *recorder) close() error { return rec.file.Close() }

// printTable prints the meaning of a column and its statistics for each combination of keys, in
// the order of the rows.
func (rec *recorder) printTable(column string, keys ...string) error {
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
	i := slices.IndexFunc(rec.cols, func(c Column) bool { return c.Name == column })
	fmt.Fprintf(rec.out, "\n%s: %s\n", column, rec.cols[i].Means)
	w := tabwriter.NewWriter(rec.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tcount\tmin\tmedian\tp99\tmax\n", strings.Join(keys, "\t"))
	for _, group := range order {
		v := values[group]
		slices.Sort(v)
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\n",
			group, len(v), v[0], quantile(v, 0.5), quantile(v, 0.99), v[len(v)-1])
	}
	return w.Flush()
}

// quantile returns the q-quantile of ascending values by nearest rank. There must be at
// least one value.
func quantile(ascending []float64, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}

// findCommit returns the commit of this program. If the build does not contain one, as with
// go run, it returns the commit of the working copy.
func findCommit() string {
	var revision, modified string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), shortRevision)]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = "-dirty"
			}
		}
	}
	if revision != "" {
		return revision + modified
	}
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func processorName() string {
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
