// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

const (
	// MaxStreams bounds the streams to one member that a node has opened and that
	// are not over at both ends.
	MaxStreams = transport.MaxStreams
	// MaxStreamHeadBytes bounds the name of a stream with its metadata, as they
	// travel.
	MaxStreamHeadBytes = transport.MaxHeadBytes
)

// Errors of streams. Each wraps that of package transport with the same name.
var (
	// ErrStreamClosed says that this node has closed the stream, or this direction.
	ErrStreamClosed = errors.New("cluster: stream is closed")
	// ErrStreamReset says that the other member closed the stream before its end: its
	// handler returned before it had read all, or failed, or whoever opened it called
	// Close without CloseWrite. A Write may fail so while a Read still gives what the
	// handler has written, such as the reason.
	ErrStreamReset = errors.New("cluster: stream was given up by the other member")
	// ErrStreamCut says that the connection of a stream ended before it. What the
	// other member has read of it is not known.
	ErrStreamCut = errors.New("cluster: stream was cut off")
)

var (
	errStreamOption = errors.New("cluster: OpenStream: only WithMetadata means anything for a stream")
	errBadHead      = errors.New("cluster: stream with more in its head than name and metadata")
	errSilentEnd    = errors.New("it ended before a word whether anybody takes it")
)

// OpenStream opens a stream of bytes, in both directions, to the handler that an
// active member, which may be this node, has for this name: receiver.HandleStream.
// WithMetadata goes with it. It waits for a connection as Send does, and for nothing
// else; ctx bounds the opening alone, not the stream. Streams hold up neither events
// nor heartbeats, and nobody but their own writer waits while nobody reads one.
//
// Errors say that there is no stream: ErrNotActive, ErrNotDelivered, ErrTooLarge,
// ErrClosed, and ErrBusy while MaxStreams streams to the member are open. Where it is
// ErrNotDelivered a handler may still have been called, with a stream that is closed.
//
// Whether the member takes the stream is learned later: the first Read, and a Write
// that fails for it, return ErrUnknownType where it has no handler for the name,
// ErrBusy where too many run there, ErrNotDelivered where it closes. Where the member
// is this node, OpenStream itself returns the first two.
//
// Read and Write fail with ErrStreamReset, ErrStreamCut or ErrStreamClosed, and with
// ErrClosed or whatever else ended this node. Who wants to know that the handler
// took all calls CloseWrite, then reads until io.EOF: that comes when the handler
// has returned nil, or has called CloseWrite itself. Close must be called in the end.
func (n *Node) OpenStream(
	ctx context.Context, to member.Address, name string, opts ...SendOption,
) (receiver.Stream, error) {
	s := newSending(opts)
	if s.bestEffort || s.outcome != nil || s.self {
		return nil, errStreamOption
	}
	head, err := streamHead(name, s.metadata)
	if err != nil {
		return nil, err
	}
	seen := n.look()
	if err := n.maySend(ctx, seen, to); err != nil {
		return nil, err
	}
	if to == n.cfg.self {
		return n.openOwn(*seen.members[to], name, s.metadata)
	}
	raw, err := n.net.OpenStream(ctx, to, head)
	switch {
	case errors.Is(err, transport.ErrTooManyStreams):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, n.notDelivered(err)
	}
	return n.newStream(to, raw, make(chan struct{}, 1)), nil
}

// streamHead is the head of a stream: an event without a payload.
func streamHead(name string, metadata map[string]string) ([]byte, error) {
	if err := checkMetadata(metadata); err != nil {
		return nil, err
	}
	head, err := wire.EncodeEvent(wire.Event{Name: name, Metadata: metadata}, MaxStreamHeadBytes)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return nil, fmt.Errorf("%w: name and metadata of a stream: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: no name of a stream: %w", ErrUnknownType, err)
	}
	return head, nil
}

// openOwn opens a stream to the handler of this node.
func (n *Node) openOwn(
	self member.Member, name string, metadata map[string]string,
) (receiver.Stream, error) {
	serve, err := n.mux.AcceptStream(name)
	switch {
	case errors.Is(err, receiver.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, receiver.ErrBusy):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnknownType, err)
	}
	ours, theirs := newOwnStream()
	go serve(self, maps.Clone(metadata), n.newStream(self.Address, theirs, nil))
	return n.newStream(self.Address, ours, nil), nil
}

