// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"cmp"
	"io"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/transport"
)

// pipeBytes is how much is under way in one direction of a stream before its
// writer has to wait.
const pipeBytes = 64 << 10

// pipe is one direction of a stream.
type pipe struct {
	// The writer hears when something is taken, the reader when it arrives.
	writerHeard, readerHeard *atomic.Uint64

	mu       sync.Mutex
	changed  sync.Cond
	data     []byte
	held     bool // the link is cut: nothing arrives
	ended    bool // nothing more is written
	reset    bool // by the writer, which the reader learns when it may
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
		if p.writeErr != nil {
			return written, p.writeErr
		}
		if p.ended {
			return written, transport.ErrStreamClosed
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

// tryWrite writes all of b where there is room for it.
func (p *pipe) tryWrite(b []byte) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.writeErr != nil:
		return false, p.writeErr
	case p.ended:
		return false, transport.ErrStreamClosed
	case len(p.data)+len(b) > pipeBytes:
		return false, nil
	}
	p.data = append(p.data, b...)
	p.changed.Broadcast()
	return true, nil
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

func (p *pipe) closeWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Broadcast()
	return p.writeErr
}

func (p *pipe) hold(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = cut
	p.changed.Broadcast()
}

// cancelWrite ends the pipe for its writer, and for its reader unless all that was
// to be written was.
func (p *pipe) cancelWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeErr = cmp.Or[error](p.writeErr, transport.ErrStreamClosed)
	if !p.ended && !p.reset {
		p.reset, p.data = true, nil
	}
	p.changed.Broadcast()
}

// cancelRead ends the pipe for both. Nothing of it has to travel: a writer learns
// at once what was read, too.
func (p *pipe) cancelRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readErr = cmp.Or[error](p.readErr, transport.ErrStreamClosed)
	if !p.ended {
		p.writeErr = cmp.Or[error](p.writeErr, transport.ErrStreamReset)
	}
	p.data = nil
	p.changed.Broadcast()
}

// failRead ends the pipe for its reader, unless it has ended before.
func (p *pipe) failRead(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readErr = cmp.Or(p.readErr, err)
	p.changed.Broadcast()
}

// failWrite ends the pipe for its writer, unless it has ended before.
func (p *pipe) failWrite(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeErr = cmp.Or(p.writeErr, err)
	p.changed.Broadcast()
}
