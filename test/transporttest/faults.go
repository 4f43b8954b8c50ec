// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const interval = 100 * time.Millisecond // between heartbeats

func testRedial(t *testing.T, w World) {
	a := join(t, w, addr(1))
	const absent = 3 * time.Second
	for range absent / interval {
		a.Notify(addr(2), []byte("hello"))
		time.Sleep(interval)
	}
	dials := a.Stats().Dials
	if dials < 10 || dials > 60 {
		t.Errorf("dialed %d times in %v, want 10 to 60", dials, absent)
	}
	if got := a.Stats().Redials; got != dials-1 {
		t.Errorf("%d of %d dials count as redials, want all but the first", got, dials)
	}
	b := join(t, w, addr(2))
	eventually(t, 3*interval, "the peer is connected after its start",
		b.hasReceived(transport.System, 1))

	// A connection that lasted long enough resets the pause after failures.
	time.Sleep(2 * time.Second)
	closeAll(t, b)
	b = join(t, w, addr(2))
	a.Notify(addr(2), []byte("hello"))
	eventually(t, interval/5, "the restarted peer is connected", b.hasReceived(transport.System, 1))
}

// testLatePeer dials a node that starts shortly afterwards.
func testLatePeer(t *testing.T, w World) {
	for i, late := range []time.Duration{
		5 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond,
	} {
		a := join(t, w, addr(1))
		at := addr(2 + i)
		a.Notify(at, []byte("hello"))
		time.Sleep(late)
		b := join(t, w, at)
		start := time.Now()
		eventually(t, time.Second, "the nodes are connected", b.hasReceived(transport.System, 1))
		if took, limit := time.Since(start), 2*late+50*time.Millisecond; took > limit {
			t.Errorf("a peer that started %v late was reached %v after its start, want at most %v",
				late, took, limit)
		}
		closeAll(t, a, b)
	}
}

// beat sends one numbered frame per interval for the given time, and returns the next number.
func beat(from, to *node, next int, during time.Duration) int {
	for end := time.Now().Add(during); time.Now().Before(end); next++ {
		from.Notify(to.address(), []byte(fmt.Sprint(next)))
		time.Sleep(interval)
	}
	return next
}

func testCut(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	next := beat(a, b, 0, time.Second)
	for _, cut := range []struct {
		forth, back bool
		during      time.Duration
	}{
		{true, false, 300 * time.Millisecond},
		{true, true, 2 * time.Second},
		{true, false, 5 * time.Second},
		{false, true, 5 * time.Second},
		{true, true, 2 * time.Minute},
	} {
		if cut.forth {
			w.Cut(addr(1), addr(2))
		}
		if cut.back {
			w.Cut(addr(2), addr(1))
		}
		next = beat(a, b, next, cut.during)
		w.Heal(addr(1), addr(2))
		w.Heal(addr(2), addr(1))
		// Some frames may be lost when a new connection replaces a silent one.
		healed := next
		next = beat(a, b, next, 4*interval)
		if got := newest(t, b); got < healed {
			t.Errorf("cut %+v: no new frame arrived within %v after the cut was healed", cut, 4*interval)
		}
		next = beat(a, b, next, time.Second)
	}
	if got := newest(t, b); got != next-1 {
		t.Errorf("the last frame received is %d, want %d", got, next-1)
	}
	if got := b.Stats().Connections; got != 1 {
		t.Errorf("%d connections remain, want 1", got)
	}
}

// newest returns the number of the last frame that a node received. It fails the test
// unless all frames arrived in order, without duplicates.
func newest(t *testing.T, n *node) int {
	t.Helper()
	last := -1
	for _, frame := range n.received(transport.System) {
		number, err := strconv.Atoi(frame)
		if err != nil || number <= last {
			t.Fatalf("frame %q arrived after frame %d, want frames in order and each only once", frame, last)
		}
		last = number
	}
	return last
}

