// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/athena-go/athena/test/children"
	"github.com/athena-go/athena/test/results"
)

// row is a row of a result.
type row = results.Row

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
	about := results.Describe()
	fmt.Fprintln(out, about.Title())
	maps.Copy(about, row{
		"measurement": name, "stores": o.Dir,
		"interval": c.HeartbeatInterval.String(), "heartbeat_timeout": c.HeartbeatTimeout.String(),
		"leader_timeout": c.LeaderTimeout.String(), "lease_timeout": c.LeaseTimeout.String(),
		"retry_interval": c.RetryInterval.String(), "trust_refusal": c.TrustRefusal,
		"own_encoding": o.OwnEncoding, "guards": o.Guards,
		"sizes": o.Sizes, "seeds": o.Seeds, "reps": o.Reps,
	})
	if o.For > 0 {
		about["for"] = o.For.String()
	}
	fmt.Fprintf(out, "interval %s, heartbeat timeout %s, leader timeout %s, lease %s, stores in %s\n",
		about["interval"], about["heartbeat_timeout"], about["leader_timeout"],
		about["lease_timeout"], o.Dir)
	return rec, rec.writeRow(about)
}

// recordResult records a row. If the measurement timed out, the row has the field "missed".
func (rec *recorder) recordResult(r row, err error) error {
	if errors.Is(err, children.ErrSlow) {
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
	r.AddLoad()
	rec.rows = append(rec.rows, r)
	return rec.writeRow(r)
}

func (rec *recorder) writeRow(r row) error {
	return errors.Join(r.Write(rec.file), r.Write(rec.also))
}

func (rec *recorder) close() error { return rec.file.Close() }

// printTable prints the meaning of a column and its statistics for each combination of keys, in
// the order of the rows.
func (rec *recorder) printTable(column string, keys ...string) error {
	i := slices.IndexFunc(rec.cols, func(c Column) bool { return c.Name == column })
	t := results.Table{Column: column, Means: rec.cols[i].Means, Keys: keys}
	return t.Print(rec.out, rec.rows)
}
