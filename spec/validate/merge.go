// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/athena-go/athena/internal/steplog"
)

// mergeFolder reads the steps of real processes, one file for each run, and returns the history of
// their cluster.
func mergeFolder(dir string) ([]steplog.Step, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var runs [][]steplog.Step
	for _, file := range files {
		steps, err := readHistory(file)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		if len(steps) > 0 { // a process may be killed while it writes, even its first step
			runs = append(runs, steps)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no steps of processes", dir)
	}
	slices.SortFunc(runs, func(x, y []steplog.Step) int { return cmp.Compare(x[0].At, y[0].At) })
	c := *runs[0][0].Config
	history := []steplog.Step{{Event: steplog.Setup, Config: &steplog.Config{
		Size: c.Size, Seeds: c.Seeds, TrustRefusal: c.TrustRefusal, Timings: c.Timings,
	}}}
	for i, steps := range runs {
		history = append(history, endRun(steps, runs[i+1:])...)
	}
	slices.SortStableFunc(history, func(x, y steplog.Step) int { return cmp.Compare(x.At, y.At) })
	return history, nil
}

// endRun adds that a run ended after its last step. A step is written before its save, so the next
// start of the store shows whether a process that was killed had saved. If not, nothing left.
func endRun(steps []steplog.Step, later [][]steplog.Step) []steplog.Step {
	last := steps[len(steps)-1]
	end := steplog.Step{Event: steplog.Crash, Node: last.Node, Clock: last.Clock, At: last.At}
	if last.Saved == nil {
		return append(steps, end)
	}
	end.Node.StoreID, end.Node.Incarnation = last.Saved.StoreID, last.Saved.Incarnation
	for _, next := range later {
		if s := next[0].Saved; s.StoreID == last.Saved.StoreID {
			if !sameContent(*s, *last.Saved) {
				end.Node = last.Node
				return append(steps[:len(steps)-1], end)
			}
			break
		}
	}
	return append(steps, end)
}

// sameContent reports whether two runs of a store have the same content.
func sameContent(x, y steplog.Durable) bool {
	x.Incarnation, y.Incarnation = 0, 0
	a, errA := json.Marshal(x)
	b, errB := json.Marshal(y)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}
