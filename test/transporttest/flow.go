// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/transport"
)

func testCloseFreesAddress(t *testing.T, w World) {
	a := join(t, w, addr(1))
	if err := a.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	// Listen fails the test if the address is still in use.
	b := join(t, w, addr(1))
	connect(t, join(t, w, addr(2)), b)
}

func testOrder(t *testing.T, w World) {
	const frames = 2000
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	var want []string
	for i := range frames {
		frame := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%1500))
		want = append(want, frame)
		a.Notify(addr(2), []byte(frame))
		if err := a.sendEach(addr(2), []byte(frame)); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if i%50 == 49 {
			// Let the queues drain before they are full.
			time.Sleep(10 * time.Millisecond)
		}
	}
	for k := range transport.Kinds {
		skip := 0
		if k == transport.System {
			skip = 1 // the frame sent by connect
		}
		eventually(t, time.Minute, "all "+k.String()+" frames have arrived",
			b.hasReceived(k, frames+skip))
		if got := b.received(k)[skip:]; !slices.Equal(got, want) {
			t.Errorf("%v frames: got %d that differ from the %d sent, or in another order",
				k, len(got), frames)
		}
	}
}

func testKindsApart(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.stop(transport.Custom)
	fill(t, a, b)
	for i := range 20 {
		start := time.Now()
		a.Notify(addr(2), []byte("heartbeat"))
		eventually(t, time.Second, "the heartbeat has arrived", b.hasReceived(transport.System, i+2))
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("heartbeat %d took %v while custom frames were blocked, want at most 20 ms", i, took)
		}
	}
	// Send more answers than the flow-control window of a stream holds.
	for i := range 100 {
		if err := a.answer(addr(2), make([]byte, 10_000)); err != nil {
			t.Fatalf("Answer %d while custom frames were blocked: %v", i, err)
		}
	}
	eventually(t, 5*time.Second, "all answers have arrived", b.hasReceived(transport.Answer, 100))
}

// fill sends custom frames until Send blocks, and returns the number of frames sent.
func fill(t *testing.T, from, to *node) (frames int) {
	t.Helper()
	payload := strings.Repeat("x", 10_000)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := from.Send(ctx, to.address(), []byte(fmt.Sprintf("%d %s", frames, payload)))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return frames
		}
		if err != nil {
			t.Fatalf("Send: %v", err)
		}
		if frames++; frames > 1000 {
			t.Fatal("Send accepted 10 MB for a peer that does not read")
		}
	}
}

func testBackpressure(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.stop(transport.Custom)
	frames := fill(t, a, b)

	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Second, cancel)
	if err := a.Send(ctx, addr(2), make([]byte, 5000)); !errors.Is(err, context.Canceled) {
		t.Errorf("Send to a slow peer: got %v, want context.Canceled", err)
	}
	blocked := make(chan error)
	more := fmt.Append(nil, frames, " ", strings.Repeat("x", 10_000))
	go func() { blocked <- a.Send(context.Background(), addr(2), more) }()
	time.Sleep(time.Second)
	start := time.Now()
	b.resume(transport.Custom)
	if err := <-blocked; err != nil {
		t.Errorf("Send to a slow peer that has resumed reading: %v", err)
	}
	frames++
	eventually(t, time.Second, "all accepted frames have arrived",
		b.hasReceived(transport.Custom, frames))
	if took := time.Since(start); took > time.Second {
		t.Errorf("the accepted frames arrived %v after the peer resumed reading, want at most 1 s", took)
	}
	for i, frame := range b.received(transport.Custom) {
		if n, _, _ := strings.Cut(frame, " "); n != fmt.Sprint(i) {
			t.Fatalf("custom frame %d has the number %s, want them in order", i, n)
		}
	}
	if err := a.Send(context.Background(), addr(2), []byte("more")); err != nil {
		t.Errorf("Send after backpressure: %v", err)
	}
	eventually(t, time.Second, "the next frame has arrived", b.hasReceived(transport.Custom, frames+1))
}

