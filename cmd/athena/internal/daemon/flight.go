// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

const (
	// flightAge is how far back a trace goes at least, where flightBytes suffice.
	flightAge   = 10 * time.Second
	flightBytes = 16 << 20
	// flightPause is the least time between two traces, and maxFlights how many are
	// kept: a node that loses its leadership all the time must not fill a disk.
	flightPause = time.Minute
	maxFlights  = 8
	flightBegin = "athena-"
	flightEnd   = ".trace"
)

// flight keeps a trace of what the runtime did in the last seconds, and writes it down
// when this node loses a leadership that nobody gave up: by then it is too late to look
// what held it up.
type flight struct {
	dir      string
	log      *slog.Logger
	recorder *trace.FlightRecorder
	leads    bool // with authority, by the newest event
	written  time.Time
}

// newFlight begins to record. The folder is made where it is missing.
func newFlight(dir string, log *slog.Logger) (*flight, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f := &flight{dir: dir, log: log, recorder: trace.NewFlightRecorder(trace.FlightRecorderConfig{
		MinAge: flightAge, MaxBytes: flightBytes,
	})}
	return f, f.recorder.Start()
}

// watch follows the node until ctx or the node ends.
func (f *flight) watch(ctx context.Context, node *cluster.Node) {
	defer f.recorder.Stop()
	for e := range node.Events(ctx) {
		f.saw(e, node.Self().Address, time.Now())
	}
}

// saw writes a trace where e says that the node at self lost its leadership.
func (f *flight) saw(e cluster.Event, self member.Address, now time.Time) {
	led := f.leads
	switch e := e.(type) {
	case cluster.Snapshot:
		f.leads = e.View.Quorate && e.View.Leader == self
	case cluster.LeaderChanged:
		f.leads = e.Quorate && e.Leader.Address == self
		planned := e.Cause == cluster.CauseHandOver || e.Cause == cluster.CauseRaised
		if !led || f.leads || planned || now.Sub(f.written) < flightPause {
			return
		}
		f.written = now
		path, err := f.write(now, string(e.Cause))
		if err != nil {
			f.log.Warn("no trace of the lost leadership was written", slog.Any("error", err))
			return
		}
		f.log.Warn("wrote a trace of the seconds before this leadership was lost: go tool trace FILE",
			slog.String("file", path), slog.String("cause", string(e.Cause)))
	}
}

// write gives a trace its name when it is whole, and removes those that are too many.
func (f *flight) write(now time.Time, cause string) (path string, err error) {
	name := now.UTC().Format("20060102T150405.000Z")
	if cause != "" {
		name += "-" + strings.ReplaceAll(cause, " ", "-")
	}
	path = filepath.Join(f.dir, flightBegin+name+flightEnd)
	file, err := os.CreateTemp(f.dir, ".trace-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if _, err = f.recorder.WriteTo(file); err != nil {
		file.Close()
		return "", err
	}
	if err = file.Close(); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", err
	}
	return path, f.prune()
}

// prune removes all traces but the newest.
func (f *flight) prune() error {
	files, err := os.ReadDir(f.dir) // sorted, and so by the time in their names
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(e os.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), flightBegin) || !strings.HasSuffix(e.Name(), flightEnd)
	})
	for _, e := range files[:max(0, len(files)-maxFlights)] {
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil {
			return fmt.Errorf("an old trace stays: %w", err)
		}
	}
	return nil
}
