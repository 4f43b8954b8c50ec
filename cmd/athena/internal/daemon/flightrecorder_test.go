// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// TestFlightRecorder checks that a trace is written when the node loses its leadership without a
// hand-over, at most once a minute, and that only the newest traces are kept.
func TestFlightRecorder(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "made [x]")
	f, err := newFlight(dir, newLogger(&log, "json", slog.LevelInfo))
	if err != nil {
		t.Fatal(err)
	}
	defer f.recorder.Stop()
	self, other := member.Address{Host: "a", Port: 1}, member.Address{Host: "b", Port: 1}
	at := func(a member.Address) (m member.Member) {
		m.Address = a
		return m
	}
	mine := cluster.LeaderChanged{Leader: at(self), Quorate: true}
	now := time.Now()
	traces := func(want int, when string) []string {
		t.Helper()
		files, err := os.ReadDir(dir)
		var all []string
		for _, f := range files {
			all = append(all, filepath.Join(dir, f.Name()))
		}
		if err != nil || len(all) != want {
			t.Fatalf("%s: %q, %v; want %d files", when, all, err, want)
		}
		return all
	}

	theirs := cluster.LeaderChanged{Leader: at(other), Quorate: true, Cause: cluster.CauseCrash}
	f.onEvent(theirs, self, now)
	traces(0, "after another node became leader")
	f.onEvent(mine, self, now)
	f.onEvent(cluster.LeaderChanged{Leader: at(other), Cause: cluster.CauseHandOver}, self, now)
	traces(0, "after a hand-over")
	var leading cluster.Snapshot
	leading.View.Leader, leading.View.Quorate = self, true
	f.onEvent(leading, self, now)
	f.onEvent(cluster.LeaderChanged{Leader: at(self), Cause: cluster.CauseLeaseLost}, self, now)
	path := traces(1, "after a lost lease")[0]
	if text, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(text, []byte("go 1.")) {
		t.Errorf("%s: %v, begins with %.20q; want a trace of Go", path, err, text)
	}
	if !strings.HasSuffix(path, "-lease-lost.trace") || !strings.Contains(log.String(), path) {
		t.Errorf("%s: want the cause in its name, and the path in the log: %s", path, &log)
	}
	f.onEvent(mine, self, now)
	f.onEvent(cluster.LeaderChanged{Cause: cluster.CauseLeaseLost}, self, now.Add(flightPause-1))
	traces(1, "within a minute")
	for i := range maxFlights + 2 {
		f.onEvent(mine, self, now)
		f.onEvent(cluster.LeaderChanged{Cause: cluster.CauseSilence}, self,
			now.Add(time.Duration(i+1)*flightPause))
	}
	all := traces(maxFlights, "after many")
	newest := now.Add((maxFlights + 2) * flightPause).UTC().Format("20060102T150405.000Z")
	want := filepath.Join(dir, fmt.Sprintf("athena-%s-silence.trace", newest))
	if last := all[len(all)-1]; last != want {
		t.Errorf("newest is %s, want %s", last, want)
	}
	const wrote = "wrote a trace of the seconds before the leadership was lost; open it with " +
		"go tool trace"
	if got := strings.Count(log.String(), wrote); got != 1+maxFlights+2 {
		t.Errorf("%d lines about written traces, want one for each: %s", got, &log)
	}
	if _, err := newFlight(filepath.Join(path, "below"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error for a directory that cannot be created")
	}
}

// TestFailedTraceIsLogged checks that a failure to write traces is logged once a minute.
func TestFailedTraceIsLogged(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "traces")
	f, err := newFlight(dir, newLogger(&log, "json", slog.LevelInfo))
	if err != nil {
		t.Fatal(err)
	}
	defer f.recorder.Stop()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.leads = true
		f.onEvent(cluster.LeaderChanged{Cause: cluster.CauseSilence}, member.Address{}, time.Now())
	}
	const want = `"message":"cannot write the trace of the lost leadership"`
	if got := log.String(); strings.Count(got, want) != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q, want one line", got)
	}
}