func testStuckPeer(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.stop(transport.System)
	for range 10 * time.Second / interval {
		a.Notify(addr(2), make([]byte, mesh.MaxSystemBytes/20))
		time.Sleep(interval)
	}
	errs := a.reported(mesh.ReportLost)
	if len(errs) == 0 || !strings.Contains(errs[0].Error(), "does not read") {
		t.Errorf("the peer does not read, but the reported errors are %v", errs)
	}
	if got := a.Stats().Dropped[mesh.DropOldest.String()]; got == 0 {
		t.Error("the peer does not read, but no frame was dropped")
	}
	b.resume(transport.System)
	got := len(b.received(transport.System))
	a.Notify(addr(2), []byte("again"))
	eventually(t, 2*time.Second, "the peer has read the next frame",
		b.hasReceived(transport.System, got+1))
}

// raw is one end of a connection to which a test writes bytes directly.
type raw struct {
	transport.Conn
	t *testing.T
}

func dialRaw(t *testing.T, from transport.Network, to member.Address) raw {
	t.Helper()
	conn, err := from.Dial(context.Background(), to)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	return raw{conn, t}
}

func listenRaw(t *testing.T, w World, at member.Address) transport.Network {
	t.Helper()
	n := w.Listen(t, at)
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func (r raw) write(k transport.Kind, b []byte) {
	r.t.Helper()
	if _, err := r.Stream(k).Write(b); err != nil {
		r.t.Fatalf("Write: %v", err)
	}
}

// greet sends the greeting of the node at one address to another and reads the answer.
func (r raw) greet(from, to member.Address, id uint64) error {
	r.t.Helper()
	return r.greetAs(defaults(from), to, id)
}

// greetAs is like greet, with the greeting and the key of the given settings.
func (r raw) greetAs(s settings, to member.Address, id uint64) error {
	r.t.Helper()
	s.edit(func(g *message.Greet) {
		g.Active = true
		g.StoreKey, g.Proof = s.key.Sign(r.Binding(), true)
	})
	s.greet.To = to
	body, err := encode(s.greet)
	if err != nil {
		r.t.Fatalf("encode: %v", err)
	}
	prefix := binary.BigEndian.AppendUint64(nil, id)
	prefix = binary.BigEndian.AppendUint64(prefix, 0)
	r.write(transport.System, frame(append(prefix, body...)))
	_, err = r.Stream(transport.System).Read(make([]byte, 4096))
	return err
}

// closed reads until the peer closes the connection, waits until the peer has reported the reason,
// and returns the peer's code.
func (r raw) closed() (transport.Code, error) {
	defer synctest.Wait()
	b := make([]byte, 4096)
	var err error
	for err == nil {
		_, err = r.Stream(transport.System).Read(b)
	}
	if errors.Is(err, io.EOF) { // the stream ended before the connection
		for err = nil; err == nil; {
			_, err = r.ReceiveDatagram()
		}
	}
	if closed, ok := errors.AsType[*transport.CloseError](err); ok && closed.Remote {
		return closed.Code, nil
	}
	return 0, err
}

func frame(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func testGarbage(t *testing.T, w World) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}
	mark := []byte{0, 0, 0, 0}
	tests := []struct {
		name    string
		greeted bool
		kind    transport.Kind
		write   []byte
		end     bool // close the stream afterwards
	}{
		{"greet above the limit", false, transport.System, frame(make([]byte, 5000)), false},
		{"greet with a huge length", false, transport.System, huge, false},
		{"greet too short", false, transport.System, frame([]byte("hello")), false},
		{"greet with random content", false, transport.System, frame(make([]byte, 100)), false},
		{"end mark instead of a greet", false, transport.System, mark, false},
		{"greet cut off", false, transport.System, frame(make([]byte, 100))[:50], true},
		{"system frame above the limit", true, transport.System, huge, false},
		{"system frame cut off", true, transport.System, frame(make([]byte, 100))[:50], true},
		{"length cut off", true, transport.System, []byte{0, 0}, true},
		{"system stream without an end mark", true, transport.System, nil, true},
		{"frame after the end mark", true, transport.System, append(mark, 0, 0, 0, 1, 'x'), false},
		{"custom frame above the limit", true, transport.Custom, huge, false},
		{"custom frame cut off", true, transport.Custom, frame(make([]byte, 100))[:50], true},
	}
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	known := uint64(0) // a dialer is unknown before its greeting
	for i, test := range tests {
		r := dialRaw(t, stranger, addr(1))
		if test.greeted {
			if err := r.greet(addr(9), addr(1), uint64(i)+1); err != nil {
				t.Fatalf("%s: greet: %v", test.name, err)
			}
		}
		r.write(test.kind, test.write)
		if test.end {
			if err := r.Stream(test.kind).CloseWrite(); err != nil {
				t.Fatalf("%s: CloseWrite: %v", test.name, err)
			}
		}
		if code, err := r.closed(); code != transport.CodeGarbage || err != nil {
			t.Errorf("%s: closed with %v, %v; want %v", test.name, code, err, transport.CodeGarbage)
		}
		if got := a.Stats().Dropped[mesh.DropGarbage.String()]; got != uint64(i)+1 {
			t.Errorf("%s: counted %d times, want once", test.name, got-uint64(i))
		}
		if test.greeted {
			known++
		}
		if got := a.peer(addr(9)).Garbage; got != known {
			t.Errorf("%s: the peer has %d invalid frames counted, want %d", test.name, got, known)
		}
	}
	if got := a.Stats().Connections; got != 0 {
		t.Errorf("%d connections remain, want none", got)
	}
	connect(t, join(t, w, addr(2)), a)
}

