// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
)

// feed numbers the changes of a node and keeps the newest in a ring. Streams read the ring by
// number, so they need no queues. A stream has lagged if the ring no longer holds its next change.
type feed struct {
	// run is a random part of each event id, so that ids of another run or node are rejected. In
	// the demo, a stream may continue at another node.
	run    string
	status func() adminapi.Status

	mu      sync.Mutex
	ring    []entry       // at most adminapi.EventHistory entries, newest last
	last    uint64        // number of the newest change; 0 if there was none
	changed chan struct{} // closed at the next change or when the node closes
	over    bool          // the node has closed
}

// entry is an encoded change.
type entry struct {
	kind string
	data []byte
}

func newFeed(status func() adminapi.Status) *feed {
	run := make([]byte, 8)
	rand.Read(run) // never fails
	return &feed{run: hex.EncodeToString(run), status: status, changed: make(chan struct{})}
}

// followNode adds the changes of the node until it closes.
func (f *feed) followNode(node Node) {
	for e := range node.Events(context.Background()) {
		f.addChange(e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.wakeReaders()
}

// addChange appends a change with the next number.
func (f *feed) addChange(e cluster.Event) {
	kind, data := adminapi.ChangeOf(time.Now(), e)
	if kind != "" {
		f.add(kind, adminapi.Encode(data))
	}
}

// add appends an encoded change with the next number.
func (f *feed) add(kind string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.ring = append(f.ring, entry{kind, data})
	if len(f.ring) > adminapi.EventHistory {
		f.ring = f.ring[1:] // append frees the old entries when it reallocates
	}
	f.wakeReaders()
}

func (f *feed) wakeReaders() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// firstNumber returns the number of the oldest change in the ring. f.mu must be held.
func (f *feed) firstNumber() uint64 { return f.last + 1 - uint64(len(f.ring)) }

// batch holds the changes that a stream has not read yet.
type batch struct {
	entries []entry
	missed  uint64 // number of earlier changes that the ring no longer holds
	changed <-chan struct{}
	over    bool
}

// changesSince returns the changes in the ring whose number is at least the given number.
func (f *feed) changesSince(number uint64) batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := batch{changed: f.changed, over: f.over}
	if first := f.firstNumber(); number < first {
		b.missed = first - number
		number = first
	}
	b.entries = slices.Clone(f.ring[number-f.firstNumber():])
	return b
}

// takeSnapshot returns the status, and the number of the newest change when the call began. The
// status may include later changes too; streams then send them again.
func (f *feed) takeSnapshot() (number uint64, data []byte) {
	f.mu.Lock()
	number = f.last
	f.mu.Unlock()
	return number, adminapi.Encode(f.status())
}

// oldestNumber returns the number of the oldest change in the ring.
func (f *feed) oldestNumber() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.firstNumber()
}

func (f *feed) eventID(number uint64) string { return f.run + "-" + strconv.FormatUint(number, 10) }

// findAfter returns the number that follows an event id. It returns false if the id is from another
// run or the ring no longer holds the change.
func (f *feed) findAfter(id string) (number uint64, known bool) {
	run, digits, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	if run != f.run || err != nil || n > f.last || n+1 < f.firstNumber() {
		return 0, false
	}
	return n + 1, true
}