// Stream hands a stream to its handler, or says why there is none
// (transport.Handler).
func (n inbound) Stream(from member.Identity, head []byte, raw transport.BulkStream) {
	e, err := wire.DecodeEvent(head, MaxStreamHeadBytes)
	if err == nil && (e.Call.ID != 0 || len(e.Payload) > 0) {
		err = errBadHead
	}
	if err != nil {
		refuse(raw, wire.OutcomeMalformed, err)
		_ = n.drop(from, dropMalformed, err)
		return
	}
	serve, err := n.mux.AcceptStream(e.Name)
	if err != nil {
		refuse(raw, outcomeOf(false, err), err)
		reason := dropReason(err)
		if errors.Is(err, receiver.ErrBusy) {
			reason = dropTooMany
		}
		_ = n.drop(from, reason, err)
		return
	}
	// Where that fails the handler learns it by its own first Write.
	_, _ = raw.Write([]byte{byte(wire.OutcomeDone)})
	served := make(chan struct{})
	go func() {
		defer close(served)
		serve(*n.sender(from), e.Metadata, n.newStream(from.Address, raw, nil))
	}()
	select {
	case <-served:
	case <-n.handled: // the handler goes on although its node has closed
	}
}

// refuse says why nobody takes a stream: the outcome, and a text to its end.
func refuse(raw transport.BulkStream, why wire.Outcome, err error) {
	text := strings.ToValidUTF8(err.Error(), "")
	text = text[:min(len(text), wire.MaxAnswerText)]
	if _, err := raw.Write(append([]byte{byte(why)}, text...)); err == nil {
		_ = raw.CloseWrite() // the peer learns less where it fails
	}
}

// stream is a receiver.Stream: one of the transport, in the words of this package.
type stream struct {
	node *Node
	peer member.Address
	raw  transport.BulkStream
	stop func() bool // lets the stream outlive the node, which it must not otherwise

	// accepted says that the peer takes the stream. Until then whoever holds turn
	// reads its word; a node that was asked itself, or asks itself, waits for none.
	accepted atomic.Bool
	turn     chan struct{}
	refused  error // what the word came to, nil before it; of who has the turn
}

// newStream gives a stream to the application. turn is nil where the peer has
// nothing to say first.
func (n *Node) newStream(
	peer member.Address, raw transport.BulkStream, turn chan struct{},
) *stream {
	s := &stream{node: n, peer: peer, raw: raw, turn: turn}
	s.accepted.Store(turn == nil)
	s.stop = context.AfterFunc(n.streaming, func() { _ = raw.Close() })
	return s
}

// Read implements receiver.Stream.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.word(); err != nil {
		return 0, err
	}
	read, err := s.raw.Read(p)
	return read, s.fault(err)
}

// Write implements receiver.Stream.
func (s *stream) Write(p []byte) (int, error) {
	written, err := s.raw.Write(p)
	return written, s.explained(err)
}

// CloseWrite implements receiver.Stream.
func (s *stream) CloseWrite() error { return s.explained(s.raw.CloseWrite()) }

// Close implements receiver.Stream.
func (s *stream) Close() error {
	s.stop()
	return s.raw.Close()
}

// word waits for what the peer says first, and returns why it does not take the
// stream.
func (s *stream) word() error {
	if s.accepted.Load() {
		return nil
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.refused == nil && !s.accepted.Load() {
		s.refused = s.readWord()
		s.accepted.Store(s.refused == nil)
	}
	return s.refused
}

func (s *stream) readWord() error {
	var word [1]byte
	_, err := io.ReadFull(s.raw, word[:])
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w: %w", ErrStreamReset, transport.ErrStreamReset, errSilentEnd)
	case err != nil:
		return s.fault(err)
	}
	a := wire.Answer{Outcome: wire.Outcome(word[0])}
	if a.Outcome == wire.OutcomeDone {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(s.raw, wire.MaxAnswerText)) // what there is of it
	a.Text = string(text)
	return s.node.outcome(s.peer, a)
}

// explained is fault for writers: that nobody reads may be since nobody takes the
// stream.
func (s *stream) explained(err error) error {
	if errors.Is(err, transport.ErrStreamReset) {
		if refused := s.word(); refused != nil {
			return refused
		}
	}
	return s.fault(err)
}

// fault says in the words of this package why a stream ended.
func (s *stream) fault(err error) error {
	switch over := s.node.Err(); {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case over != nil:
		return fmt.Errorf("%w: %w", over, err)
	case errors.Is(err, transport.ErrStreamClosed):
		return fmt.Errorf("%w: %w", ErrStreamClosed, err)
	case errors.Is(err, transport.ErrStreamReset):
		return fmt.Errorf("%w: %w", ErrStreamReset, err)
	default:
		return fmt.Errorf("%w: %w", ErrStreamCut, err)
	}
}
