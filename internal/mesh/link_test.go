// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// idleConn is a connection to which nothing is written.
type idleConn struct{ transport.Conn }

func (idleConn) Close(transport.Code, string)  {}
func (idleConn) Heard() uint64                 { return 0 }
func (idleConn) Remote() (none member.Address) { return none }
func (idleConn) Stream(transport.Kind) transport.FrameStream {
	panic("a frame is written before the greet")
}

// losses is a handler that records the calls of Lost.
type losses struct {
	Handler
	mu   sync.Mutex
	lost []member.Identity
}

func (h *losses) StoreOf(member.Address) (none member.StoreID) { return none }

func (h *losses) Lost(who member.Identity) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(h.lost, who)
}

// unconnectedMesh returns a Mesh that has no network.
func unconnectedMesh(t *testing.T) *Mesh {
	t.Helper()
	m, err := New(Config{
		Encode: func(message.Message) ([]byte, error) { return nil, nil },
		Decode: func([]byte) (message.Message, error) { return message.Message{}, nil },
		Key:    func(member.StoreID) storekey.Key { return storekey.Key{} },
		Size:   1,
	}, withoutNetwork)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// undialedPeer returns a peer of a Mesh that has no network.
func undialedPeer(t *testing.T, h Handler) *peer {
	t.Helper()
	m := unconnectedMesh(t)
	m.handler = h
	p := newPeer(m, member.Address{Host: "127.0.0.1", Port: 1})
	p.dialing = true // there is no network to dial on
	return p
}

// TestConnectionThatEndsBeforeItStarts checks that Lost is called if a connection ends while this
// node writes its greeting. At that time, the connection already accepts frames.
func TestConnectionThatEndsBeforeItStarts(t *testing.T) {
	for _, mapped := range []bool{true, false} {
		h := &losses{}
		p := undialedPeer(t, h)
		l := newLink(p, idleConn{}, Ends{})
		l.who = member.Identity{Address: p.addr, Incarnation: 7}
		want := 0
		if mapped {
			want = 1
			p.cur = l
			flow, mode := &p.flows[transport.Custom], SendMode{Flush: true}
			if err := p.send(t.Context(), flow, []byte("taken"), mode); err != nil {
				t.Fatalf("Send: %v", err)
			}
			p.notify([]byte("heartbeat"))
		}
		l.end(transport.CodeClosed, "cannot write the greet", errors.New("broken"))
		if len(h.lost) != want || want > 0 && h.lost[0] != l.who {
			t.Errorf("mapped %t: lost %v, want %d", mapped, h.lost, want)
		}
	}
}

// promptConn is a connection whose peer answers a write before the write returns, unless it is
// slow.
type promptConn struct {
	idleConn
	transport.FrameStream
	heard uint64
	slow  bool
}

func (c *promptConn) Heard() uint64                               { return c.heard }
func (c *promptConn) Stream(transport.Kind) transport.FrameStream { return c }

func (c *promptConn) Write(b []byte) (int, error) {
	if !c.slow {
		c.heard++
	}
	return len(b), nil
}

// TestAnswerBeforeTheWriteReturns checks that a peer that answered before the write returned is not
// taken for silent when this node writes again after a pause.
func TestAnswerBeforeTheWriteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := undialedPeer(t, &losses{}), &promptConn{}
		p.mesh.silence = time.Second
		l := newLink(p, conn, Ends{})
		p.cur = l
		for _, step := range []struct {
			pause      time.Duration
			slow, want bool
		}{
			{0, false, false},
			{time.Minute, true, false}, // nothing was written since the last answer
			{900 * time.Millisecond, true, false},
			{200 * time.Millisecond, true, true},
		} {
			time.Sleep(step.pause)
			conn.slow = step.slow
			p.notify([]byte("heartbeat"))
			if l.flush(transport.System); l.silent != step.want {
				t.Errorf("after %v, slow %t: silent %t, want %t", step.pause, step.slow, l.silent, step.want)
			}
		}
	})
}

// openingConn is a connection that calls open when a stream is opened.
type openingConn struct {
	idleConn
	open func()
}

func (c openingConn) OpenStream() (transport.RawStream, error) {
	c.open()
	return nil, transport.ErrTooManyStreams
}

// TestStreamIsCountedBeforeItIsOpened checks that a connection that is left while a stream is being
// opened on it waits for the stream.
func TestStreamIsCountedBeforeItIsOpened(t *testing.T) {
	p, l := undialedPeer(t, &losses{}), (*link)(nil)
	opened := 0
	l = newLink(p, openingConn{open: func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		opened = l.streams
	}}, Ends{})
	p.cur = l
	if _, err := p.openStream(t.Context(), nil); !errors.Is(err, transport.ErrTooManyStreams) {
		t.Errorf("got %v, want %v", err, transport.ErrTooManyStreams)
	}
	if opened != 1 || l.streams != 0 {
		t.Errorf("the link counts %d streams while one is opened and %d afterwards, want 1 and 0",
			opened, l.streams)
	}
}

// stalledConn is a connection whose streams accept nothing until they are canceled.
type stalledConn struct{ idleConn }

func (stalledConn) OpenStream() (transport.RawStream, error) {
	return stalledStream{canceled: make(chan struct{})}, nil
}

type stalledStream struct {
	transport.RawStream
	canceled chan struct{}
}

func (s stalledStream) Write([]byte) (int, error) {
	<-s.canceled
	return 0, transport.ErrStreamClosed
}

func (s stalledStream) Cancel() {
	select {
	case <-s.canceled:
	default:
		close(s.canceled)
	}
}

// TestStreamOfUnknownOutcome checks that OpenStream does not claim that nothing was sent if its
// context ends while it writes the head.
func TestStreamOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := undialedPeer(t, &losses{})
		p.cur = newLink(p, stalledConn{}, Ends{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.openStream(ctx, nil)
		if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrUnknownOutcome with the cause", err)
		}
	})
}

// TestFrameIsAcceptedWhenItsContextEnds checks that a Send whose frame is accepted at the instant
// at which its context ends does not fail: its caller would send the event again.
func TestFrameIsAcceptedWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := undialedPeer(t, &losses{})
		f := &p.flows[transport.Custom]
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- p.sendWaiting(ctx, f, []byte("frame")) }()
		synctest.Wait()
		p.mu.Lock()
		cancel() // the Send wakes and waits for the mutex
		f.admit()
		p.mu.Unlock()
		if err := <-result; err != nil || f.frames != 1 {
			t.Errorf("%d frames are accepted, but Send returns %v", f.frames, err)
		}
	})
}

// listing is a handler whose state lists one store for every address.
type listing struct {
	losses
	store member.StoreID
}

func (h *listing) StoreOf(member.Address) member.StoreID { return h.store }

// TestGreetingsStopNoDials checks that greetings which wait for proof delay the dials of an address
// once, and never those of a member.
func TestGreetingsStopNoDials(t *testing.T) {
	for _, h := range []*listing{{}, {store: member.StoreID{1}}} {
		p := undialedPeer(t, h)
		p.proof.waiting = maxWaiting
		for round := range 2 {
			p.mu.Lock()
			p.dialing, p.leaving, p.wanted = false, false, time.Now()
			p.dialIfNeeded()
			first, next := p.yieldsToProof(), p.yieldsToProof()
			p.leaving = true // ends the dialing
			p.mu.Unlock()
			if first != h.store.IsZero() || next {
				t.Errorf("round %d, listed %t: the dials wait %t and %t, want only the first, if not listed",
					round, !h.store.IsZero(), first, next)
			}
			p.mesh.work.Wait()
		}
	}
}
