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
	// A trace covers at least the last flightAge, if it then has at most flightBytes.
	flightAge   = 10 * time.Second
	flightBytes = 16 << 20
	// At most one trace is written per flightPause, and only maxFlights are kept. Otherwise a node
	// that repeatedly loses its leadership could fill the disk.
	flightPause = time.Minute
	maxFlights  = 8
	flightBegin = "athena-"
	flightEnd   = ".trace"
)

// flight records a trace of the last seconds of the Go runtime. When this node loses its leadership
// without a hand-over, flight writes the trace to a file, which helps to find the cause of a stall.
type flight struct {
	dir      string
	log      *slog.Logger
	recorder *trace.FlightRecorder
	leads    bool // whether this node led at the last event
	written  time.Time
}

// newFlight creates dir if it does not exist, and starts recording.
func newFlight(dir string, log *slog.Logger) (*flight, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f := &flight{dir: dir, log: log, recorder: trace.NewFlightRecorder(trace.FlightRecorderConfig{
		MinAge: flightAge, MaxBytes: flightBytes,
	})}
	return f, f.recorder.Start()
}

// watch follows the events of the node until ctx ends or the node stops.
func (f *flight) watch(ctx context.Context, node *cluster.Node) {
	defer f.recorder.Stop()
	for e := range node.Events(ctx) {
		f.onEvent(e, node.Self().Address, time.Now())
	}
}

// onEvent writes a trace if e means that this node, whose address is self, lost its leadership.
func (f *flight) onEvent(e cluster.Event, self member.Address, now time.Time) {
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
			f.log.Warn("cannot write the trace of the lost leadership", slog.Any("error", err))
			return
		}
		f.log.Warn("wrote a trace of the seconds before the leadership was lost; open it with "+
			"go tool trace",
			slog.String("file", path), slog.String("cause", string(e.Cause)))
	}
}

// write writes a trace, renames it when it is complete, and removes old traces.
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

// prune removes all traces except the newest maxFlights.
func (f *flight) prune() error {
	files, err := os.ReadDir(f.dir) // sorted by name, which starts with the time
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(e os.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), flightBegin) || !strings.HasSuffix(e.Name(), flightEnd)
	})
	for _, e := range files[:max(0, len(files)-maxFlights)] {
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil {
			return fmt.Errorf("remove an old trace: %w", err)
		}
	}
	return nil
}
