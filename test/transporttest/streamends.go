// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/transport"
)

// mustCut fails unless Read and Write at both ends of a stream return ErrStreamCut. Read may still
// return bytes that were written earlier, but not io.EOF.
func mustCut(t *testing.T, ends ...mesh.BulkStream) {
	t.Helper()
	for i, s := range ends {
		if err := second(io.Copy(io.Discard, s)); !errors.Is(err, mesh.ErrStreamCut) {
			t.Errorf("stream end %d: Read returned %v, want ErrStreamCut", i, err)
		}
		if err := second(s.Write(make([]byte, 64<<20))); !errors.Is(err, mesh.ErrStreamCut) {
			t.Errorf("stream end %d: Write returned %v, want ErrStreamCut", i, err)
		}
	}
}

func testStreamsCut(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	ours, theirs := openBoth(t, a, b)
	mustWrite(t, ours, []byte("some"))
	mustWrite(t, theirs, []byte("some"))
	w.Cut(addr(1), addr(2))
	w.Cut(addr(2), addr(1))
	// A new connection replaces the silent one.
	for range 10 {
		a.Notify(addr(2), make([]byte, 100))
		b.Notify(addr(1), make([]byte, 100))
		time.Sleep(interval)
	}
	w.Heal(addr(1), addr(2))
	w.Heal(addr(2), addr(1))
	beat(a, b, 0, time.Second)
	mustCut(t, ours, theirs)

	ours, theirs = openBoth(t, a, b)
	twin := defaults(addr(2))
	twin.greet.From.Incarnation = 2
	w.Kill(addr(2))
	b = joinAs(t, w, addr(2), twin)
	b.Notify(addr(1), []byte("later run"))
	eventually(t, 5*time.Second, "a has received the frame", a.hasReceived(transport.System, 1))
	mustCut(t, ours, theirs)
	openBoth(t, a, b)
}

func testCloseEndsStreams(t *testing.T, w World) {
	for _, closer := range []string{"opener", "handler"} {
		a, b := join(t, w, addr(1)), join(t, w, addr(2))
		ours, theirs := openBoth(t, a, b)
		mustWrite(t, ours, []byte("some"))
		closing, other := a, b
		if closer == "handler" {
			closing, other = b, a
		}
		reading := make(chan error, 2)
		go func() { reading <- second(io.Copy(io.Discard, ours)) }()
		go func() {
			reading <- second(io.Copy(io.Discard, theirs))
			close(theirs.gone) // Close waits for the handler
		}()
		time.Sleep(time.Second)
		start := time.Now()
		closeAll(t, closing)
		if took := time.Since(start); took > closeLimit(w) {
			t.Errorf("Close took %v while a stream was open, want at most %v", took, closeLimit(w))
		}
		for range 2 {
			if err := <-reading; !errors.Is(err, mesh.ErrStreamCut) {
				t.Errorf("%s closed: Read returned %v, want ErrStreamCut", closer, err)
			}
		}
		_, err := closing.OpenStream(context.Background(), other.address(), nil)
		if !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("OpenStream after Close: got %v, want ErrClosed", err)
		}
		closeAll(t, other)
	}
}

