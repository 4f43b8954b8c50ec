// SPDX-License-Identifier: Apache-2.0

// Package histogram counts durations in fixed buckets, without locks or allocations.
package histogram

import (
	"sync/atomic"
	"time"
)

// buckets is the number of bounds.
const buckets = 16

// bounds are the upper bounds of the buckets. They range from a fast disk or handler to an election
// that an operator must investigate.
var bounds = [buckets]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts durations. The zero value is ready for use. It must not be copied.
type Histogram struct {
	counts [buckets + 1]atomic.Uint64
	sum    atomic.Int64
}

// Observe adds d. A negative d counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < buckets && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Read returns the counts. The counts may include only a part of a concurrent Observe.
func (h *Histogram) Read() Durations {
	var d Durations
	for i := range h.counts {
		d.Counts[i] = h.counts[i].Load()
	}
	d.Sum = time.Duration(h.sum.Load())
	return d
}

// Durations is the content of a Histogram at one moment. It is exported as receiver.Durations.
type Durations struct {
	Sum    time.Duration
	Counts [buckets + 1]uint64 // number per bucket; the last one is for durations above all bounds
}

// Count returns how many durations were counted.
func (d Durations) Count() uint64 {
	var n uint64
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Buckets returns, for each upper bound in seconds, how many durations did not exceed it.
func (d Durations) Buckets() map[float64]uint64 {
	m := make(map[float64]uint64, buckets)
	var n uint64
	for i, bound := range bounds {
		n += d.Counts[i]
		m[bound.Seconds()] = n
	}
	return m
}