// maxPeers is the limit for a cluster of the default size in this package.
const maxPeers = 4*3 + 32

func testMuteDialers(t *testing.T, w World) {
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	start := time.Now()
	var mute []raw
	for range maxPeers {
		mute = append(mute, dialRaw(t, stranger, addr(1)))
	}
	time.Sleep(100 * time.Millisecond) // wait until all connections are accepted
	mute = append(mute, dialRaw(t, stranger, addr(1)))
	if code, err := mute[0].closed(); code != transport.CodeBusy || err != nil {
		t.Errorf("the oldest dialer, one above the limit: closed with %v, %v; want %v",
			code, err, transport.CodeBusy)
	}
	for i, r := range mute[1:] {
		if code, err := r.closed(); code != transport.CodeTimeout || err != nil {
			t.Errorf("silent dialer %d: closed with %v, %v; want %v", i, code, err, transport.CodeTimeout)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("silent dialers were closed after %v, want at most 5 s", took)
	}
	connect(t, join(t, w, addr(2)), a)
}

// testMuteDialersLeaveRoom dials 120 connections a second from one host, which never greet. Another
// host connects in the meantime.
func testMuteDialersLeaveRoom(t *testing.T, w World) {
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	flood := func(d time.Duration, end func() bool) {
		for begin := time.Now(); time.Since(begin) < d && !end(); time.Sleep(time.Second / 120) {
			dialRaw(t, stranger, addr(1))
		}
	}
	flood(time.Second, func() bool { return false })
	b := join(t, w, addr(2))
	b.Notify(addr(1), []byte("x"))
	arrived := a.hasReceived(transport.System, 1)
	if flood(200*time.Millisecond, arrived); !arrived() {
		t.Error("another host is not connected after 200 ms")
	}
}

func testPeersBounded(t *testing.T, w World) {
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	var known []raw
	for i := range maxPeers {
		r := dialRaw(t, stranger, addr(1))
		if err := r.greet(addr(100+i), addr(1), 1); err != nil {
			t.Fatalf("greet %d: %v", i, err)
		}
		known = append(known, r)
	}
	more := dialRaw(t, stranger, addr(1))
	if err := more.greet(addr(99), addr(1), 1); err == nil {
		t.Errorf("peer %d was accepted, want it refused", maxPeers+1)
	}
	a.Notify(addr(98), []byte("x"))
	if got := a.Stats().Dropped[mesh.DropNoPeer.String()]; got != 1 {
		t.Errorf("dropped %d frames for a peer above the limit, want 1", got)
	}
	if got := len(a.Peers()); got != maxPeers {
		t.Errorf("the node knows %d peers, want %d", got, maxPeers)
	}
	known[7].Close(transport.CodeClosed, "enough")
	eventually(t, time.Second, "the closed peer is no longer connected",
		func() bool { return !a.peer(addr(107)).Connected })
	synctest.Wait() // the node frees the place after it closes the connection
	if err := dialRaw(t, stranger, addr(1)).greet(addr(99), addr(1), 1); err != nil {
		t.Errorf("another peer could not take the free place: %v", err)
	}
}
