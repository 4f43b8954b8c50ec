// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// MaxHeadBytes bounds the head of a bulk stream. It may be empty.
	MaxHeadBytes = 4 << 10
	// HeadTimeout is how long the head of a bulk stream may take. After that the stream is
	// reset.
	HeadTimeout = greetTimeout
)

var errHeadStalled = fmt.Errorf("transport: the head of a bulk stream has not come within %v",
	HeadTimeout)

// BulkStream is a stream of bytes in both directions, with flow control of its
// own: while nobody reads, its writer waits, and nobody else does. Its methods may
// be called side by side, and end at the latest with the connection or the
// Mesh; the errors are ErrStreamClosed, ErrStreamReset and ErrStreamCut. An
// error of one direction, or none, says nothing of what the peer has read.
type BulkStream interface {
	// Read is io.EOF where the peer has called CloseWrite and all that it wrote
	// was read, and never in the middle.
	io.Reader
	// Write blocks while the peer does not read.
	io.Writer
	// CloseWrite says that nothing more is written: the peer reads io.EOF after
	// what was. It waits for a Write that is under way.
	CloseWrite() error
	// Close ends both directions at once: the peer's Read and Write fail. What was
	// written before CloseWrite still arrives, what was written without it may
	// not. Who opens a stream calls Close when done with it; later calls do
	// nothing. It does not block.
	Close() error
}

// bulk is a BulkStream of a link.
type bulk struct {
	link   *link
	raw    transport.RawStream
	turn   chan struct{} // held by Write and CloseWrite
	closed latch
}

var _ BulkStream = (*bulk)(nil)

func newBulk(l *link, raw transport.RawStream) *bulk {
	b := &bulk{link: l, raw: raw, turn: make(chan struct{}, 1)}
	b.closed.ch = make(chan struct{})
	p := l.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	l.streams++
	return b
}

// Read implements BulkStream.
func (b *bulk) Read(p []byte) (int, error) {
	n, err := b.raw.Read(p)
	return n, b.fault(err)
}

// Write implements BulkStream.
func (b *bulk) Write(p []byte) (int, error) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	n, err := b.raw.Write(p)
	return n, b.fault(err)
}

// CloseWrite implements BulkStream.
func (b *bulk) CloseWrite() error {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.closed.released() {
		return transport.ErrStreamClosed
	}
	return b.fault(b.raw.CloseWrite())
}

// Close implements BulkStream.
func (b *bulk) Close() error {
	b.closed.once.Do(func() {
		close(b.closed.ch)
		b.raw.Cancel()
		b.link.untrack()
	})
	return nil
}

// fault is the error of the API for one of the network.
func (b *bulk) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return io.EOF // which readers compare
	case b.closed.released():
		return transport.ErrStreamClosed
	case errors.Is(err, transport.ErrStreamClosed), errors.Is(err, transport.ErrStreamReset):
		return err
	case b.link.peer.mesh.isClosing():
		return fmt.Errorf("%w: %w", ErrStreamCut, ErrClosed)
	default:
		return fmt.Errorf("%w: %w", ErrStreamCut, err)
	}
}

// OpenStream opens a bulk stream to a peer, whose handler gets the head first. It waits for
// a connection as Send does, SendTimeout in all at most. If it returns an error the peer's
// handler may have been called nevertheless, with a stream that is closed. The error wraps
// ErrTooManyStreams, without waiting, while MaxStreams streams to the peer are open;
// ErrStreamCut; or an error of Send.
func (m *Mesh) OpenStream(ctx context.Context, to member.Address, head []byte) (BulkStream, error) {
	if len(head) > MaxHeadBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return nil, fmt.Errorf("%w: head of %d bytes, want at most %d",
			ErrTooLarge, len(head), MaxHeadBytes)
	}
	p, err := m.hold(to)
	if err != nil {
		return nil, err
	}
	defer p.release()
	b, err := p.openStream(ctx, head)
	if err != nil {
		return nil, err
	}
	m.stats.streamsOpened.Add(1)
	return b, nil
}

