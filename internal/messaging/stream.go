// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

var (
	errBadHead   = errors.New("cluster: the head of the stream contains more than a name and metadata")
	errNoVerdict = errors.New("the stream ended before the other member accepted it")
)

// OpenStream opens a stream to an active member, as cluster.Node.OpenStream documents.
func (m *Messenger) OpenStream(
	ctx context.Context, to member.Address, name string, o Options,
) (receiver.Stream, error) {
	if o.BestEffort || o.Outcome != nil || o.Self || o.Idempotent {
		return nil, errStreamOption
	}
	head, err := encodeHead(name, o.Metadata)
	if err != nil {
		return nil, err
	}
	c, err := m.checkSend(ctx, to)
	if err != nil {
		return nil, err
	}
	if to == m.self {
		return m.openLoopback(ctx, *c.Member, name, o.Metadata)
	}
	raw, err := m.net.OpenStream(ctx, to, head)
	switch {
	case errors.Is(err, transport.ErrTooManyStreams):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, sendError(err)
	}
	return m.newStream(c.Identity, raw, make(chan struct{}, 1)), nil
}

// encodeHead encodes the head of a stream: an event without a payload.
func encodeHead(name string, metadata map[string]string) ([]byte, error) {
	if err := checkMetadata(metadata); err != nil {
		return nil, err
	}
	head, err := wire.EncodeEvent(wire.Event{Name: name, Metadata: metadata}, MaxStreamHeadBytes)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return nil, fmt.Errorf("%w: name and metadata of the stream: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: invalid stream name: %w", ErrUnknownType, err)
	}
	return head, nil
}

// openLoopback opens a stream to a handler of this node. It waits for interceptors.
func (m *Messenger) openLoopback(
	ctx context.Context, self member.Member, name string, metadata map[string]string,
) (receiver.Stream, error) {
	serve, err := m.mux.AcceptStream(name, false)
	switch {
	case errors.Is(err, receiver.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, receiver.ErrBusy):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnknownType, err)
	}
	ours, theirs := newLoopback()
	begun := make(chan error, 1)
	go serve(self, maps.Clone(metadata), m.newStream(self.Identity, theirs, nil),
		func(refused error) { begun <- refused })
	select {
	case refused := <-begun:
		if refused != nil {
			return nil, m.answerError(self.Address, answerTo(wire.Call{}, true, refused))
		}
		return m.newStream(self.Identity, ours, nil), nil
	case <-ctx.Done():
		_ = ours.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	case <-m.streaming.Done():
		_ = ours.Close()
		return nil, m.cfg.Cause()
	}
}

// Stream passes a stream to its handler, or refuses it with a reason (mesh.Handler).
func (m *Messenger) Stream(from member.Identity, head []byte, raw mesh.BulkStream) {
	e, err := wire.DecodeEvent(head, MaxStreamHeadBytes)
	if err == nil && (e.Call.ID != 0 || len(e.Payload) > 0) {
		err = errBadHead
	}
	if err != nil {
		refuseStream(raw, wire.OutcomeMalformed, err)
		_ = m.dropFrame(from, DropMalformed, err)
		return
	}
	serve, err := m.mux.AcceptStream(e.Name, from.Address.IsObserver())
	if err != nil {
		refuseStream(raw, outcomeOf(false, err), err)
		reason := dropReason(err)
		if errors.Is(err, receiver.ErrBusy) {
			reason = DropTooMany
		}
		_ = m.dropFrame(from, reason, err)
		return
	}
	begin := func(refused error) {
		if refused != nil {
			refuseStream(raw, outcomeOf(true, refused), refused)
			return
		}
		// If this Write fails, so does the first Write of the handler.
		_, _ = raw.Write([]byte{byte(wire.OutcomeDone)})
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s := m.newStream(from, raw, nil)
		serve(*entryOf(from, m.contactOf(from.Address)), e.Metadata, s, begin)
	}()
	select {
	case <-served:
	case <-m.handled: // Close no longer waits for the handler
	}
}

// refuseStream informs the peer why the stream has no handler. It sends an outcome and a text, and
// ends its direction.
func refuseStream(raw mesh.BulkStream, outcome wire.Outcome, err error) {
	text := strings.ToValidUTF8(err.Error(), "")
	text = text[:min(len(text), wire.MaxAnswerText)]
	if _, err := raw.Write(append([]byte{byte(outcome)}, text...)); err == nil {
		_ = raw.CloseWrite() // otherwise the peer would see a reset instead of the text
	}
}