// testStuck checks that Sends without room fail once the peer has said that it takes nothing of
// their kind, and that other kinds pass. When the peer takes frames again, Sends wait again.
func testStuck(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.stop(transport.Custom)
	fill(t, a, b)
	to, frame := a.Destination(addr(2)), make([]byte, 10_000)
	send := func(mode mesh.SendMode) error {
		return to.Send(t.Context(), transport.Custom, frame, mode)
	}
	began, why := time.Now(), errors.New("hung")
	if err := send(mesh.SendMode{Try: true}); !errors.Is(err, mesh.ErrNoRoom) {
		t.Errorf("without waiting: got %v, want ErrNoRoom", err)
	}
	time.AfterFunc(time.Second, func() { a.SetStuck(addr(2), transport.Custom, why) })
	for range 2 { // the first one waits
		if err := send(mesh.SendMode{}); !errors.Is(err, mesh.ErrNoRoom) || !errors.Is(err, why) {
			t.Errorf("got %v, want ErrNoRoom with the reason", err)
		}
	}
	if took := time.Since(began); took != time.Second {
		t.Errorf("took %v, want one second", took)
	}
	for k := transport.Custom + 1; k < transport.Kinds; k++ {
		if err := to.Send(t.Context(), k, frame, mesh.SendMode{}); err != nil {
			t.Errorf("%v: %v", k, err)
		}
	}
	a.SetStuck(addr(2), transport.Custom, nil)
	time.AfterFunc(time.Minute, func() { b.resume(transport.Custom) })
	for range 100 {
		if err := send(mesh.SendMode{}); err != nil {
			t.Fatal(err)
		}
	}
}

func testTooLarge(t *testing.T, w World) {
	s := defaults(addr(1))
	s.custom = 5000
	a, b := joinAs(t, w, addr(1), s), join(t, w, addr(2))
	connect(t, a, b)
	for _, length := range []int{0, 5001} {
		err := a.Send(context.Background(), addr(2), make([]byte, length))
		if !errors.Is(err, mesh.ErrTooLarge) {
			t.Errorf("Send of %d bytes, limit 5000: got %v, want ErrTooLarge", length, err)
		}
	}
	a.Notify(addr(2), nil)
	a.Notify(addr(2), make([]byte, mesh.MaxSystemBytes+1))
	if got := a.Stats().Dropped[mesh.DropTooLarge.String()]; got != 4 {
		t.Errorf("dropped %d frames as too large, want 4", got)
	}
	a.Notify(addr(2), make([]byte, mesh.MaxSystemBytes))
	if err := a.Send(context.Background(), addr(2), make([]byte, 5000)); err != nil {
		t.Errorf("Send of 5000 bytes, limit 5000: %v", err)
	}
	eventually(t, time.Second, "the largest custom frame has arrived",
		b.hasReceived(transport.Custom, 1))
	eventually(t, time.Second, "the largest system frame has arrived",
		b.hasReceived(transport.System, 2))
	if got := len(b.received(transport.System)[1]); got != mesh.MaxSystemBytes {
		t.Errorf("the largest system frame has %d bytes, want %d", got, mesh.MaxSystemBytes)
	}

	// A sender whose limit is larger than the receiver's sends frames that are too long.
	if err := b.Send(context.Background(), addr(1), make([]byte, 5001)); err != nil {
		t.Fatalf("Send: %v", err)
	}
	eventually(t, time.Second, "the receiver has refused the frame", func() bool {
		return a.Stats().Dropped[mesh.DropGarbage.String()] == 1
	})
	if got := a.received(transport.Custom); len(got) != 0 {
		t.Errorf("%d frames above the limit arrived, want none", len(got))
	}
	connect(t, a, b) // it still works
}

func testNotifyNeverBlocks(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	w.Cut(addr(1), addr(3))
	join(t, w, addr(3))
	start := time.Now()
	const frames = 1000
	for i := range frames {
		for peer := 2; peer < 5; peer++ { // connected, cut off, not running
			a.Notify(addr(peer), []byte(fmt.Sprint(i)))
		}
	}
	if took := time.Since(start); took != 0 {
		t.Errorf("%d calls of Notify took %v, want no time", 3*frames, took)
	}
	eventually(t, time.Second, "the reachable peer has received the last frame", func() bool {
		got := b.received(transport.System)
		return len(got) > 0 && got[len(got)-1] == fmt.Sprint(frames-1)
	})
	if took := time.Since(start); took > 50*time.Millisecond {
		t.Errorf("unreachable peers delayed frames to a reachable one by %v, want at most 50 ms", took)
	}
	if got := a.Stats().Dropped[mesh.DropOldest.String()]; got < 2*(frames-100) {
		t.Errorf("dropped %d of %d frames for two unreachable peers, want almost all", got, 2*frames)
	}
	time.Sleep(10 * time.Second)
	if got := a.Stats().Dropped[mesh.DropStale.String()]; got == 0 {
		t.Error("frames for an unreachable peer were never dropped")
	}
	dials := a.Stats().Dials
	time.Sleep(10 * time.Second)
	if got := a.Stats().Dials; got != dials {
		t.Errorf("dialed %d times although there was nothing to send", got-dials)
	}
}