// openStream opens a stream on the connection that there is or that comes. A head
// is written once at most: the peer may act on it.
func (p *peer) openStream(ctx context.Context, head []byte) (*bulk, error) {
	patient, cancel := context.WithTimeout(ctx, SendTimeout)
	defer cancel()
	var l *link
	for {
		var err error
		if l, err = p.nextLink(patient, l); err != nil {
			return nil, err
		}
		if l == nil {
			return nil, p.unopened(ctx)
		}
		raw, err := l.conn.OpenStream()
		if errors.Is(err, transport.ErrTooManyStreams) {
			return nil, fmt.Errorf("%w: %s", err, p.addr)
		}
		if err != nil {
			continue // the connection is over, which its link will find soon
		}
		b := newBulk(l, raw)
		stop := context.AfterFunc(patient, raw.Cancel)
		_, err = raw.Write(appendFrame(nil, head))
		ended := !stop()
		if err == nil && !ended {
			return b, nil
		}
		err = b.fault(err)
		_ = b.Close() // it always returns nil
		if ended {
			return nil, p.unopened(ctx)
		}
		return nil, err
	}
}

// nextLink waits for a connection that is not the one that failed before; nil
// when ctx ends.
func (p *peer) nextLink(ctx context.Context, failed *link) (*link, error) {
	p.await(transport.System, 1)
	defer p.await(transport.System, -1)
	for {
		l, changed, err := p.linkNow()
		if err != nil || l != nil && l != failed {
			return l, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// linkNow is the connection as of now, and what is closed when it may be another.
func (p *peer) linkNow() (*link, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving {
		return nil, nil, ErrClosed
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.cur, p.changed, nil
}

// unopened says why there is no stream; ctx is the caller's.
func (p *peer) unopened(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return p.unsent(context.Cause(ctx))
	case p.connected():
		return fmt.Errorf("%w: %s: no stream within %v", ErrUnreachable, p.addr, SendTimeout)
	default:
		return p.unsent(nil)
	}
}

// acceptStreams takes the streams that the peer opens.
func (l *link) acceptStreams() {
	for {
		raw, err := l.conn.AcceptStream()
		if err != nil {
			return // with the connection, whose end others notice
		}
		l.peer.mesh.work.Go(func() { l.serveStream(raw) })
	}
}

// serveStream hands a stream of the peer's to the handler. Until the handler returns it
// counts towards what the peer may open, so that there are MaxStreams of these
// goroutines at most.
func (l *link) serveStream(raw transport.RawStream) {
	defer raw.Release()
	b := newBulk(l, raw)
	defer b.Close()
	timeout := time.AfterFunc(HeadTimeout, func() {
		l.peer.mesh.stats.countDrop(DropStalled, 1)
		l.refuseStream(errHeadStalled)
		raw.Cancel()
	})
	head, err := readHead(raw)
	switch {
	case !timeout.Stop():
		return
	case errors.Is(err, errGarbage):
		l.peer.brokeFrame()
		l.refuseStream(err)
		return
	case err != nil:
		return // the peer gave the stream up, or the connection is over
	}
	l.peer.mesh.stats.streamsAccepted.Add(1)
	l.peer.mesh.handler.Stream(l.who, head, b)
}

// refuseStream reports why a bulk stream is reset that has no proper head. Its connection
// stays: other streams, and all frames, are not affected.
func (l *link) refuseStream(why error) {
	l.peer.mesh.told.report(Report{ReportStreamRefused, l.peer.addr, why})
}

// readHead reads no byte that comes after the head. It is errGarbage where there is
// none, or only a part.
func readHead(r io.Reader) ([]byte, error) {
	var header [headerBytes]byte
	if err := readFull(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > MaxHeadBytes {
		return nil, fmt.Errorf("%w: head of a bulk stream: length %d, limit %d",
			errGarbage, length, MaxHeadBytes)
	}
	head := make([]byte, length)
	return head, readFull(r, head)
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: head of a bulk stream is cut off", errGarbage)
	}
	return err
}

// untrack notes that a stream is over.
func (l *link) untrack() {
	p := l.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.streams--; l.streams == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// awaitStreams lets the streams of a link that is being left come to their ends, for
// drainTimeout; the rest is cut. A node that goes does not wait.
func (l *link) awaitStreams() {
	p := l.peer
	p.mu.Lock()
	if l.streams == 0 || p.leaving {
		p.mu.Unlock()
		return
	}
	if l.quiet == nil {
		l.quiet = make(chan struct{})
	}
	quiet := l.quiet
	p.mu.Unlock()
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	select {
	case <-quiet:
	case <-timeout.C:
	case <-l.done:
	}
}
