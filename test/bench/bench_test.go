// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/children"
	"github.com/athena-go/athena/test/results"
)

// TestMain lets the test program run as a node, as the command does.
func TestMain(m *testing.M) {
	if is, err := Child(); is {
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestMeasurements checks that every measurement is listed and has all settings.
func TestMeasurements(t *testing.T) {
	if got, want := len(measures), len(Measurements()); got != want {
		t.Errorf("%d measurements, but %d are listed", got, want)
	}
	for _, m := range Measurements() {
		o := m.Defaults
		if measures[m.Name] == nil || len(o.Sizes) == 0 || o.Reps == 0 || o.Out == "" {
			t.Errorf("%s: %+v, want complete settings", m.Name, o)
		}
		if slices.Min(o.Sizes) < m.Least {
			t.Errorf("%s: sizes %v, want %d at least", m.Name, o.Sizes, m.Least)
		}
	}
}

// measured runs a small measurement once with real processes. It checks that there is a row
// about the machine and the given number of results, and returns the results and the
// printed text.
func measured(t *testing.T, name string, results int, small func(*Options)) ([]row, string) {
	t.Helper()
	o := smallest(t, name)
	small(&o)
	var out strings.Builder
	if err := Run(t.Context(), name, o, &out); err != nil {
		t.Fatal(err)
	}
	rows := readRows(t, o.Out)
	if len(rows) != 1+results {
		t.Fatalf("%d rows, want one about the machine and %d: %v", len(rows), results, rows)
	}
	if rows[0]["measurement"] != name || rows[0]["interval"] != o.Config.HeartbeatInterval.String() {
		t.Errorf("about the machine: %v, want %s at %v", rows[0], name, o.Config.HeartbeatInterval)
	}
	for _, c := range columns[name] {
		has := func(r row) bool { return r[c.Name] != nil }
		if !slices.ContainsFunc(rows[1:], has) || c.Means == "" {
			t.Errorf("%s: no row of %v has the column %+v", name, rows[1:], c)
		}
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("after the measurement: %v, %v, want no stores", left, err)
	}
	return rows[1:], out.String()
}

// smallest returns the options for one measurement of the smallest suitable cluster.
func smallest(t *testing.T, name string) Options {
	t.Helper()
	all := Measurements()
	m := all[slices.IndexFunc(all, func(m Measurement) bool { return m.Name == name })]
	o := m.Defaults
	o.Sizes, o.Reps, o.Dir = []int{m.Least}, 1, t.TempDir()
	o.Out = filepath.Join(t.TempDir(), "rows", name+".jsonl")
	return o
}

// positive checks that the given columns of a row are positive numbers.
func positive(t *testing.T, r row, columns ...string) {
	t.Helper()
	for _, c := range columns {
		if v, ok := r[c].(float64); !ok || v <= 0 {
			t.Errorf("%s of %v: want above 0", c, r)
		}
	}
}

func TestFormation(t *testing.T) {
	rows, out := measured(t, "formation", 1, func(o *Options) { o.Sizes = []int{3} })
	positive(t, rows[0], "ms")
	want := "\nms: from the start of the processes until each sees all nodes active under a leader\n" +
		"n  count  min "
	if rows[0]["n"] != 3.0 || !strings.Contains(out, want) {
		t.Errorf("got %v and\n%s\nwant n 3 and a table", rows, out)
	}
}

func TestFailover(t *testing.T) {
	rows, _ := measured(t, "failover", 2, func(*Options) {})
	for i, how := range []string{Kill, Stop} {
		if rows[i]["how"] != how {
			t.Errorf("row %d: %v, want %s", i, rows[i], how)
		}
		positive(t, rows[i], "ms", "formation_ms")
	}
}

// TestDetection checks that a stopped member is not detected too early. Detection takes at least
// the timeout minus one interval, because the last message may have arrived up to one interval
// before the stop.
func TestDetection(t *testing.T) {
	rows, _ := measured(t, "detection", 2, func(*Options) {})
	if ms, ok := rows[1]["ms"].(float64); !ok || ms < 390 || rows[1]["how"] != Stop {
		t.Errorf("stopped: %v, want at least about 400 ms", rows[1])
	}
	positive(t, rows[0], "ms", "first_ms", "formation_ms")
}

func short(o *Options) {
	o.For, o.PayloadBytes, o.Workers = 40*time.Millisecond, []int{64}, []int{2}
}

func TestOneWay(t *testing.T) {
	rows, _ := measured(t, "oneway", 1, short)
	positive(t, rows[0], "msgs", "msgs_s", "mb_s", "cpu_s_per_million", "allocs_per_msg")
	if rows[0]["bytes"] != 64.0 || rows[0]["workers"] != 2.0 {
		t.Errorf("got %v, want 64 bytes and 2 goroutines", rows[0])
	}
}

func TestBroadcast(t *testing.T) {
	rows, _ := measured(t, "broadcast", 1, func(o *Options) {
		short(o)
		o.Sizes = []int{3}
	})
	positive(t, rows[0], "msgs", "msgs_s", "mb_s", "cpu_s_per_million", "allocs_per_msg")
}

func TestRequest(t *testing.T) {
	rows, _ := measured(t, "request", 1, short)
	positive(t, rows[0], "calls", "calls_s", "p50_us", "p99_us",
		"cpu_s_per_million", "allocs_per_call")
	if rows[0]["p50_us"].(float64) > rows[0]["p99_us"].(float64) {
		t.Errorf("got %v, want the median below the rest", rows[0])
	}
}

func TestStream(t *testing.T) {
	rows, _ := measured(t, "stream", 1, short)
	positive(t, rows[0], "mb_s", "cpu_s_per_gb", "allocs_per_mb")
}

func TestIdle(t *testing.T) {
	rows, _ := measured(t, "idle", 2, func(o *Options) { o.For = 200 * time.Millisecond })
	positive(t, rows[0], "rss_mib")
	if rows[0]["role"] != "leader" || rows[1]["role"] != "mean" {
		t.Errorf("got %v, want the leader and the mean", rows)
	}
}

func TestJobs(t *testing.T) {
	rows, _ := measured(t, "jobs", 1, func(o *Options) { o.Sizes, o.Jobs = []int{3}, 20 })
	positive(t, rows[0], "ms")
	if n, ok := rows[0]["commits_per_job"].(float64); !ok || n < 1 {
		t.Errorf("got %v, want a commit for each job", rows[0])
	}
}

// TestHolderWithGuard checks that the guard of a killed node makes its job, lock and semaphore free
// before the leases expire.
func TestHolderWithGuard(t *testing.T) {
	rows, _ := measured(t, "holder", 3, func(o *Options) {
		o.Guards, o.Signals, o.Holds = true, []string{Kill}, []string{Job, Lock, Semaphore}
	})
	for i, what := range []string{Job, Lock, Semaphore} {
		positive(t, rows[i], "ms")
		if leads, _ := rows[i]["leads"].(string); !strings.HasPrefix(leads, what) {
			t.Errorf("row %d: %v, want %s", i, rows[i], what)
		}
		// Without a guard it takes at least the lease less a heartbeat.
		if ms, _ := rows[i]["ms"].(float64); ms > 1500 {
			t.Errorf("row %d: %v, want less than without a guard", i, rows[i])
		}
	}
}

// TestHolderOfALock checks that a lock changes its holder if the holder is isolated.
func TestHolderOfALock(t *testing.T) {
	rows, _ := measured(t, "holder", 1, func(o *Options) {
		o.Signals, o.Holds = []string{Cut}, []string{Lock}
	})
	positive(t, rows[0], "ms", "gap_ms")
}

// TestHolder checks that no other node leads before the lease of an isolated leader has
// ended.
func TestHolder(t *testing.T) {
	rows, _ := measured(t, "holder", 2, func(o *Options) { o.Holds = []string{Job} })
	for i, how := range []string{Kill, Cut} {
		positive(t, rows[i], "ms", "gap_ms")
		if ms, ok := rows[i]["ms"].(float64); !ok || ms < 800 || rows[i]["how"] != how {
			t.Errorf("row %d: %v, want %s, and at least the lease less a heartbeat", i, rows[i], how)
		}
	}
}

func TestLocks(t *testing.T) {
	rows, _ := measured(t, "locks", 1, func(o *Options) {
		o.For, o.Workers = 200*time.Millisecond, []int{4}
	})
	positive(t, rows[0], "locks_s", "p50_us", "p99_us")
}

func TestGroup(t *testing.T) {
	rows, _ := measured(t, "group", 2, func(*Options) {})
	for _, r := range rows {
		positive(t, r, "ms")
	}
}

// TestShards kills and restarts a worker of shards, once each.
func TestShards(t *testing.T) {
	rows, _ := measured(t, "shards", 3, func(o *Options) { o.Jobs = 12 })
	for i, what := range []string{"start", "kill", "restart"} {
		positive(t, rows[i], "ms")
		if rows[i]["what"] != what || i > 0 && rows[i]["needed"] != 4.0 {
			t.Errorf("row %d: %v, want %s, and 4 needed moves of 12 shards", i, rows[i], what)
		}
	}
}

// TestTwoOwners checks that it is an error if work on a shard begins too early or has a smaller
// token.
func TestTwoOwners(t *testing.T) {
	killed, alive := &process{died: 20}, &process{}
	token := func(n uint64) member.Token { return member.Token{Version: 1, Revision: n} }
	for _, c := range []struct {
		first, second ownedRun
		good          bool
	}{
		{ownedRun{alive, token(1), 10, 15}, ownedRun{alive, token(2), 16, 0}, true},
		{ownedRun{killed, token(1), 10, 0}, ownedRun{alive, token(2), 21, 0}, true},
		{ownedRun{killed, token(1), 10, 0}, ownedRun{alive, token(2), 19, 0}, false},
		{ownedRun{alive, token(1), 10, 15}, ownedRun{alive, token(2), 14, 0}, false},
		{ownedRun{alive, token(1), 10, 0}, ownedRun{alive, token(2), 30, 0}, false},
		{ownedRun{alive, token(2), 10, 15}, ownedRun{alive, token(1), 16, 0}, false},
	} {
		ps := &processes{group: children.NewGroup(), runs: [][]ownedRun{{c.first, c.second}}}
		if err := ps.checkShards(); (err == nil) != c.good {
			t.Errorf("%+v, then %+v: %v", c.first, c.second, err)
		}
	}
}

// TestLoss checks that a lost event is an error and does not only lower the rate.
func TestLoss(t *testing.T) {
	ps, _, err := formCluster(t.Context(), smallest(t, "oneway"), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer ps.killAll()
	third, err := member.ParseAddress(ps.all[2].address)
	if err != nil {
		t.Fatal(err)
	}
	ask := order{Do: doSend, To: third, Bytes: 1, Workers: 1, For: time.Millisecond}
	if r, err := measureFlow(t.Context(), ps.all[0], ps.all[1:2], ask); !errors.Is(err, errLost) {
		t.Errorf("events to another: %v, %v, want %v", r, err, errLost)
	}
}

// TestMissed checks that a timeout yields a row without a duration.
func TestMissed(t *testing.T) {
	o := smallest(t, "formation")
	rec, err := newRecorder("formation", o, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	late := fmt.Errorf("formation: %w", children.ErrSlow)
	if err := rec.recordResult(row{"n": 1}, late); err != nil {
		t.Errorf("%v: got %v, want a row", late, err)
	}
	if err := rec.recordResult(row{"n": 1}, children.ErrEnded); err != children.ErrEnded {
		t.Errorf("%v: got %v", children.ErrEnded, err)
	}
	if err := rec.close(); err != nil {
		t.Fatal(err)
	}
	rows := readRows(t, o.Out)
	if len(rows) != 2 || rows[1]["missed"] != late.Error() {
		t.Errorf("got %v, want a row with a timeout", rows)
	}
}

// TestInterrupt checks that a measurement ends when its context is done.
func TestInterrupt(t *testing.T) {
	errOver := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	o := smallest(t, "formation")
	if err := Run(ctx, "formation", o, &strings.Builder{}); !errors.Is(err, errOver) {
		t.Errorf("got %v, want %v", err, errOver)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("after the interrupt: %v, %v, want no stores", left, err)
	}
}

func readRows(t *testing.T, path string) []row {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	about, rows, err := results.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return append([]row{about}, rows...)
}

// TestJSON checks that exactly the rows of the file are printed.
func TestJSON(t *testing.T) {
	o := smallest(t, "formation")
	o.JSON = true
	var out bytes.Buffer
	rec, err := newRecorder("formation", o, &out)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		rec.recordRow(row{"n": 3, "ms": 1.5}), rec.recordResult(row{"n": 5}, children.ErrSlow),
		rec.printTable("ms", "n"), rec.close())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(o.Out)
	if err != nil || out.String() != string(file) || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("prints\n%s\nwant the three rows of the file, %v\n%s", &out, err, file)
	}
}
