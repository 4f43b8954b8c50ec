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
	// MaxHeadBytes bounds the head of a bulk stream, which may be empty.
	MaxHeadBytes = 4 << 10
	// HeadTimeout bounds the time until the head of a bulk stream has arrived. If it passes, the
	// stream is reset.
	HeadTimeout = 3 * time.Second
)

var errHeadStalled = fmt.Errorf("transport: the head of a bulk stream did not arrive within %v",
	HeadTimeout)

// BulkStream is a stream of bytes in both directions with its own flow control: a reader that stops
// delays the writer of this stream only. Its methods may be called concurrently. They return at the
// latest when the connection or the Mesh is closed. The errors are ErrStreamClosed, ErrStreamReset
// and ErrStreamCut. A caller never knows how much the peer has read, even if a method returns no
// error.
type BulkStream interface {
	// Read returns everything that the peer wrote before the peer called CloseWrite, and then io.EOF.
	io.Reader
	// Write blocks while the peer does not read.
	io.Writer
	// CloseWrite ends the direction to the peer. The peer reads everything that was written, and then
	// io.EOF. CloseWrite waits for a pending Write.
	CloseWrite() error
	// Close ends both directions immediately, without blocking: Read and Write of the peer
	// fail. Bytes written before CloseWrite still arrive; without CloseWrite they may be
	// lost. The node that opens a stream must call Close; later calls do nothing.
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

// newBulk returns a stream that counts as one of the link already.
func newBulk(l *link, raw transport.RawStream) *bulk {
	b := &bulk{link: l, raw: raw, turn: make(chan struct{}, 1)}
	b.closed.ch = make(chan struct{})
	return b
}

func (b *bulk) Read(p []byte) (int, error) {
	n, err := b.raw.Read(p)
	return n, b.streamError(err)
}

func (b *bulk) Write(p []byte) (int, error) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	n, err := b.raw.Write(p)
	return n, b.streamError(err)
}

func (b *bulk) CloseWrite() error {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.closed.released() {
		return transport.ErrStreamClosed
	}
	return b.streamError(b.raw.CloseWrite())
}

func (b *bulk) Close() error {
	b.closed.once.Do(func() {
		close(b.closed.ch)
		b.raw.Cancel()
		b.link.removeStream()
	})
	return nil
}

// streamError translates an error of the network.
func (b *bulk) streamError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return io.EOF // callers compare it with ==
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

// OpenStream opens a bulk stream to a peer and sends the head, which the peer's handler receives
// first. Like Send, it waits for a connection. It returns after at most SendTimeout. The error
// wraps ErrTooManyStreams, an error of Send or, if the head may have been sent, ErrUnknownOutcome:
// the peer's handler may then have been called with a closed stream. ErrTooManyStreams means that
// MaxStreams streams to the peer are already open; OpenStream then does not wait.
func (m *Mesh) OpenStream(ctx context.Context, to member.Address, head []byte) (BulkStream, error) {
	if len(head) > MaxHeadBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return nil, fmt.Errorf("%w: head of %d bytes, want at most %d",
			ErrTooLarge, len(head), MaxHeadBytes)
	}
	p, err := m.holdPeer(to)
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

