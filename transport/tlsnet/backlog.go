// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"slices"
	"sync"
)

// chunk is memory for received bytes. It has room for the payload of one TLS record.
type chunk struct {
	bytes      [recordBytes]byte
	start, end int // range of the unread bytes
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// backlog holds the received bytes of a stream that were not read yet. It takes chunks from a pool
// and returns them when they are empty, so that an idle stream holds no memory.
type backlog struct {
	chunks  []*chunk
	filling bool // the last chunk is being filled, so it stays even if it is empty
}

func (b *backlog) empty() bool {
	return len(b.chunks) == 0 || b.chunks[0].start == b.chunks[0].end
}

// reserveSpace returns memory for received bytes, not more than limit. The caller fills it and
// calls commit; other calls may happen in between.
func (b *backlog) reserveSpace(limit int) []byte {
	n := len(b.chunks)
	if n == 0 || b.chunks[n-1].end == recordBytes {
		c := chunks.Get().(*chunk)
		c.start, c.end = 0, 0
		b.chunks = append(b.chunks, c)
	}
	b.filling = true
	last := b.chunks[len(b.chunks)-1]
	return last.bytes[last.end:min(last.end+limit, recordBytes)]
}

// commitBytes adds the first n bytes of the reserved memory.
func (b *backlog) commitBytes(n int) {
	b.filling = false
	b.chunks[len(b.chunks)-1].end += n
	b.release()
}

// read copies bytes of the first chunk to p. The backlog must not be empty.
func (b *backlog) read(p []byte) int {
	first := b.chunks[0]
	n := copy(p, first.bytes[first.start:first.end])
	first.start += n
	b.release()
	return n
}

// release returns the first chunk to the pool if it is empty.
func (b *backlog) release() {
	if b.empty() && (len(b.chunks) > 1 || !b.filling) {
		chunks.Put(b.chunks[0])
		b.chunks = slices.Delete(b.chunks, 0, 1)
	}
}
