// SPDX-License-Identifier: Apache-2.0

package messaging

import "sync"

// maxKeptBytes bounds the buffers that are reused. Larger buffers are rare, and keeping them would
// waste memory.
const maxKeptBytes = 128 << 10

// buffer is reusable memory for a frame.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// getBuffer returns an empty buffer. The caller releases it once the transport has accepted its
// bytes.
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
