// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"io"
	"sync"

	"github.com/athena-go/athena/transport"
)

// ownStreamBytes is how much is under way in one direction of a stream from a node
// to itself before its writer has to wait.
const ownStreamBytes = 64 << 10

// ownStream is one end of a stream from a node to itself. Nothing but its two ends
// ends it.
type ownStream struct{ in, out *pipe }

// newOwnStream returns both ends of a stream.
func newOwnStream() (a, b transport.BulkStream) {
	there, back := newPipe(), newPipe()
	return ownStream{in: back, out: there}, ownStream{in: there, out: back}
}

// Read implements transport.BulkStream.
func (s ownStream) Read(b []byte) (int, error) { return s.in.read(b) }

// Write implements transport.BulkStream.
func (s ownStream) Write(b []byte) (int, error) { return s.out.write(b) }

// CloseWrite implements transport.BulkStream.
func (s ownStream) CloseWrite() error { return s.out.closeWrite() }

// Close implements transport.BulkStream.
func (s ownStream) Close() error {
	s.out.dropWrite()
	s.in.dropRead()
	return nil
}

// pipe is one direction of a stream.
type pipe struct {
	turn chan struct{} // held by write and closeWrite

	mu       sync.Mutex
	changed  sync.Cond
	data     []byte
	ended    bool // nothing more is written
	readErr  error
	writeErr error
}

func newPipe() *pipe {
	p := &pipe{turn: make(chan struct{}, 1)}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) write(b []byte) (written int, err error) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.writeErr != nil:
			return written, p.writeErr
		case p.ended:
			return written, transport.ErrStreamClosed
		}
		taken := min(len(b), ownStreamBytes-len(p.data))
		p.data = append(p.data, b[:taken]...)
		b, written = b[taken:], written+taken
		p.changed.Broadcast()
		if len(b) == 0 {
			return written, nil
		}
		p.changed.Wait()
	}
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readErr != nil:
			return 0, p.readErr
		case len(p.data) > 0 || len(b) == 0:
			taken := copy(b, p.data)
			p.data = append(p.data[:0], p.data[taken:]...)
			p.changed.Broadcast()
			return taken, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *pipe) closeWrite() error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Broadcast()
	return p.writeErr
}

// dropWrite ends the direction for its writer, and for its reader too unless all was
// written.
func (p *pipe) dropWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeErr = cmp.Or[error](p.writeErr, transport.ErrStreamClosed)
	if !p.ended {
		p.readErr = cmp.Or[error](p.readErr, transport.ErrStreamReset)
		p.data = nil
	}
	p.changed.Broadcast()
}

// dropRead ends the direction for its reader, and for its writer too unless that has
// written all.
func (p *pipe) dropRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readErr = cmp.Or[error](p.readErr, transport.ErrStreamClosed)
	if !p.ended {
		p.writeErr = cmp.Or[error](p.writeErr, transport.ErrStreamReset)
	}
	p.data = nil
	p.changed.Broadcast()
}