// openStream opens a stream on the current connection or on the next one. It writes the head only
// once, because the peer may act on the head.
func (p *peer) openStream(ctx context.Context, head []byte) (*bulk, error) {
	limited, cancel := context.WithTimeout(ctx, SendTimeout)
	defer cancel()
	var l *link
	for {
		var err error
		if l, err = p.nextLink(limited, l); err != nil {
			return nil, err
		}
		if l == nil {
			return nil, p.openFailure(ctx)
		}
		raw, err := l.conn.OpenStream()
		if err != nil {
			l.removeStream()
		}
		if errors.Is(err, transport.ErrTooManyStreams) {
			return nil, fmt.Errorf("%w: %s", err, p.addr)
		}
		if err != nil {
			continue // the connection has ended, and its link will end soon
		}
		b := newBulk(l, raw)
		stop := context.AfterFunc(limited, raw.Cancel)
		_, err = raw.Write(appendFrame(nil, head))
		canceled := !stop()
		if err == nil && !canceled {
			return b, nil
		}
		err = b.streamError(err)
		_ = b.Close() // always returns nil
		if canceled {
			err = p.openFailure(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
}

// nextLink waits for a connection other than the failed one, and counts a stream on it, so that the
// connection is not left before the stream is opened. It returns nil if ctx ends first.
func (p *peer) nextLink(ctx context.Context, failed *link) (*link, error) {
	p.addSenders(transport.System, 1)
	defer p.addSenders(transport.System, -1)
	for {
		p.mu.Lock()
		l, leaving := p.cur, p.leaving
		usable := !leaving && l != nil && l != failed
		if usable {
			l.streams++
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		switch {
		case leaving:
			return nil, ErrClosed
		case usable:
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// openFailure returns why no stream was opened. ctx is the context of the caller.
func (p *peer) openFailure(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return p.sendFailure(context.Cause(ctx))
	case p.isConnected():
		return fmt.Errorf("%w: %s: could not open a stream within %v",
			ErrUnreachable, p.addr, SendTimeout)
	default:
		return p.sendFailure(nil)
	}
}

func (l *link) acceptStreams() {
	for {
		raw, err := l.conn.AcceptStream()
		if err != nil {
			return // the connection has ended; other goroutines handle that
		}
		l.peer.mesh.work.Go(func() { l.serveStream(raw) })
	}
}

// serveStream passes a stream of the peer to the handler. The stream counts towards the peer's
// MaxStreams until the handler returns. This bounds the number of goroutines that run serveStream.
func (l *link) serveStream(raw transport.RawStream) {
	defer raw.Release()
	l.addStream()
	b := newBulk(l, raw)
	defer b.Close()
	if m := l.peer.mesh; l.peer.addr.IsObserver() {
		if !m.takeObserverStream() {
			return
		}
		defer m.observerStreams.Add(-1)
	}
	timeout := time.AfterFunc(HeadTimeout, func() {
		l.peer.mesh.stats.countDrop(DropStalled, 1)
		l.reportBadHead(errHeadStalled)
		raw.Cancel()
	})
	head, err := readHead(raw)
	switch {
	case !timeout.Stop():
		return
	case errors.Is(err, errGarbage):
		l.peer.countGarbage()
		l.reportBadHead(err)
		return
	case err != nil:
		return // the peer canceled the stream, or the connection has ended
	}
	l.peer.mesh.stats.streamsAccepted.Add(1)
	l.peer.mesh.handler.Stream(l.who, head, b)
}

// reportBadHead reports that a bulk stream is reset because of its head. The connection stays open,
// so other streams and frames are not affected.
func (l *link) reportBadHead(err error) {
	l.peer.mesh.reports.report(Report{ReportStreamRefused, l.peer.addr, err})
}

// readHead reads the head and nothing beyond it. It returns errGarbage if the head is
// missing, truncated or too long.
func readHead(r io.Reader) ([]byte, error) {
	var header [headerBytes]byte
	if err := readHeadPart(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > MaxHeadBytes {
		return nil, fmt.Errorf("%w: head of a bulk stream: length %d, limit %d",
			errGarbage, length, MaxHeadBytes)
	}
	head := make([]byte, length)
	return head, readHeadPart(r, head)
}

func readHeadPart(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: head of a bulk stream is cut off", errGarbage)
	}
	return err
}

// addStream counts a stream of the link.
func (l *link) addStream() {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	l.streams++
}

// removeStream counts a stream of the link as closed.
func (l *link) removeStream() {
	p := l.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.streams--; l.streams == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// awaitStreams waits until the streams of a link that is being left are closed, for at most
// drainTimeout. Streams that are still open then are cut. A node that shuts down does not wait.
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
	select {
	case <-quiet:
	case <-time.After(drainTimeout):
	case <-l.done:
	}
}
