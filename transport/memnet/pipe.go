// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"cmp"
	"io"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/transport"
)

// pipeBytes bounds the unread bytes in one direction of a stream. Writers block at the
// bound.
const pipeBytes = 64 << 10

// pipe is one direction of a stream.
type pipe struct {
	// A read counts as an arrival at both ends: bytes for the reader, and an acknowledgement for the
	// writer.
	writerHeard, readerHeard *atomic.Uint64

	mu       sync.Mutex
	changed  sync.Cond
	data     []byte
	held     bool // the link is cut, so nothing arrives
	ended    bool // by closeWrite
	reset    bool // set by cancelWrite; the reader sees it unless the link is cut
	writeErr error
	readErr  error
}

func newPipe(writerHeard, readerHeard *atomic.Uint64) *pipe {
	p := &pipe{writerHeard: writerHeard, readerHeard: readerHeard}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) write(b []byte) (written int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.writeFault(); err != nil {
			return written, err
		}
		n := min(len(b), pipeBytes-len(p.data))
		p.data = append(p.data, b[:n]...)
		b, written = b[n:], written+n
		p.changed.Broadcast()
		if len(b) == 0 {
			return written, nil
		}
		p.changed.Wait()
	}
}

// tryWrite writes all of b if there is room for it.
func (p *pipe) tryWrite(b []byte) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.writeFault(); err != nil || len(p.data)+len(b) > pipeBytes {
		return false, err
	}
	p.data = append(p.data, b...)
	p.changed.Broadcast()
	return true, nil
}

// writeFault returns why writing is not possible, or nil. p.mu must be held.
func (p *pipe) writeFault() error {
	if p.writeErr == nil && p.ended {
		return transport.ErrStreamClosed
	}
	return p.writeErr
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readErr != nil:
			return 0, p.readErr
		case p.held:
		case p.reset:
			return 0, transport.ErrStreamReset
		case len(p.data) > 0:
			n := copy(b, p.data)
			p.data = append(p.data[:0], p.data[n:]...)
			p.writerHeard.Add(1)
			p.readerHeard.Add(1)
			p.changed.Broadcast()
			return n, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// update changes the pipe and wakes its reader and writer.
func (p *pipe) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

func (p *pipe) closeWrite() (err error) {
	p.update(func() { p.ended, err = true, p.writeErr })
	return err
}

func (p *pipe) hold(cut bool) { p.update(func() { p.held = cut }) }

// cancelWrite ends the pipe for its writer. The reader sees a reset unless closeWrite was
// called first.
func (p *pipe) cancelWrite() {
	p.update(func() {
		p.writeErr = cmp.Or[error](p.writeErr, transport.ErrStreamClosed)
		if !p.ended && !p.reset {
			p.reset, p.data = true, nil
		}
	})
}

// cancelRead ends the pipe for both ends. Unlike on a real network, the writer notices this
// immediately.
func (p *pipe) cancelRead() {
	p.update(func() {
		p.readErr = cmp.Or[error](p.readErr, transport.ErrStreamClosed)
		if !p.ended {
			p.writeErr = cmp.Or[error](p.writeErr, transport.ErrStreamReset)
		}
		p.data = nil
	})
}

// failRead ends the pipe for its reader with err, unless it has already ended.
func (p *pipe) failRead(err error) { p.update(func() { p.readErr = cmp.Or(p.readErr, err) }) }

// failWrite ends the pipe for its writer with err, unless it has already ended.
func (p *pipe) failWrite(err error) { p.update(func() { p.writeErr = cmp.Or(p.writeErr, err) }) }
