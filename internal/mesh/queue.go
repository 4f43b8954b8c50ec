// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// maxQueuedFrames and maxQueuedBytes bound the system frames that wait, so that a
	// large one does not displace another.
	maxQueuedFrames = 64
	maxQueuedBytes  = 2 * MaxSystemBytes
	// maxQueuedTime is how old a system frame may get while it waits. It was
	// true of its sender when it was sent; later it only makes noise.
	maxQueuedTime = 2 * time.Second
	// pendingBytes bounds the frames of a flow that wait; one longer frame may
	// wait alone.
	pendingBytes = 256 << 10
)

// systemQueue is the system frames that wait to be written, the oldest first.
type systemQueue struct {
	frames []queued
	bytes  int
}

type queued struct {
	frame []byte
	since time.Time
}

func (q *systemQueue) empty() bool { return len(q.frames) == 0 }

// push adds a frame and returns how many of the oldest had to go.
func (q *systemQueue) push(frame []byte, now time.Time) (dropped int) {
	q.frames = append(q.frames, queued{frame, now})
	q.bytes += len(frame)
	for len(q.frames) > maxQueuedFrames || q.bytes > maxQueuedBytes {
		q.pop()
		dropped++
	}
	return dropped
}

// expire drops what is older than maxQueuedTime and returns how many.
func (q *systemQueue) expire(now time.Time) (dropped int) {
	for !q.empty() && now.Sub(q.frames[0].since) > maxQueuedTime {
		q.pop()
		dropped++
	}
	return dropped
}

func (q *systemQueue) pop() {
	q.bytes -= len(q.frames[0].frame)
	q.frames[0] = queued{}
	q.frames = q.frames[1:]
}

// clear drops everything and returns how many.
func (q *systemQueue) clear() int {
	n := len(q.frames)
	*q = systemQueue{}
	return n
}

// take returns everything, written into the memory of spare.
func (q *systemQueue) take(spare []byte) batch {
	b := batch{bytes: spare[:0], frames: len(q.frames), payload: q.bytes}
	for _, f := range q.frames {
		b.bytes = appendFrame(b.bytes, f.frame)
	}
	clear(q.frames)
	q.frames, q.bytes = q.frames[:0], 0
	return b
}

// batch is frames as they travel, for one write.
type batch struct {
	bytes   []byte
	frames  int
	payload int  // bytes of the frames alone
	last    bool // ends with the end mark
}

// mark makes the batch the last one of its stream.
func (b *batch) mark() {
	b.bytes, b.last = appendHeader(b.bytes, 0), true
}

// spare is the memory of a batch that was written, unless it is much.
func (b *batch) spare() []byte {
	if cap(b.bytes) > 2*pendingBytes {
		return nil
	}
	return b.bytes[:0]
}

// flow is the frames of a kind that wait to be written, as they travel, and the
// Sends that have more. It is guarded by the lock of the peer.
type flow struct {
	kind    transport.Kind
	pending []byte
	frames  int
	waiting []*waiter // the earliest first
}

// waiter is a Send that waits for room. Who makes room takes its frame.
type waiter struct {
	frame []byte
	err   error         // set before done is closed
	done  chan struct{} // the frame was taken, or there is an error
}

// admit takes the frames of Sends that wait, as many as there is room for.
func (q *flow) admit() {
	n := 0
	for n < len(q.waiting) && q.push(q.waiting[n].frame) {
		close(q.waiting[n].done)
		n++
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// refuse ends all Sends that wait.
func (q *flow) refuse(err error) {
	for _, w := range q.waiting {
		w.err = err
		close(w.done)
	}
	q.waiting = nil
}

// push adds a frame unless there is no room.
func (q *flow) push(frame []byte) bool {
	if q.frames > 0 && len(q.pending)+len(frame)+headerBytes > pendingBytes {
		return false
	}
	q.pending = appendFrame(q.pending, frame)
	q.frames++
	return true
}

// take returns what waits, and goes on with the memory of spare.
func (q *flow) take(spare []byte) batch {
	b := batch{bytes: q.pending, frames: q.frames, payload: len(q.pending) - q.frames*headerBytes}
	q.pending, q.frames = spare[:0], 0
	return b
}

// clear drops everything and returns how many.
func (q *flow) clear() int {
	n := q.frames
	q.pending, q.frames = nil, 0
	return n
}
