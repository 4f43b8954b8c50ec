// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/athena-go/athena/message"
)

const (
	// MaxSystemBytes bounds a system frame.
	MaxSystemBytes = message.MaxBytes
	// DefaultCustomBytes bounds a custom frame unless Config says otherwise.
	DefaultCustomBytes = 1 << 20
	// MaxCustomBytes bounds Config.CustomBytes.
	MaxCustomBytes = 16 << 20

	maxGreetBytes = 4 << 10
	headerBytes   = 4
	// readBufferBytes is the buffer of a stream that is read, and keptFrameBytes
	// the longest frame whose memory is kept for the next one.
	readBufferBytes = 16 << 10
	keptFrameBytes  = 256 << 10
	// chunkBytes is the most that a declared length allocates by itself; the
	// rest of a frame gets its room as its bytes arrive.
	chunkBytes = 16 << 10
)

var (
	errGarbage = errors.New("transport: not a frame")
	errEndMark = errors.New("transport: end mark")
)

// appendFrame appends a frame as it travels; an empty one is the end mark.
func appendFrame(dst, frame []byte) []byte {
	return append(appendHeader(dst, len(frame)), frame...)
}

func appendHeader(dst []byte, length int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(length))
}

// frameReader reads the frames of a stream.
type frameReader struct {
	buffered *bufio.Reader
	limit    int // the longest frame, in bytes
	// lends says that a frame is the caller's only until the next one is read. It is
	// then in the buffer, of which lent bytes are to be discarded, or in kept.
	lends bool
	lent  int
	kept  []byte
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{buffered: bufio.NewReaderSize(r, readBufferBytes), limit: limit}
}

// next returns the next frame, in memory of its own unless the reader lends. It
// is errEndMark at an end mark, io.EOF where the stream ends after a frame, errGarbage for a length
// above the limit and for a frame that is cut off; any other error is that of
// the stream.
func (r *frameReader) next() ([]byte, error) {
	_, _ = r.buffered.Discard(r.lent) // it was peeked
	r.lent = 0
	header, err := r.buffered.Peek(headerBytes)
	switch {
	case errors.Is(err, io.EOF) && len(header) > 0:
		return nil, fmt.Errorf("%w: %d bytes of a length", errGarbage, len(header))
	case err != nil:
		return nil, err
	}
	length := binary.BigEndian.Uint32(header)
	_, _ = r.buffered.Discard(headerBytes) // it has just been peeked
	switch {
	case length == 0:
		return nil, errEndMark
	case uint64(length) > uint64(r.limit):
		return nil, fmt.Errorf("%w: length %d, limit %d", errGarbage, length, r.limit)
	}
	return r.body(int(length))
}

func (r *frameReader) body(length int) ([]byte, error) {
	if r.lends && length <= r.buffered.Size() {
		frame, err := r.buffered.Peek(length)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %d of %d bytes", errGarbage, len(frame), length)
		}
		r.lent = len(frame)
		return frame, err
	}
	var frame []byte
	if chunk := min(length, chunkBytes); cap(r.kept) >= chunk {
		frame = r.kept[:min(length, cap(r.kept))]
	} else {
		frame = make([]byte, chunk)
	}
	for read := 0; ; {
		n, err := io.ReadFull(r.buffered, frame[read:])
		read += n
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w: %d of %d bytes", errGarbage, read, length)
		case err != nil:
			return nil, err
		case read == length:
			if r.lends && cap(frame) <= keptFrameBytes {
				r.kept = frame
			}
			return frame, nil
		}
		more := min(length-read, read)
		frame = slices.Grow(frame, more)[:read+more]
	}
}
