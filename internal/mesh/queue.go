// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// maxQueuedFrames and maxQueuedBytes bound the waiting system frames. Two frames of the largest
	// size fit.
	maxQueuedFrames = 64
	maxQueuedBytes  = 2 * MaxSystemBytes
	// maxQueuedTime bounds how long a system frame waits. A frame describes the state of
	// its sender at the time of sending, and is useless later.
	maxQueuedTime = 2 * time.Second
	// pendingBytes bounds the waiting frames of a flow to a member.
	pendingBytes = 256 << 10
	// maxUrgentBytes bounds the waiting frames to which urgent ones are added: MaxPending refusals.
	maxUrgentBytes = 32 << 20
)

// systemQueue holds the system frames that wait to be written, oldest first.
type systemQueue struct {
	frames []queuedFrame
	bytes  int
}

type queuedFrame struct {
	frame []byte
	since time.Time
}

func (q *systemQueue) empty() bool { return len(q.frames) == 0 }

// push adds a frame and returns how many of the oldest frames it dropped.
func (q *systemQueue) push(frame []byte, now time.Time) (dropped int) {
	q.frames = append(q.frames, queuedFrame{frame, now})
	q.bytes += len(frame)
	for len(q.frames) > maxQueuedFrames || q.bytes > maxQueuedBytes {
		q.pop()
		dropped++
	}
	return dropped
}

// expire drops frames older than maxQueuedTime and returns how many it dropped.
func (q *systemQueue) expire(now time.Time) (dropped int) {
	for !q.empty() && now.Sub(q.frames[0].since) > maxQueuedTime {
		q.pop()
		dropped++
	}
	return dropped
}

func (q *systemQueue) pop() {
	q.bytes -= len(q.frames[0].frame)
	q.frames[0] = queuedFrame{}
	q.frames = q.frames[1:]
}

// clear drops all frames and returns how many it dropped.
func (q *systemQueue) clear() int {
	n := len(q.frames)
	*q = systemQueue{}
	return n
}

// take removes all frames and returns them as a batch that uses the spare memory.
func (q *systemQueue) take(spare []byte) batch {
	b := batch{bytes: spare[:0], frames: len(q.frames), payload: q.bytes}
	for _, f := range q.frames {
		b.bytes = appendFrame(b.bytes, f.frame)
	}
	clear(q.frames)
	q.frames, q.bytes = q.frames[:0], 0
	return b
}

// batch holds the encoded frames of one write.
type batch struct {
	bytes   []byte
	frames  int
	payload int    // bytes of the frames without their headers
	last    bool   // the batch ends with the end mark
	heard   uint64 // Conn.Heard when a batch of system frames was taken
}

func (b *batch) mark() {
	b.bytes, b.last = appendHeader(b.bytes, 0), true
}

// reuseMemory returns the memory of a written batch for reuse by the next batch. It returns nil if
// the memory exceeds the limit.
func (b *batch) reuseMemory(limit int) []byte {
	if cap(b.bytes) > limit {
		return nil
	}
	return b.bytes[:0]
}

// flow holds the encoded frames of a kind that wait to be written, and the Sends that wait
// for room. The peer's mutex guards it.
type flow struct {
	kind    transport.Kind
	limit   int // of pending, in bytes; a longer frame may wait if it is the only one
	pending []byte
	frames  int
	kept    int            // number of urgent frames queued without a connection
	waiting []*waitingSend // the earliest first
	stuck   error          // why the peer takes no further frames for now, or nil
}

// waitingSend is a Send that waits for room. The goroutine that makes room queues its frame.
type waitingSend struct {
	frame []byte
	err   error         // set before done is closed
	done  chan struct{} // closed when the frame is queued or err is set
}

// admit queues the frames of waiting Sends while there is room.
func (q *flow) admit() {
	n := 0
	for n < len(q.waiting) && q.push(q.waiting[n].frame) {
		close(q.waiting[n].done)
		n++
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

func (q *flow) refuse(err error) {
	for _, w := range q.waiting {
		w.err = err
		close(w.done)
	}
	q.waiting = nil
}

// push adds a frame. It returns false if there is no room.
func (q *flow) push(frame []byte) bool {
	if q.frames > 0 && len(q.pending)+len(frame)+headerBytes > q.limit {
		return false
	}
	q.addFrame(frame)
	return true
}

func (q *flow) addFrame(frame []byte) {
	q.pending = appendFrame(q.pending, frame)
	q.frames++
}

// take removes and returns all frames. The spare memory is used for later frames.
func (q *flow) take(spare []byte) batch {
	b := batch{bytes: q.pending, frames: q.frames, payload: len(q.pending) - q.frames*headerBytes}
	q.pending, q.frames, q.kept = spare[:0], 0, 0
	return b
}

// clear drops all frames and returns how many it dropped. It does not count kept frames: their
// calls were lost with the earlier connection.
func (q *flow) clear() int {
	n := q.frames - q.kept
	q.pending, q.frames, q.kept = nil, 0, 0
	return n
}
