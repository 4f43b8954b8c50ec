// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
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
	// FrameTimeout is how long the rest of a frame may take once a part of it has come,
	// and the rest of its length. It is as long as a connection of QUIC lasts without a
	// packet, so a frame outlives each pause that its connection outlives.
	FrameTimeout = 30 * time.Second
)

var (
	errGarbage = errors.New("transport: not a frame")
	errEndMark = errors.New("transport: end mark")
	errStalled = fmt.Errorf("transport: part of a frame came, and the rest did not within %v",
		FrameTimeout)
	errOver = errors.New("transport: the connection is over")
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
	// link is nil for a greet, which is short and has a timeout of its own. Frames
	// behind it get room before they are read, and time out.
	link *link
	room *budget     // that gave held bytes to the last frame; nil for none
	held int         // bytes
	late *time.Timer // ends the link; nil until it is needed first
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{buffered: bufio.NewReaderSize(r, readBufferBytes), limit: limit}
}

// next returns the next frame, in memory of its own unless the reader lends. It
// is errEndMark at an end mark, io.EOF where the stream ends after a frame, errGarbage for a length
// above the limit and for a frame that is cut off; any other error is that of
// the stream.
func (r *frameReader) next() ([]byte, error) {
	r.release()
	_, _ = r.buffered.Discard(r.lent) // it was peeked
	r.lent = 0
	length, err := r.length()
	if err != nil {
		return nil, err
	}
	if length > chunkBytes && !r.reserve(length) {
		return nil, errOver
	}
	if r.buffered.Buffered() >= length {
		return r.body(length)
	}
	defer r.watch()()
	return r.body(length)
}

// length reads the length of the next frame.
func (r *frameReader) length() (int, error) {
	if r.buffered.Buffered() < headerBytes {
		if _, err := r.buffered.Peek(1); err != nil {
			return 0, err // between two frames there is no limit
		}
		defer r.watch()()
	}
	header, err := r.buffered.Peek(headerBytes)
	switch {
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("%w: %d bytes of a length", errGarbage, len(header))
	case err != nil:
		return 0, err
	}
	length := binary.BigEndian.Uint32(header)
	_, _ = r.buffered.Discard(headerBytes) // it has just been peeked
	switch {
	case length == 0:
		return 0, errEndMark
	case uint64(length) > uint64(r.limit):
		return 0, fmt.Errorf("%w: length %d, limit %d", errGarbage, length, r.limit)
	}
	return int(length), nil
}

// reserve waits for the room of a large frame; false if the link ends first.
func (r *frameReader) reserve(length int) bool {
	if r.link == nil {
		return true
	}
	room := r.link.peer.frameRoom()
	if !room.acquire(length, r.link.done) {
		return false
	}
	r.room, r.held = room, length
	return true
}

// release gives the room of the last frame back.
func (r *frameReader) release() {
	if r.room != nil {
		r.room.release(r.held)
		r.room = nil
	}
}

// keeps reports whether the memory of a frame may be used again. What all strangers share
// would otherwise be kept for each of them.
func (r *frameReader) keeps(frame []byte) bool {
	shared := r.room != nil && r.room == &r.link.peer.mesh.room
	return r.lends && !shared && cap(frame) <= keptFrameBytes
}

// watch ends the link after FrameTimeout, unless it is stopped before.
func (r *frameReader) watch() (stop func()) {
	switch {
	case r.link == nil:
		return func() {}
	case r.late == nil:
		r.late = time.AfterFunc(FrameTimeout, r.link.stall)
	default:
		r.late.Reset(FrameTimeout)
	}
	return func() { r.late.Stop() }
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
			if r.keeps(frame) {
				r.kept = frame
			}
			return frame, nil
		}
		more := min(length-read, read)
		frame = slices.Grow(frame, more)[:read+more]
	}
}