func testSendUnreachable(t *testing.T, w World) {
	a := join(t, w, addr(1))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	err := a.Send(ctx, addr(2), []byte("x"))
	if !errors.Is(err, mesh.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send to an unreachable peer with a timeout of 1 s: got %v, "+
			"want ErrUnreachable and context.DeadlineExceeded", err)
	}
	if took := time.Since(start); took != time.Second {
		t.Errorf("Send to an unreachable peer took %v, want its timeout of 1 s", took)
	}
	start = time.Now()
	errs := make(chan error)
	for range 3 {
		go func() { errs <- a.Send(context.Background(), addr(2), []byte("x")) }()
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, mesh.ErrUnreachable) {
			t.Errorf("Send to an unreachable peer: got %v, want ErrUnreachable", err)
		}
	}
	if took := time.Since(start); took > mesh.SendTimeout+time.Second {
		t.Errorf("three concurrent calls of Send to an unreachable peer took %v, want about %v",
			took, mesh.SendTimeout)
	}
	go func() { errs <- a.Send(context.Background(), addr(2), []byte("late")) }()
	time.Sleep(time.Second)
	b := join(t, w, addr(2))
	if err := <-errs; err != nil {
		t.Errorf("Send to a peer that starts later: %v", err)
	}
	eventually(t, time.Second, "the frame has arrived", b.hasReceived(transport.Custom, 1))
}

func testCloseFlushes(t *testing.T, w World) {
	const frames = 50
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	for i := range frames {
		a.Notify(addr(2), []byte(fmt.Sprint(i)))
		if err := a.Send(context.Background(), addr(2), make([]byte, 5000)); err != nil {
			t.Fatalf("Send %d: %v", i, err)
		}
	}
	start := time.Now()
	for range 2 {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if took := time.Since(start); took >= mesh.CloseTimeout {
		t.Errorf("Close took %v although the peer reads", took)
	}
	if got := len(b.received(transport.System)); got != frames+1 {
		t.Errorf("%d system frames arrived, want %d", got, frames+1)
	}
	if got := len(b.received(transport.Custom)); got != frames {
		t.Errorf("%d custom frames arrived, want %d", got, frames)
	}
	err := a.Send(context.Background(), addr(2), []byte("x"))
	if !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("Send after Close: got %v, want ErrClosed", err)
	}
	a.Notify(addr(2), []byte("x"))
	eventually(t, time.Second, "b has noticed the close",
		func() bool { return !b.peer(addr(1)).Connected })
	if errs := b.reported(mesh.ReportLost); len(errs) != 0 {
		t.Errorf("an orderly close was reported as a lost connection: %v", errs)
	}
}

// closeLimit is the maximum time to close a Mesh. Over TCP, Close waits one round trip, so that the
// peers learn why the connections end.
func closeLimit(w World) time.Duration { return mesh.CloseTimeout + 2*w.Delay() }

func testCloseReleasesSend(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.stop(transport.Custom)
	fill(t, a, b)
	errs := make(chan error)
	for range 2 {
		go func() { errs <- a.Send(context.Background(), addr(2), make([]byte, 10_000)) }()
	}
	go func() { errs <- a.Send(context.Background(), addr(3), []byte("x")) }()
	time.Sleep(time.Second)
	start := time.Now()
	if err := a.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > closeLimit(w) {
		t.Errorf("Close took %v while the peer does not read, want at most %v", took, closeLimit(w))
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, mesh.ErrClosed) {
			t.Errorf("Send during Close: got %v, want ErrClosed", err)
		}
	}
}
