// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/test/sim"
)

// maxBatch is the maximum number of traces that one process replays, and maxFileBatch that of
// traces of real processes. They are twenty times longer, and Quint keeps all that it has
// evaluated.
const (
	maxBatch     = 25
	maxFileBatch = 1
)

// errRejected means that the specification does not allow at least one history.
var errRejected = errors.New("a history is not a behaviour of the specification")

// addTrace translates a history and writes its trace into dir.
func (o options) addTrace(dir, name string, steps []steplog.Step) (path string, err error) {
	t, err := translateHistory(name, steps, o.steps)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name+".trace.json")
	return path, os.WriteFile(path, text, 0o644)
}

// replayTraces replays traces with Quint and prints its verdicts. The error is errRejected if Quint
// rejects a trace.
func (o options) replayTraces(out io.Writer, traces []string) error {
	// A run of real processes of 40,000 entries needs more than the 4 GB that Node takes by itself.
	args := []string{"--max-old-space-size=8192", filepath.Join(o.spec, "replay.js"), o.quint}
	if o.first {
		args = append(args, "--first")
	}
	args = append(args, traces...)
	cmd := exec.Command("node", args...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return errRejected
	}
	return err
}

// history is a history to validate.
type history struct {
	name string
	read func() ([]steplog.Step, error)
}

// listFiles returns the histories in the given files. A folder is one history, with a file for each
// process.
func (o options) listFiles(files []string) (list []history) {
	for _, file := range files {
		read := readHistory
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			read = mergeFolder
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Clean(file), ".json"), "/", "-")
		list = append(list, history{name, func() ([]steplog.Step, error) { return read(file) }})
	}
	return list
}

// readHistory reads the steps in a file, one step per line. It also returns the steps before an
// error.
func readHistory(file string) (steps []steplog.Step, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var s steplog.Step
		switch err := d.Decode(&s); {
		case errors.Is(err, io.EOF):
			return steps, nil
		case err != nil:
			return steps, fmt.Errorf("%s, step %d: %w", file, len(steps)+1, err)
		}
		steps = append(steps, s)
	}
}

// listRuns returns the histories of random runs of the simulator in this program.
func (o options) listRuns() (list []history) {
	for i := range o.runs {
		seed := o.seed + uint64(i)
		list = append(list, history{
			name: fmt.Sprintf("seed-%d-size-%d", seed, o.size),
			read: func() ([]steplog.Step, error) { return o.drawHistory(seed), nil },
		})
	}
	return list
}

// verdict is what Quint prints about a batch of histories.
type verdict struct {
	text string
	err  error
}

// judgeHistories validates histories in batches, as many at the same time as there are processors.
// It prints the rejected histories, and those in files that are valid.
func (o options) judgeHistories(dir string, list []history) error {
	workers := min(runtime.GOMAXPROCS(0), len(list))
	limit := maxBatch
	if o.runs == 0 {
		limit = maxFileBatch
	}
	batches := slices.Collect(slices.Chunk(list, min(limit, (len(list)+workers-1)/workers)))
	verdicts := make(chan verdict)
	slots := make(chan struct{}, workers)
	for _, b := range batches {
		go func() {
			slots <- struct{}{}
			v := o.judgeBatch(dir, b)
			<-slots
			verdicts <- v
		}()
	}
	var failed error
	var valid, rejected, entries int
	for range batches {
		v := <-verdicts
		if v.err != nil && !errors.Is(v.err, errRejected) {
			failed = v.err
		}
		for line := range strings.Lines(v.text) {
			n := 0
			if _, rest, ok := strings.Cut(line, ": valid, "); ok {
				_, _ = fmt.Sscan(rest, &n) // the verdict is printed if it has no count
				valid++
				entries += n
			} else {
				rejected++
			}
			if n == 0 || o.runs == 0 {
				fmt.Print(line)
			}
		}
	}
	fmt.Printf("%d histories are valid with %d entries, %d are rejected\n", valid, entries, rejected)
	if failed == nil && rejected > 0 {
		failed = errRejected
	}
	return failed
}

func (o options) judgeBatch(dir string, list []history) verdict {
	var traces []string
	for _, h := range list {
		steps, err := h.read()
		if err != nil {
			return verdict{err: err}
		}
		trace, err := o.addTrace(dir, h.name, steps)
		if err != nil {
			return verdict{err: err}
		}
		traces = append(traces, trace)
	}
	var text strings.Builder
	err := o.replayTraces(&text, traces)
	if o.out == "" {
		for _, trace := range traces {
			_ = os.Remove(trace) // the whole folder is removed later
		}
	}
	return verdict{text.String(), err}
}

// drawHistory runs the simulator and returns the steps.
func (o options) drawHistory(seed uint64) (steps []steplog.Step) {
	sim.Run(sim.Options{
		Seed: seed, Size: o.size, For: o.faults, Record: keepIn(&steps),
		Without: sim.RestoredCopies | sim.Workers, // the specification has neither
	})
	return steps
}

// keepIn returns a function that appends the steps of a run to a list.
func keepIn(steps *[]steplog.Step) func(sim.Record) {
	return func(r sim.Record) {
		if r.Kind == sim.Stepped {
			*steps = append(*steps, *r.Step)
		}
	}
}

// listKept returns the history of a recorded run of the simulator.
func (o options) listKept() []history {
	return []history{{
		name: strings.TrimSuffix(filepath.Base(o.kept), ".json"),
		read: func() (steps []steplog.Step, err error) {
			content, err := os.ReadFile(o.kept)
			if err != nil {
				return nil, err
			}
			r, err := sim.ParseReplay(content)
			if err != nil {
				return nil, err
			}
			sim.Reproduce(r, keepIn(&steps))
			return steps, nil
		},
	}}
}
