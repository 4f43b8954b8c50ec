// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"cmp"
	"io"
	"sync"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/transport"
)

// loopbackBytes bounds the unread bytes in one direction of a stream from a node to itself. Write
// blocks while the bound is reached.
const loopbackBytes = 64 << 10

// loopback is one end of a stream from a node to itself. Only its two ends can close it.
type loopback struct{ in, out *pipe }

func newLoopback() (a, b mesh.BulkStream) {
	there, back := newPipe(), newPipe()
	return loopback{in: back, out: there}, loopback{in: there, out: back}
}

func (s loopback) Read(b []byte) (int, error) { return s.in.read(b) }

func (s loopback) Write(b []byte) (int, error) { return s.out.write(b) }

func (s loopback) CloseWrite() (err error) {
	s.out.turn <- struct{}{}
	defer func() { <-s.out.turn }()
	s.out.update(func() { s.out.ended, err = true, s.out.writeErr })
	return err
}

// Close implements mesh.BulkStream. It resets each direction whose writer has not called
// CloseWrite.
func (s loopback) Close() error {
	s.out.update(func() {
		s.out.writeErr = cmp.Or[error](s.out.writeErr, transport.ErrStreamClosed)
		if !s.out.ended {
			s.out.readErr = cmp.Or[error](s.out.readErr, transport.ErrStreamReset)
			s.out.data = nil
		}
	})
	s.in.update(func() {
		s.in.readErr = cmp.Or[error](s.in.readErr, transport.ErrStreamClosed)
		if !s.in.ended {
			s.in.writeErr = cmp.Or[error](s.in.writeErr, transport.ErrStreamReset)
		}
		s.in.data = nil
	})
	return nil
}

// pipe is one direction of a stream.
type pipe struct {
	turn chan struct{} // held by write and CloseWrite, so that the bytes of a Write stay together

	mu       sync.Mutex
	changed  sync.Cond
	data     []byte
	ended    bool // by CloseWrite
	readErr  error
	writeErr error
}

func newPipe() *pipe {
	p := &pipe{turn: make(chan struct{}, 1)}
	p.changed.L = &p.mu
	return p
}

// update changes the pipe and wakes its reader and writer.
func (p *pipe) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
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
		taken := min(len(b), loopbackBytes-len(p.data))
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
