// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// DiskWrite is a kind of write to the store. At most one write of each kind is in progress.
type DiskWrite int

// The kinds of writes.
const (
	Save  DiskWrite = iota // of the state, by the event loop
	Probe                  // of a few bytes, while nothing is saved
	diskWrites
)

// DiskWatch watches the writes of a node to its store. The event loop waits for each save, so it
// cannot notice a disk that neither completes a write nor fails it. The methods may be called from
// any goroutine and do not wait for the disk.
type DiskWatch struct {
	log   *slog.Logger
	limit time.Duration // a longer write makes the node not ready

	mu       sync.Mutex
	began    [diskWrites]time.Time // of the writes in progress; otherwise zero
	ended    time.Time             // of the last write
	took     time.Duration         // by the last write
	fault    error                 // of the last probe; nil if a later write succeeded
	failing  time.Time             // when the first probe of this fault began; zero without one
	timer    *time.Timer           // calls warnStall; nil before the first write
	warnedAt time.Time             // when the last warning was logged
	repeat   time.Duration         // time between two warnings
	warned   bool                  // a warning about the present stall or fault was logged
}

// Begin records that a write begins. End must follow.
func (d *DiskWatch) Begin(w DiskWrite) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.oldestWrite()
	d.began[w] = time.Now()
	switch {
	case d.timer == nil:
		d.timer = time.AfterFunc(d.limit, d.warnStall)
	case before.IsZero():
		d.timer.Reset(d.limit)
	}
}

// End records that a write has ended, with its error.
func (d *DiskWatch) End(w DiskWrite, err error) {
	d.mu.Lock()
	now := time.Now()
	began := d.began[w]
	took := now.Sub(began)
	d.began[w], d.ended, d.took = time.Time{}, now, took
	switch {
	case err == nil:
		d.fault, d.failing = nil, time.Time{}
	case w == Probe: // an error of Save stops the node
		if d.fault == nil {
			d.failing = began
		}
		d.fault = err
	}
	if oldest := d.oldestWrite(); oldest.IsZero() {
		d.timer.Stop()
	} else {
		d.timer.Reset(max(0, d.limit-now.Sub(oldest)))
	}
	healthy := d.explainStall(now) == ""
	recovered := healthy && d.warned
	d.warned = d.warned && !healthy
	failed := d.fault != nil && d.mayWarn(now)
	d.mu.Unlock()
	switch { // without the lock: the log may be on the same disk
	case recovered:
		d.log.Info("the disk answers again", slog.Float64("pending_ms", Milliseconds(took)))
	case failed:
		d.log.Warn("cannot write to the data directory: this node is not ready", ErrAttr(err))
	}
}

// warnStall logs that a write takes too long, and calls itself again at growing intervals.
func (d *DiskWatch) warnStall() {
	d.mu.Lock()
	now := time.Now()
	age, stalled := d.writeAge(now)
	due := stalled && d.mayWarn(now)
	if stalled {
		d.timer.Reset(d.warnedAt.Add(d.repeat).Sub(now))
	}
	d.mu.Unlock()
	if due {
		d.log.Warn("the disk does not answer: this node cannot save and is not ready",
			slog.Float64("pending_ms", Milliseconds(age)))
	}
}

// mayWarn reports whether a warning may be logged now, and counts it. d.mu must be held.
func (d *DiskWatch) mayWarn(now time.Time) bool {
	if !d.warnedAt.IsZero() && now.Sub(d.warnedAt) < d.repeat {
		return false
	}
	d.repeat = min(2*d.repeat, maxWarnRepeat)
	if !d.warned {
		d.repeat = minWarnRepeat
	}
	d.warnedAt, d.warned = now, true
	return true
}

// oldestWrite returns when the oldest write in progress began, or the zero time. d.mu must be held.
func (d *DiskWatch) oldestWrite() time.Time {
	var oldest time.Time
	for _, began := range d.began {
		if oldest.IsZero() || !began.IsZero() && began.Before(oldest) {
			oldest = began
		}
	}
	return oldest
}

// writeAge returns how long the oldest write in progress has taken, and whether that is too long.
// Without one it returns 0. d.mu must be held.
func (d *DiskWatch) writeAge(now time.Time) (age time.Duration, stalled bool) {
	if oldest := d.oldestWrite(); !oldest.IsZero() {
		age = now.Sub(oldest)
		stalled = age >= d.limit
	}
	return age, stalled
}

// Idle returns the time since the last write ended; 0 while a write is in progress.
func (d *DiskWatch) Idle() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.oldestWrite().IsZero() {
		return 0
	}
	return time.Since(d.ended)
}

// Read returns how long the oldest write in progress has taken or, if that is longer, how long all
// writes have failed; how long the last write took; and why the node cannot save, or "" if it can.
func (d *DiskWatch) Read() (pending, took time.Duration, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	pending, _ = d.writeAge(now)
	if d.fault != nil {
		pending = max(pending, now.Sub(d.failing))
	}
	return pending, d.took, d.explainStall(now)
}

// explainDelay explains how the disk of this node delays elections, or returns "" if its last write
// took at most slow.
func (d *DiskWatch) explainDelay(slow time.Duration) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.took <= slow {
		return ""
	}
	return fmt.Sprintf("; the disk of this node is slow: its last write took %v, and an election "+
		"takes about eight", d.took.Round(time.Millisecond))
}

// explainStall returns why the node cannot save, or "" if it can. d.mu must be held.
func (d *DiskWatch) explainStall(now time.Time) string {
	switch age, stalled := d.writeAge(now); {
	case stalled:
		return fmt.Sprintf("the disk of this node does not answer: a write to the data directory has "+
			"taken %v so far", age.Round(time.Millisecond))
	case d.fault != nil:
		return fmt.Sprintf("this node cannot write to its data directory: %v", d.fault)
	default:
		return ""
	}
}
