// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
)

// This file writes the metrics of the Go runtime and of the process, under the names that clients
// of Prometheus use. It imports no client, because a client may write to the log of the process.

// runtimeMetric is a metric that package runtime/metrics reads.
type runtimeMetric struct {
	source string // name in runtime/metrics
	name   string
	kind   metricKind
	help   string
}

var runtimeMetrics = []runtimeMetric{
	{"/sched/goroutines:goroutines", "go_goroutines", gauge, "Goroutines."},
	{"/sched/threads/total:threads", "go_threads", gauge, "Threads of the Go runtime."},
	{"/sched/gomaxprocs:threads", "go_gomaxprocs", gauge,
		"Threads that run Go code at the same time, at most."},
	{"/sched/latencies:seconds", "go_sched_latencies_seconds", buckets,
		"Time that goroutines were ready before they ran."},
	{"/sync/mutex/wait/total:seconds", "go_mutex_wait_seconds_total", counter,
		"Time that goroutines were blocked on locks."},
	{"/gc/cycles/total:gc-cycles", "go_gc_cycles_total", counter, "Garbage collections."},
	{"/sched/pauses/total/gc:seconds", "go_gc_pauses_seconds", buckets,
		"Pauses of the program for garbage collections."},
	{"/cpu/classes/gc/total:cpu-seconds", "go_gc_cpu_seconds_total", counter,
		"Estimated CPU time of garbage collections."},
	{"/gc/gomemlimit:bytes", "go_memlimit_bytes", gauge, "GOMEMLIMIT."},
	{"/gc/heap/allocs:bytes", "go_memstats_alloc_bytes_total", counter, "Bytes ever allocated."},
	{"/gc/heap/allocs:objects", "go_memstats_mallocs_total", counter, "Objects ever allocated."},
	{"/gc/heap/goal:bytes", "go_memstats_next_gc_bytes", gauge,
		"Size of the heap at the next garbage collection."},
	{"/gc/heap/objects:objects", "go_memstats_heap_objects", gauge, "Objects in the heap."},
	{"/memory/classes/heap/objects:bytes", "go_memstats_heap_alloc_bytes", gauge,
		"Bytes of the objects in the heap."},
	{"/memory/classes/heap/released:bytes", "go_memstats_heap_released_bytes", gauge,
		"Bytes of the heap that were returned to the system."},
	{"/memory/classes/heap/stacks:bytes", "go_memstats_stack_inuse_bytes", gauge,
		"Bytes of the stacks of goroutines."},
	{"/memory/classes/total:bytes", "go_memstats_sys_bytes", gauge,
		"Bytes that the Go runtime has mapped."},
}

// latencyBounds are the bounds of the buckets of a histogram of the Go runtime, in seconds.
var latencyBounds = []float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}

// writeRuntimeMetrics writes the metrics of the Go runtime that this version of Go has.
func writeRuntimeMetrics(text *bytes.Buffer) {
	samples := make([]metrics.Sample, len(runtimeMetrics))
	for i, m := range runtimeMetrics {
		samples[i].Name = m.source
	}
	metrics.Read(samples)
	for i, m := range runtimeMetrics {
		switch v := samples[i].Value; v.Kind() {
		case metrics.KindUint64:
			writeSample(text, m.name, m.kind, m.help, float64(v.Uint64()))
		case metrics.KindFloat64:
			writeSample(text, m.name, m.kind, m.help, v.Float64())
		case metrics.KindFloat64Histogram:
			writeLatencies(text, m, v.Float64Histogram())
		}
	}
	writeHead(text, "go_info", gauge, "Always 1; the label is the version of Go.")
	fmt.Fprintf(text, "go_info{version=%q} 1\n", runtime.Version())
}

// writeLatencies writes a histogram. A bucket of the runtime counts from the first bound that is
// not below its upper end. The runtime knows no sum.
func writeLatencies(text *bytes.Buffer, m runtimeMetric, h *metrics.Float64Histogram) {
	writeHead(text, m.name, m.kind, m.help)
	next, count := 0, uint64(0)
	for _, bound := range latencyBounds {
		for ; next < len(h.Counts) && h.Buckets[next+1] <= bound; next++ {
			count += h.Counts[next]
		}
		fmt.Fprintf(text, "%s_bucket{le=\"%g\"} %d\n", m.name, bound, count)
	}
	for ; next < len(h.Counts); next++ {
		count += h.Counts[next]
	}
	fmt.Fprintf(text, "%s_bucket{le=\"+Inf\"} %d\n", m.name, count)
}

// ticksPerSecond is the unit of times in /proc/PID/stat.
const ticksPerSecond = 100

// writeProcessMetrics writes the metrics of this process that /proc shows. Without /proc, it writes
// none.
func writeProcessMetrics(text *bytes.Buffer) {
	stat := readProc("self/stat")
	// The name of the program, in parentheses, may contain spaces.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return
	}
	number := func(field int) float64 { // as numbered in proc(5)
		v, _ := strconv.ParseFloat(fields[field-3], 64) // the kernel writes numbers
		return v
	}
	writeSample(text, "process_cpu_seconds_total", counter, "CPU time of the process.",
		(number(14)+number(15))/ticksPerSecond)
	writeSample(text, "process_virtual_memory_bytes", gauge, "Virtual memory.", number(23))
	writeSample(text, "process_resident_memory_bytes", gauge, "Resident memory.",
		number(24)*float64(os.Getpagesize()))
	if boot, ok := findNumber(readProc("stat"), "\nbtime "); ok {
		writeSample(text, "process_start_time_seconds", gauge,
			"Start of the process, as a Unix time.", boot+number(22)/ticksPerSecond)
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		writeSample(text, "process_open_fds", gauge, "Open file descriptors.", float64(len(open)))
	}
	if limit, ok := findNumber(readProc("self/limits"), "\nMax open files "); ok {
		writeSample(text, "process_max_fds", gauge, "Limit of open file descriptors.", limit)
	}
}

// readProc returns the content of a file in /proc, or "" if it cannot be read.
func readProc(name string) string {
	content, _ := os.ReadFile("/proc/" + name) // a missing file is a missing metric
	return string(content)
}

// findNumber returns the number that follows a text in a file of /proc.
func findNumber(content, before string) (number float64, ok bool) {
	_, after, _ := strings.Cut(content, before)
	words := strings.Fields(after)
	if len(words) == 0 {
		return 0, false
	}
	number, err := strconv.ParseFloat(words[0], 64)
	return number, err == nil
}

func writeSample(text *bytes.Buffer, name string, kind metricKind, help string, v float64) {
	writeHead(text, name, kind, help)
	fmt.Fprintf(text, "%s %s\n", name, strconv.FormatFloat(v, 'g', -1, 64))
}

// writeHead writes the lines that precede the samples of a metric.
func writeHead(text *bytes.Buffer, name string, kind metricKind, help string) {
	fmt.Fprintf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}
