// SPDX-License-Identifier: Apache-2.0

package cluster

import "sync"

// maxKeptBytes is the longest buffer that is kept for another event.
const maxKeptBytes = 128 << 10

// buffer is memory for a frame, used again.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// getBuffer gives an empty buffer; release it when what it has is with the
// transport.
func getBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.b = b.b[:0]
	return b
}

func (b *buffer) release() {
	if cap(b.b) <= maxKeptBytes {
		buffers.Put(b)
	}
}