func testStreamUnreachable(t *testing.T, w World) {
	a := join(t, w, addr(1))
	if _, err := a.OpenStream(context.Background(), addr(1), nil); !errors.Is(err, mesh.ErrSelf) {
		t.Errorf("OpenStream to its own address: got %v, want ErrSelf", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	_, err := a.OpenStream(ctx, addr(2), nil)
	if !errors.Is(err, mesh.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) ||
		time.Since(start) != time.Second {
		t.Errorf("OpenStream to an unreachable peer: got %v after %v, "+
			"want ErrUnreachable after its timeout of 1 s", err, time.Since(start))
	}
	start = time.Now()
	_, err = a.OpenStream(context.Background(), addr(2), nil)
	if !errors.Is(err, mesh.ErrUnreachable) || time.Since(start) != mesh.SendTimeout {
		t.Errorf("OpenStream to an unreachable peer: got %v after %v, want ErrUnreachable after %v",
			err, time.Since(start), mesh.SendTimeout)
	}
	opened := make(chan error)
	go func() { opened <- second(a.OpenStream(context.Background(), addr(2), []byte("late"))) }()
	time.Sleep(time.Second)
	b := join(t, w, addr(2))
	if err := <-opened; err != nil {
		t.Errorf("OpenStream to a peer that starts later: %v", err)
	}
	if got := b.accepted(0).head; got != "late" {
		t.Errorf("got head %q, want %q", got, "late")
	}
}

func testHeads(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	for i, length := range []int{0, 1, mesh.MaxHeadBytes} {
		mustOpen(t, a, b, string(noise(length, 3)))
		if got := b.accepted(i).head; got != string(noise(length, 3)) {
			t.Errorf("sent a head of %d bytes, got a different one of %d bytes", length, len(got))
		}
	}
	_, err := a.OpenStream(context.Background(), addr(2), make([]byte, mesh.MaxHeadBytes+1))
	if !errors.Is(err, mesh.ErrTooLarge) {
		t.Errorf("head of %d bytes: got %v, want ErrTooLarge", mesh.MaxHeadBytes+1, err)
	}
}

// testBadHeads opens streams with malformed heads. Each stream is reset and its reason is
// reported; nothing else is affected.
func testBadHeads(t *testing.T, w World) {
	b := join(t, w, addr(2))
	r := dialRaw(t, listenRaw(t, w, addr(9)), addr(2))
	if err := r.greet(addr(9), addr(2), 1); err != nil {
		t.Fatalf("greet: %v", err)
	}
	const garbage, stalled = mesh.DropGarbage, mesh.DropStalled
	counted := map[mesh.Drop]uint64{}
	for _, test := range []struct {
		name   string
		write  []byte
		end    bool
		took   time.Duration
		drop   mesh.Drop
		reason string
	}{
		{"above the limit", frame(make([]byte, mesh.MaxHeadBytes+1)), false, 0,
			garbage, "length 4097, limit 4096"},
		{"with a huge length", []byte{0xff, 0xff, 0xff, 0xff, 1}, false, 0,
			garbage, "length 4294967295, limit 4096"},
		{"cut off", frame([]byte("head"))[:6], true, 0, garbage, "is cut off"},
		{"that does not arrive", []byte{0}, false, mesh.HeadTimeout,
			stalled, "did not arrive within 3s"},
		{"that arrives in part", frame([]byte("head"))[:6], false, mesh.HeadTimeout,
			stalled, "did not arrive within 3s"},
	} {
		s, err := r.OpenStream()
		if err != nil {
			t.Fatalf("head %s: OpenStream: %v", test.name, err)
		}
		mustWrite(t, s, test.write)
		if test.end {
			if err := s.CloseWrite(); err != nil {
				t.Fatalf("head %s: CloseWrite: %v", test.name, err)
			}
		}
		start := time.Now()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, transport.ErrStreamReset) {
			t.Errorf("head %s: the stream ended with %v, want ErrStreamReset", test.name, err)
		}
		if took := time.Since(start) - test.took; took < 0 || took > 10*time.Millisecond {
			t.Errorf("head %s: reset after %v, want %v", test.name, time.Since(start), test.took)
		}
		counted[test.drop]++
		for _, drop := range []mesh.Drop{garbage, stalled} {
			if got := b.Stats().Dropped[drop.String()]; got != counted[drop] {
				t.Errorf("head %s: %v counted %d times, want %d", test.name, drop, got, counted[drop])
			}
		}
		errs := b.reported(mesh.ReportStreamRefused)
		if len(errs) == 0 || !strings.Contains(errs[len(errs)-1].Error(), test.reason) {
			t.Errorf("head %s: reported %v, want %q", test.name, errs, test.reason)
		}
		if got := len(b.allAccepted()); got != 0 {
			t.Errorf("head %s: %d streams reached the handler, want none", test.name, got)
		}
	}
	checkStreamsWork(t, r, b)
}

// checkStreamsWork checks that the remaining streams of a connection still carry data.
func checkStreamsWork(t *testing.T, r raw, b *node) {
	t.Helper()
	if !b.peer(addr(9)).Connected {
		t.Error("a stream with an invalid head closed its connection")
	}
	for k := range transport.Kinds {
		got := len(b.received(k))
		r.write(k, frame([]byte("frame")))
		eventually(t, time.Second, "the "+k.String()+" frame has arrived", b.hasReceived(k, got+1))
	}
	s, err := r.OpenStream()
	if err != nil {
		t.Fatalf("OpenStream: %v", err)
	}
	mustWrite(t, s, frame([]byte("good")))
	if got := b.accepted(0).head; got != "good" {
		t.Errorf("head of the next stream is %q, want %q", got, "good")
	}
}
