// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The lines of a DiskWatch.
const (
	diskStalled = "the disk does not answer: this node cannot save and is not ready"
	diskFails   = "cannot write to the data directory: this node is not ready"
	diskAnswers = "the disk answers again"
)

// timedLog adds the time of each line, in seconds since the start, to what is logged.
func timedLog(out *bytes.Buffer) *slog.Logger {
	began := time.Now()
	replace := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("at", fmt.Sprint(time.Since(began).Round(time.Millisecond)))
		}
		return a
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: replace}))
}

// TestDiskWatch checks what is logged and reported about writes that take too long, overlap, or
// fail.
func TestDiskWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &DiskWatch{log: timedLog(&out), limit: time.Second}
		check := func(pending time.Duration, why string) {
			t.Helper()
			synctest.Wait()
			if got, _, text := d.Read(); got != pending || !strings.Contains(text, why) ||
				(text == "") != (why == "") {
				t.Errorf("pending %v, %q; want %v, %q in it", got, text, pending, why)
			}
		}
		check(0, "")
		d.Begin(Save)
		time.Sleep(999 * time.Millisecond)
		check(999*time.Millisecond, "")
		d.End(Save, nil) // at 1 s - 1 ms: nothing is logged
		if _, took, _ := d.Read(); took != 999*time.Millisecond {
			t.Errorf("the last write took %v, want 999ms", took)
		}
		time.Sleep(time.Hour)
		if idle := d.Idle(); idle != time.Hour {
			t.Errorf("idle for %v, want an hour", idle)
		}
		check(0, "")
		d.Begin(Probe)
		time.Sleep(600 * time.Millisecond)
		d.Begin(Save)
		time.Sleep(time.Minute)
		check(time.Minute+600*time.Millisecond, "does not answer")
		if idle := d.Idle(); idle != 0 {
			t.Errorf("idle for %v during a write", idle)
		}
		d.End(Probe, nil)
		check(time.Minute, "does not answer") // the save is in progress
		d.End(Save, nil)
		check(0, "")
		time.Sleep(time.Minute)
		for i := range 3 {
			d.Begin(Probe)
			d.End(Probe, errBoom)
			check(time.Duration(i)*5*time.Second, "cannot write to its data directory: boom")
			time.Sleep(5 * time.Second)
		}
		d.Begin(Save)
		d.End(Save, nil)
		check(0, "")
		want := ""
		for _, l := range []struct{ at, level, text, field string }{
			{"1h0m1.999s", "WARN", diskStalled, "pending_ms=1000"},
			{"1h0m11.999s", "WARN", diskStalled, "pending_ms=11000"},
			{"1h0m31.999s", "WARN", diskStalled, "pending_ms=31000"},
			{"1h1m1.599s", "INFO", diskAnswers, "pending_ms=60000"},
			{"1h2m1.599s", "WARN", diskFails, "error=boom"},
			{"1h2m11.599s", "WARN", diskFails, "error=boom"},
			{"1h2m16.599s", "INFO", diskAnswers, "pending_ms=0"},
		} {
			want += fmt.Sprintf("at=%s level=%s msg=%q %s\n", l.at, l.level, l.text, l.field)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("log: -want +got:\n%s", diff)
		}
	})
}

// TestDiskWatchIsQuiet checks that a disk that stalls again and again is not logged each time.
func TestDiskWatchIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &DiskWatch{log: timedLog(&out), limit: time.Second}
		for range 30 {
			d.Begin(Save)
			time.Sleep(2 * time.Second)
			d.End(Save, nil)
		}
		if n := strings.Count(out.String(), "level=WARN"); n < 3 || n > 6 {
			t.Errorf("%d warnings in a minute, want 3 to 6:\n%s", n, &out)
		}
	})
}
