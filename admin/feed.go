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

// feed numbers the changes of a node and keeps the newest. Streams read from it by
// number, so that none has a queue: who is slower than the ring is wide has lagged.
type feed struct {
	// run tells the numbers of this run of the process from those of others, also
	// of other nodes: the demo may continue a stream at another one.
	run  string
	look func() adminapi.Status

	mu      sync.Mutex
	ring    []entry       // at most adminapi.EventHistory, the last is the newest
	last    uint64        // number of the newest change, 0 before the first
	changed chan struct{} // closed at the next change, and at the end
	over    bool          // the node has closed
}

// entry is a change as it is written.
type entry struct {
	kind string
	data []byte
}

func newFeed(look func() adminapi.Status) *feed {
	run := make([]byte, 8)
	rand.Read(run) // never fails
	return &feed{run: hex.EncodeToString(run), look: look, changed: make(chan struct{})}
}

// followNode reads the node until it closes.
func (f *feed) followNode(node Node) {
	for e := range node.Events(context.Background()) {
		f.addChange(e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.wakeReaders()
}

// addChange numbers a change.
func (f *feed) addChange(e cluster.Event) {
	kind, data := adminapi.ChangeOf(time.Now(), e)
	if kind == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.ring = append(f.ring, entry{kind, adminapi.Encode(data)})
	if len(f.ring) > adminapi.EventHistory {
		f.ring = f.ring[1:] // the array is left when append makes the next
	}
	f.wakeReaders()
}

func (f *feed) wakeReaders() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// firstNumber is the number of the oldest change in the ring. The feed is locked.
func (f *feed) firstNumber() uint64 { return f.last + 1 - uint64(len(f.ring)) }

// batch is what a stream has yet to read.
type batch struct {
	entries []entry // the first has the number that was asked for
	missed  uint64  // before them, which the ring has no more
	changed <-chan struct{}
	over    bool
}

// changesSince returns all changes from a number on, those that are left where it is too
// old.
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

// takeSnapshot is the status and the number of the newest change that it shows for
// sure. It may show later ones too, which then follow once more.
func (f *feed) takeSnapshot() (number uint64, data []byte) {
	f.mu.Lock()
	number = f.last
	f.mu.Unlock()
	return number, adminapi.Encode(f.look())
}

// oldestNumber is the number of the oldest change that is remembered.
func (f *feed) oldestNumber() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.firstNumber()
}

func (f *feed) eventID(number uint64) string { return f.run + "-" + strconv.FormatUint(number, 10) }

// findAfter finds the change that follows the one with an id; false where this run of
// the process has given no such id, or remembers the change no more.
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
