// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/steplog"
)

// drawEnd draws a history in which an announced end ends support. It returns the history with the
// index of the step that hears the announcement.
func drawEnd(t *testing.T, o options) (steps []steplog.Step, heard int) {
	t.Helper()
	for seed := range uint64(1000) {
		steps := o.drawHistory(seed)
		trace, err := translateHistory("drawn", steps, o.steps)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range trace.Events {
			s := steps[trace.Lines[i]-1]
			if e[0] == strconv.Itoa(laterRun) && s.Message != nil && isAnnouncedEnd(*s.Message) {
				return steps, trace.Lines[i] - 1
			}
		}
	}
	t.Fatal("no history with an announced end")
	return nil, 0
}

// TestAnnouncedEnds checks that a history with an announced end is valid, and that it is rejected
// if the end was announced while the process ran, or before the number of the run was saved.
func TestAnnouncedEnds(t *testing.T) {
	o := toolsOf(t)
	whole, heard := drawEnd(t, o)
	run := whole[heard].Message.From
	running := slices.DeleteFunc(slices.Clone(whole), func(s steplog.Step) bool {
		return s.Event == steplog.Crash && s.Node.StoreID == run.StoreID
	})
	unsaved := slices.Clone(whole)
	for i, s := range unsaved {
		if s.Message != nil && s.Message.From == run {
			m := *s.Message
			m.From.Incarnation <<= 8 // above the run that is started next
			unsaved[i].Message = &m
		}
	}
	for name, steps := range map[string][]steplog.Step{
		"whole": whole, "running": running, "unsaved": unsaved,
	} {
		trace, err := o.addTrace(t.TempDir(), name, steps)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = o.replayTraces(&out, []string{trace})
		rejected := errors.Is(err, errRejected) && strings.Contains(out.String(), "laterRun")
		if name == "whole" && err != nil || name != "whole" && !rejected {
			t.Errorf("%s: %v\n%s", name, err, &out)
		}
	}
}