// stream implements receiver.Stream. It translates the errors of a transport stream.
type stream struct {
	m    *Messenger
	peer member.Identity
	raw  mesh.BulkStream
	stop func() bool // cancels the AfterFunc that closes raw

	// The first byte from the peer is its verdict: whether it accepts the stream. The goroutine that
	// holds turn reads the verdict. If this node accepted the stream, or both ends are in this node,
	// no verdict is expected: turn is nil, and accepted is always true.
	accepted atomic.Bool
	turn     chan struct{}
	refused  error // the reason if the peer refused the stream; guarded by turn

	cut atomic.Pointer[error] // why this node ended the stream; nil if it did not
}

// openStreams holds the streams that are not closed.
type openStreams struct {
	mu   sync.Mutex
	open map[*stream]bool
}

func (o *openStreams) add(s *stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[*stream]bool{}
	}
	o.open[s] = true
}

func (o *openStreams) removeStream(s *stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, s)
}

// cutStreams ends all streams of a run and of earlier ones with err.
func (o *openStreams) cutStreams(who member.Identity, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.open {
		if s.peer.Address == who.Address && s.peer.Incarnation <= who.Incarnation {
			s.cut.Store(&err)
			_ = s.raw.Close()
		}
	}
}

// newStream returns a stream for the application. turn is nil if no verdict is expected.
func (m *Messenger) newStream(
	peer member.Identity, raw mesh.BulkStream, turn chan struct{},
) *stream {
	s := &stream{m: m, peer: peer, raw: raw, turn: turn}
	s.accepted.Store(turn == nil)
	m.streams.add(s)
	s.stop = context.AfterFunc(m.streaming, func() { _ = raw.Close() })
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	if err := s.awaitVerdict(); err != nil {
		return 0, err
	}
	read, err := s.raw.Read(p)
	return read, s.streamError(err)
}

func (s *stream) Write(p []byte) (int, error) {
	written, err := s.raw.Write(p)
	return written, s.writeError(err)
}

func (s *stream) CloseWrite() error { return s.writeError(s.raw.CloseWrite()) }

func (s *stream) Close() error {
	s.stop()
	s.m.streams.removeStream(s)
	return s.raw.Close()
}

// awaitVerdict blocks until the peer's verdict is known. If the peer refused the stream, it
// returns the reason.
func (s *stream) awaitVerdict() error {
	if s.accepted.Load() {
		return nil
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.refused == nil && !s.accepted.Load() {
		s.refused = s.readVerdict()
		s.accepted.Store(s.refused == nil)
	}
	return s.refused
}

func (s *stream) readVerdict() error {
	var verdict [1]byte
	_, err := io.ReadFull(s.raw, verdict[:])
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w: %w", ErrStreamReset, transport.ErrStreamReset, errNoVerdict)
	case err != nil:
		return s.streamError(err)
	}
	a := wire.Answer{Outcome: wire.Outcome(verdict[0])}
	if a.Outcome == wire.OutcomeDone {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(s.raw, wire.MaxAnswerText)) // a part of the text is enough
	a.Text = string(text)
	return s.m.answerError(s.peer.Address, a)
}

// writeError is like streamError, but for writers. If the peer refused the stream, it returns the
// reason instead of ErrStreamReset.
func (s *stream) writeError(err error) error {
	if errors.Is(err, transport.ErrStreamReset) {
		if refused := s.awaitVerdict(); refused != nil {
			return refused
		}
	}
	return s.streamError(err)
}

// streamError translates the reason why a stream ended.
func (s *stream) streamError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if ended := s.m.ctxErr(context.Background()); ended != nil {
		return fmt.Errorf("%w: %w", ended, err)
	}
	if cut := s.cut.Load(); cut != nil {
		return *cut
	}
	switch {
	case errors.Is(err, transport.ErrStreamClosed):
		return fmt.Errorf("%w: %w", ErrStreamClosed, err)
	case errors.Is(err, transport.ErrStreamReset):
		return fmt.Errorf("%w: %w", ErrStreamReset, err)
	default:
		return fmt.Errorf("%w: %w", ErrStreamCut, err)
	}
}
