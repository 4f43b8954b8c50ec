// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// maxFirstDials bounds the number of simultaneous dials to peers without an earlier connection.
	// When many nodes start at the same time, unbounded dials would leave too little CPU time for any
	// handshake to complete.
	maxFirstDials = 8
	// A dial counts towards maxFirstDials only for minSlotTime, so that peers that do not answer
	// hardly delay the others. If recent handshakes took more than half of minSlotTime, the machines
	// are busy, and more dials would make them busier. Then a dial counts for twice the duration of a
	// handshake.
	minSlotTime = 250 * time.Millisecond
	maxSlotTime = 5 * time.Second
)

// dialSlots bounds the first dials of a node.
type dialSlots struct {
	taken   chan struct{} // one entry for each slot in use
	slowest atomic.Int64  // duration of the slowest recent handshake; each faster handshake lowers it
}

func newDialSlots() *dialSlots { return &dialSlots{taken: make(chan struct{}, maxFirstDials)} }

// acquire waits for a slot. The caller must call release once. If ctx is done first, acquire
// returns without a slot, and release does nothing.
func (s *dialSlots) acquire(ctx context.Context) (release func()) {
	select {
	case s.taken <- struct{}{}:
		return func() { <-s.taken }
	case <-ctx.Done():
		return func() {}
	}
}

// holdTime returns how long a dial may keep its slot.
func (s *dialSlots) holdTime() time.Duration {
	return min(max(2*time.Duration(s.slowest.Load()), minSlotTime), maxSlotTime)
}

// noteHandshake records how long a handshake took.
func (s *dialSlots) noteHandshake(took time.Duration) {
	s.slowest.Store(max(int64(took), s.slowest.Load()/8*7))
}
