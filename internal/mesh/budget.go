// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"sync"
)

// sharedFrameBytes bounds the total size of the large frames of all peers that are neither members
// nor seeds. A frame counts from its first byte until its handler has returned. Each member or seed
// has its own room for one frame of each kind, so other peers never delay it.
const sharedFrameBytes = 4 << 20

// budget limits the memory of large frames. Room for a frame is reserved before the frame is read.
// Until then its stream is not read, and its sender waits.
type budget struct {
	mu      sync.Mutex
	free    int
	waiting []*claim // earliest first
}

// claim is a pending request for room for one frame.
type claim struct {
	bytes   int
	granted chan struct{} // closed when room is granted
}

// acquire waits for room. It returns false if the channel is closed first; otherwise the caller
// must release the room.
func (b *budget) acquire(bytes int, done <-chan struct{}) bool {
	c := &claim{bytes: bytes, granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.grant()
	b.mu.Unlock()
	select {
	case <-c.granted:
		return true
	case <-done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, c)
	if i < 0 {
		return true // granted meanwhile
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.grant() // a smaller claim behind this one may fit now
	return false
}

func (b *budget) release(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += bytes
	b.grant()
}

// grant gives room to the waiting claims in order and stops at the first one that does not fit, so
// that small claims never starve a large one. b.mu must be held.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].bytes <= b.free {
		b.free -= b.waiting[0].bytes
		close(b.waiting[0].granted)
		b.waiting = b.waiting[1:]
	}
}
