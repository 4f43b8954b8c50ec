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
	"strings"

	"github.com/athena-go/athena/internal/sim"
	"github.com/athena-go/athena/internal/steplog"
)

// batch is the number of traces that one process replays.
const batch = 25

// errRejected means that the specification does not allow at least one history.
var errRejected = errors.New("a history is not a behaviour of the specification")

// addTrace translates a history and writes its trace into dir.
func (o options) addTrace(dir, name string, steps []steplog.Step) (path string, err error) {
	t, err := translate(name, steps[:min(len(steps), o.steps)])
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

// replay replays traces with Quint and prints its verdicts. The error is errRejected if Quint
// rejects a trace.
func (o options) replay(out io.Writer, traces []string) error {
	args := []string{filepath.Join(o.spec, "replay.js"), o.quint}
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

func (o options) validateFiles(dir string, files []string) error {
	var traces []string
	for _, file := range files {
		read := readHistory
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			read = mergeFolder
		}
		steps, err := read(file)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Clean(file), ".json"), "/", "-")
		trace, err := o.addTrace(dir, name, steps)
		if err != nil {
			return err
		}
		traces = append(traces, trace)
	}
	return o.replay(os.Stdout, traces)
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

// validateRuns validates runs of the simulator. The runs use the code in this tree.
func (o options) validateRuns(dir string) error {
	counts := struct{ valid, rejected, entries int }{}
	for first := 0; first < o.runs; first += batch {
		var traces []string
		for i := first; i < min(first+batch, o.runs); i++ {
			seed := o.seed + uint64(i)
			trace, err := o.addTrace(dir, fmt.Sprintf("seed-%d-size-%d", seed, o.size), o.draw(seed))
			if err != nil {
				return err
			}
			traces = append(traces, trace)
		}
		var report strings.Builder
		if err := o.replay(&report, traces); err != nil && !errors.Is(err, errRejected) {
			return err
		}
		for line := range strings.Lines(report.String()) {
			var entries int
			if _, rest, ok := strings.Cut(line, ": valid, "); ok {
				fmt.Sscan(rest, &entries)
				counts.valid++
				counts.entries += entries
				continue
			}
			counts.rejected++
			fmt.Print(line)
		}
		for _, t := range traces {
			if o.out == "" {
				os.Remove(t)
			}
		}
	}
	fmt.Printf("size %d, seeds %d to %d: %d histories valid with %d entries, %d rejected\n", o.size,
		o.seed, o.seed+uint64(o.runs)-1, counts.valid, counts.entries, counts.rejected)
	if counts.rejected > 0 {
		return errRejected
	}
	return nil
}

// draw runs the simulator and returns the first steps.
func (o options) draw(seed uint64) (steps []steplog.Step) {
	sim.Run(sim.Options{Seed: seed, Size: o.size, For: o.faults, Record: o.keepIn(&steps)})
	return steps
}

func (o options) keepIn(steps *[]steplog.Step) func(sim.Record) {
	return func(r sim.Record) {
		if r.Kind == sim.Stepped && len(*steps) < o.steps {
			*steps = append(*steps, *r.Step)
		}
	}
}

// validateKept validates a recorded run of the simulator.
func (o options) validateKept(dir string) error {
	content, err := os.ReadFile(o.kept)
	if err != nil {
		return err
	}
	r, err := sim.ParseReplay(content)
	if err != nil {
		return err
	}
	var steps []steplog.Step
	sim.Reproduce(r, o.keepIn(&steps))
	trace, err := o.addTrace(dir, strings.TrimSuffix(filepath.Base(o.kept), ".json"), steps)
	if err != nil {
		return err
	}
	return o.replay(os.Stdout, []string{trace})
}
