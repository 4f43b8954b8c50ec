// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/transport"
)

func mustOpen(t *testing.T, from, to *node, head string) mesh.BulkStream {
	t.Helper()
	s, err := from.OpenStream(context.Background(), to.address(), []byte(head))
	if err != nil {
		t.Fatalf("OpenStream from %v: %v", from.address(), err)
	}
	return s
}

func openBoth(t *testing.T, from, to *node) (ours mesh.BulkStream, theirs *incoming) {
	t.Helper()
	count := len(to.allAccepted())
	ours = mustOpen(t, from, to, "head")
	return ours, to.accepted(count)
}

func mustWrite(t *testing.T, s io.Writer, b []byte) {
	t.Helper()
	if n, err := s.Write(b); n != len(b) || err != nil {
		t.Fatalf("Write of %d bytes: wrote %d, %v", len(b), n, err)
	}
}

func mustRead(t *testing.T, s io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(s, got); err != nil || string(got) != want {
		t.Fatalf("Read: got %.30q, %v; want %.30q", got, err, want)
	}
}

func mustCloseWrite(t *testing.T, s mesh.BulkStream) {
	t.Helper()
	if err := s.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
}

// noise returns bytes that do not repeat.
func noise(length int, seed byte) []byte {
	b := make([]byte, length)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

// testStreamsCarry opens a stream in each direction at the same time; the accepting node echoes the
// data.
func testStreamsCarry(t *testing.T, w World) {
	const length = 10 << 20
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	done := make(chan error)
	for i, pair := range [][2]*node{{a, b}, {b, a}} {
		sent := noise(length, byte(i))
		head := fmt.Sprintf("head %d", i)
		s := mustOpen(t, pair[0], pair[1], head)
		in := pair[1].accepted(0)
		if in.head != head || in.from != pair[0].greet.From {
			t.Errorf("got stream %q from %v, want %q from %v", in.head, in.from, head, pair[0].greet.From)
		}
		go func() { done <- errors.Join(second(io.Copy(in, in)), in.CloseWrite()) }()
		go func() { done <- errors.Join(second(s.Write(sent)), s.CloseWrite()) }()
		go func() {
			hash := sha256.New()
			n, err := io.Copy(hash, s)
			if want := sha256.Sum256(sent); !bytes.Equal(hash.Sum(nil), want[:]) {
				err = errors.Join(err, fmt.Errorf("got %d bytes back that differ from the %d sent", n, length))
			}
			done <- errors.Join(err, s.Close())
		}()
	}
	for range 6 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, n := range []*node{a, b} {
		if got := n.Stats(); got.StreamsOpened != 1 || got.StreamsAccepted != 1 {
			t.Errorf("%v: counted %d streams opened and %d accepted, want 1 and 1",
				n.address(), got.StreamsOpened, got.StreamsAccepted)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func testHalfClose(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	ours, theirs := openBoth(t, a, b)
	mustWrite(t, ours, []byte("question"))
	mustCloseWrite(t, ours)
	if _, err := ours.Write([]byte("more")); !errors.Is(err, transport.ErrStreamClosed) {
		t.Errorf("Write after CloseWrite: got %v, want ErrStreamClosed", err)
	}
	if err := ours.CloseWrite(); err != nil {
		t.Errorf("second CloseWrite: %v", err)
	}
	got, err := io.ReadAll(theirs)
	if string(got) != "question" || err != nil {
		t.Errorf("got %q, %v; want the question and then EOF", got, err)
	}
	for range 3 {
		mustWrite(t, theirs, []byte("answer"))
		mustRead(t, ours, "answer")
		time.Sleep(time.Minute) // the other direction stays open
	}
	mustWrite(t, theirs, []byte("end"))
	mustCloseWrite(t, theirs)
	if err := theirs.Close(); err != nil { // bytes written before CloseWrite arrive
		t.Errorf("Close: %v", err)
	}
	if got, err := io.ReadAll(ours); string(got) != "end" || err != nil {
		t.Errorf("got %q, %v; want \"end\" and then EOF", got, err)
	}
}

func testStreamClose(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	for _, who := range []string{"opener", "handler"} {
		ours, theirs := openBoth(t, a, b)
		var closing, other mesh.BulkStream = ours, theirs
		if who == "handler" {
			closing, other = other, closing
		}
		mustWrite(t, closing, []byte("some"))
		mustRead(t, other, "some")
		reading, writing := make(chan error), make(chan error)
		go func() { reading <- second(closing.Read(make([]byte, 1))) }()
		go func() { writing <- second(closing.Write(make([]byte, 64<<20))) }()
		time.Sleep(time.Second)
		for range 2 {
			if err := closing.Close(); err != nil {
				t.Errorf("%s: Close: %v", who, err)
			}
		}
		for _, ended := range []chan error{reading, writing} {
			if err := <-ended; !errors.Is(err, transport.ErrStreamClosed) {
				t.Errorf("%s: Read or Write blocked during Close: got %v, want ErrStreamClosed", who, err)
			}
		}
		if err := closing.CloseWrite(); !errors.Is(err, transport.ErrStreamClosed) {
			t.Errorf("%s: CloseWrite after Close: got %v, want ErrStreamClosed", who, err)
		}
		if err := second(io.Copy(io.Discard, other)); !errors.Is(err, transport.ErrStreamReset) {
			t.Errorf("%s: Read at the peer: got %v, want ErrStreamReset", who, err)
		}
		if err := second(other.Write(make([]byte, 64<<20))); !errors.Is(err, transport.ErrStreamReset) {
			t.Errorf("%s: Write at the peer: got %v, want ErrStreamReset", who, err)
		}
	}
}

func testStreamHandlerReturns(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	ours, theirs := openBoth(t, a, b)
	mustWrite(t, theirs, []byte("lost?"))
	close(theirs.gone)
	if err := second(io.Copy(io.Discard, ours)); !errors.Is(err, transport.ErrStreamReset) {
		t.Errorf("handler returned without CloseWrite: Read: got %v, want ErrStreamReset", err)
	}
	ours, theirs = openBoth(t, a, b)
	answer := noise(30<<10, 1)
	mustWrite(t, theirs, answer)
	mustCloseWrite(t, theirs)
	close(theirs.gone)
	time.Sleep(time.Second)
	if got, err := io.ReadAll(ours); !bytes.Equal(got, answer) || err != nil {
		t.Errorf("handler returned after CloseWrite: read %d of %d bytes, %v", len(got), len(answer), err)
	}
	if err := second(ours.Write(make([]byte, 1<<20))); !errors.Is(err, transport.ErrStreamReset) {
		t.Errorf("handler returned: Write: got %v, want ErrStreamReset", err)
	}
}

// testUnreadStreams fills all streams in both directions while nothing reads them.
func testUnreadStreams(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	blocked := make(chan error)
	var streams []mesh.BulkStream
	for range transport.MaxStreams {
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			ours, theirs := openBoth(t, pair[0], pair[1])
			streams = append(streams, ours, theirs.BulkStream)
		}
	}
	for _, s := range streams {
		go func() { blocked <- second(s.Write(make([]byte, 64<<20))) }()
	}
	select {
	case err := <-blocked:
		t.Fatalf("Write of 64 MiB that nothing reads: returned %v, want it blocked", err)
	case <-time.After(time.Minute):
	}
	for i := range 20 {
		start := time.Now()
		a.Notify(addr(2), []byte("heartbeat"))
		eventually(t, time.Second, "the heartbeat has arrived", b.hasReceived(transport.System, i+2))
		if err := a.Send(context.Background(), addr(2), make([]byte, 1<<20)); err != nil {
			t.Fatalf("Send: %v", err)
		}
		eventually(t, time.Second, "the event has arrived", b.hasReceived(transport.Custom, i+1))
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("heartbeat and event %d took %v while streams were full, want at most 100 ms", i, took)
		}
	}
	for _, s := range streams {
		_ = s.Close() // always returns nil
		if err := <-blocked; err == nil {
			t.Error("Write of 64 MiB to a closed stream: got nil, want an error")
		}
	}
	if got := a.Stats().Dials + b.Stats().Dials; got != 1 {
		t.Errorf("dialed %d times, want once", got)
	}
}

// testEventsAndStreams sends events and bulk data as fast as possible. The events, the data and the
// heartbeats must arrive.
func testEventsAndStreams(t *testing.T, w World) {
	const length = 4 << 20
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	ours, theirs := openBoth(t, a, b)
	done := make(chan error)
	go func() {
		var err error
		for range length / 100_000 {
			err = errors.Join(err, a.Send(context.Background(), addr(2), make([]byte, 100_000)))
		}
		done <- err
	}()
	go func() { done <- errors.Join(second(ours.Write(make([]byte, length))), ours.CloseWrite()) }()
	go func() { done <- second(io.Copy(io.Discard, theirs)) }()
	for range 3 {
		beats := len(b.received(transport.System))
		start := time.Now()
		a.Notify(addr(2), []byte("heartbeat"))
		eventually(t, time.Second, "the heartbeat has arrived", b.hasReceived(transport.System, beats+1))
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("heartbeat took %v during a load of events and stream data, want at most 20 ms", took)
		}
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	eventually(t, time.Second, "all events have arrived",
		b.hasReceived(transport.Custom, length/100_000))
}

func testTooManyStreams(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	var streams []mesh.BulkStream
	for range transport.MaxStreams {
		ours, _ := openBoth(t, a, b)
		streams = append(streams, ours)
	}
	full := func() bool {
		start := time.Now()
		s, err := a.OpenStream(context.Background(), addr(2), nil)
		if err == nil {
			streams = append(streams, s)
			return false
		}
		if !errors.Is(err, transport.ErrTooManyStreams) || time.Since(start) != 0 {
			t.Errorf("stream %d: got %v after %v, want ErrTooManyStreams immediately",
				transport.MaxStreams+1, err, time.Since(start))
		}
		return true
	}
	if !full() {
		t.Errorf("opened %d streams, want the last one refused", transport.MaxStreams+1)
	}
	openBoth(t, b, a) // each side has its own limit
	// A stream that this side closes still counts until the handler at the other side
	// returns.
	_ = streams[0].Close() // always returns nil
	for _, err := range []error{
		second(io.Copy(io.Discard, b.accepted(0))), second(b.accepted(0).Write(make([]byte, 1<<20))),
	} {
		if !errors.Is(err, transport.ErrStreamReset) {
			t.Errorf("closed stream: got %v, want ErrStreamReset", err)
		}
	}
	time.Sleep(time.Second)
	if !full() {
		t.Error("opened another stream although no handler has returned")
	}
	close(b.accepted(0).gone)
	eventually(t, time.Second, "another stream can be opened", func() bool { return !full() })
	if !full() {
		t.Error("opened two streams although only one handler has returned")
	}
	for i, s := range streams {
		if i > 0 {
			close(b.accepted(i).gone)
		}
		_ = s.Close() // always returns nil
	}
	time.Sleep(time.Second)
	for i := range 3 * transport.MaxStreams {
		s, in := openBoth(t, a, b)
		mustCloseWrite(t, s)
		close(in.gone)
		if err := s.Close(); err != nil {
			t.Errorf("Close of stream %d: %v", i, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// testStreamsCrossing opens streams while two nodes dial each other. Short streams must complete on
// the connection that is kept.
func testStreamsCrossing(t *testing.T, w World) {
	var duplicates uint64
	for round := range rounds {
		a, b := join(t, w, addr(1)), join(t, w, addr(2))
		done := make(chan error)
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			go func() {
				time.Sleep(time.Duration(round%8) * time.Millisecond) // both are dialing
				done <- ask(pair[0], pair[1])
			}()
		}
		meet(w, a, b, round)
		go answerAll(a, b)
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
		duplicates += settle(t, a, b, 1)
		closeAll(t, a, b)
	}
	mustCross(t, w, duplicates)
}

// ask opens a stream, writes, and reads the echo.
func ask(from, to *node) error {
	s, err := from.OpenStream(context.Background(), to.address(), []byte("ask"))
	if err != nil {
		return err
	}
	defer s.Close()
	sent := noise(100_000, 7)
	go func() {
		_, _ = s.Write(sent) // an error makes the echo differ
		_ = s.CloseWrite()
	}()
	got, err := io.ReadAll(s)
	if err == nil && !bytes.Equal(got, sent) {
		err = fmt.Errorf("got %d bytes back that differ from the %d sent", len(got), len(sent))
	}
	return err
}

// answerAll echoes the first stream that each node accepts.
func answerAll(nodes ...*node) {
	for _, n := range nodes {
		go func() {
			for start := time.Now(); len(n.allAccepted()) == 0; time.Sleep(100 * time.Microsecond) {
				if time.Since(start) > time.Second {
					return
				}
			}
			in := n.allAccepted()[0]
			_, _ = io.Copy(in, in) // the peer notices any error
			_ = in.CloseWrite()
			close(in.gone)
		}()
	}
}
