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
	// DefaultCustomBytes bounds a custom frame if Config.CustomBytes is 0.
	DefaultCustomBytes = 1 << 20
	// MaxCustomBytes bounds Config.CustomBytes.
	MaxCustomBytes = 16 << 20

	maxGreetBytes = 4 << 10
	headerBytes   = 4
	// readBufferBytes is the size of a stream's read buffer. keptFrameBytes is the size of the
	// longest frame whose memory is reused for the next one.
	readBufferBytes = 16 << 10
	keptFrameBytes  = 256 << 10
	// chunkBytes bounds the memory that is allocated when the length of a frame has arrived. More is
	// allocated only as the bytes of the frame arrive.
	chunkBytes = 16 << 10
	// FrameTimeout bounds the time from the first byte of a frame to the end of its length, and the
	// time from then to the end of the frame. It equals the idle timeout of QUIC, so a frame survives
	// every pause that its connection survives.
	FrameTimeout = 30 * time.Second
)

var (
	errGarbage = errors.New("transport: invalid frame")
	errEndMark = errors.New("transport: unexpected end mark")
	errStalled = fmt.Errorf("transport: the rest of a frame did not arrive within %v", FrameTimeout)
	errEnded   = errors.New("transport: the connection has ended")
)

// appendFrame appends a frame with its header. An empty frame is the end mark.
func appendFrame(dst, frame []byte) []byte {
	return append(appendHeader(dst, len(frame)), frame...)
}

func appendHeader(dst []byte, length int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(length))
}

// frameReader reads the frames of a stream.
type frameReader struct {
	buffered *bufio.Reader
	limit    int // limit of a frame, in bytes
	// If lends is true, a frame is valid only until the next one is read. Such a frame is in kept, or
	// in the first lent bytes of buffered. The next read discards these bytes.
	lends bool
	lent  int
	kept  []byte
	// link is nil while a greeting is read: a greeting is short and has its own timeout. Later frames
	// reserve room before they are read, and have a time limit.
	link *link
	room *budget     // the budget in which the last frame has room; nil if the frame needs no room
	held int         // bytes reserved in room
	late *time.Timer // ends the link; nil until first needed
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{buffered: bufio.NewReaderSize(r, readBufferBytes), limit: limit}
}

// next returns the next frame, in newly allocated memory unless the reader lends. The error is
// errEndMark at an end mark, and io.EOF if the stream ends after a frame. It is errGarbage if a
// frame is truncated or its length exceeds the limit. Otherwise it is the error of the stream.
func (r *frameReader) next() ([]byte, error) {
	r.release()
	_, _ = r.buffered.Discard(r.lent) // these bytes were peeked
	r.lent = 0
	length, err := r.readLength()
	if err != nil {
		return nil, err
	}
	if length > chunkBytes && !r.reserve(length) {
		return nil, errEnded
	}
	if r.buffered.Buffered() >= length {
		return r.readBody(length)
	}
	defer r.limitTime()()
	return r.readBody(length)
}

func (r *frameReader) readLength() (int, error) {
	if r.buffered.Buffered() < headerBytes {
		if _, err := r.buffered.Peek(1); err != nil {
			return 0, err // the time between two frames is not limited
		}
	}
	if r.buffered.Buffered() < headerBytes {
		defer r.limitTime()()
	}
	header, err := r.buffered.Peek(headerBytes)
	switch {
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("%w: its length is cut off after %d bytes", errGarbage, len(header))
	case err != nil:
		return 0, err
	}
	length := binary.BigEndian.Uint32(header)
	_, _ = r.buffered.Discard(headerBytes) // these bytes were peeked
	switch {
	case length == 0:
		return 0, errEndMark
	case uint64(length) > uint64(r.limit):
		return 0, fmt.Errorf("%w: length %d, limit %d", errGarbage, length, r.limit)
	}
	return int(length), nil
}

// reserve waits for room for a large frame. It returns false if the link ends first.
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

// release frees the room of the last frame.
func (r *frameReader) release() {
	if r.room != nil {
		r.room.release(r.held)
		r.room = nil
	}
}

// canReuse reports whether the memory of a frame may be kept for the next frame. It returns false
// for frames in the shared room, because the shared room does not count memory that is kept.
func (r *frameReader) canReuse(frame []byte) bool {
	shared := r.room != nil && r.room != &r.link.peer.ownRoom
	return r.lends && !shared && cap(frame) <= keptFrameBytes
}

// limitTime ends the link after FrameTimeout unless stop is called first.
func (r *frameReader) limitTime() (stop func()) {
	switch {
	case r.link == nil:
		return func() {}
	case r.late == nil:
		r.late = time.AfterFunc(FrameTimeout, r.link.endStalled)
	default:
		r.late.Reset(FrameTimeout)
	}
	return func() { r.late.Stop() }
}

func (r *frameReader) readBody(length int) ([]byte, error) {
	if r.lends && length <= r.buffered.Size() {
		frame, err := r.buffered.Peek(length)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: cut off after %d of %d bytes", errGarbage, len(frame), length)
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
			return nil, fmt.Errorf("%w: cut off after %d of %d bytes", errGarbage, read, length)
		case err != nil:
			return nil, err
		case read == length:
			if r.canReuse(frame) {
				r.kept = frame
			}
			return frame, nil
		}
		more := min(length-read, read)
		frame = slices.Grow(frame, more)[:read+more]
	}
}
