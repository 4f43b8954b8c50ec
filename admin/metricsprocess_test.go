// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
)

// TestMetricsOfTheProcess checks that the metrics of the Go runtime and of the process have
// plausible values.
func TestMetricsOfTheProcess(t *testing.T) {
	text := ask(admin.New(leading(t), ""), "GET", "/metrics").Body.String()
	now := float64(time.Now().Unix())
	for _, c := range []struct {
		name     string
		min, max float64
		inProc   bool
	}{
		{"go_goroutines", 1, 1e6, false},
		{"go_threads", 1, 1e5, false},
		{"go_gomaxprocs", 1, 1e5, false},
		{"go_memlimit_bytes", 1e6, 1e20, false},
		{"go_memstats_heap_alloc_bytes", 1e4, 1e12, false},
		{"go_memstats_sys_bytes", 1e6, 1e12, false},
		{"go_memstats_mallocs_total", 100, 1e15, false},
		{"process_cpu_seconds_total", 0, 1e5, true},
		{"process_resident_memory_bytes", 1e6, 1e12, true},
		{"process_virtual_memory_bytes", 1e6, 1e16, true},
		{"process_start_time_seconds", now - 3600, now + 1, true},
		{"process_open_fds", 3, 1e6, true},
		{"process_max_fds", 3, 1e10, true},
	} {
		line := regexp.MustCompile(`(?m)^`+c.name+` (\S+)$`).FindAllStringSubmatch(text, -1)
		if _, err := os.Stat("/proc/self/stat"); err != nil && c.inProc {
			continue
		}
		if len(line) != 1 {
			t.Errorf("%s has %d samples, want 1", c.name, len(line))
			continue
		}
		if v, err := strconv.ParseFloat(line[0][1], 64); err != nil || v < c.min || v > c.max {
			t.Errorf("%s is %s, want %g to %g", c.name, line[0][1], c.min, c.max)
		}
	}
	// The buckets of a histogram grow, and the last one counts everything.
	last := -1
	bucket := regexp.MustCompile(`(?m)^go_sched_latencies_seconds_bucket\{le="(\S+)"\} (\d+)$`)
	for _, m := range bucket.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil || n < last {
			t.Errorf("bucket %s has %s observations, want at least %d", m[1], m[2], last)
		}
		last = n
	}
	if last <= 0 {
		t.Errorf("the last bucket has %d observations, want some", last)
	}
}
