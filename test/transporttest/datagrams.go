// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/transport"
)

func testDatagrams(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	// Node 1 is the sender itself, node 2 has no connection, and address 3 has no node.
	for _, to := range []int{1, 2, 3} {
		if err := a.SendDatagram(addr(to), []byte("lost")); err != nil {
			t.Errorf("SendDatagram without a connection: %v", err)
		}
	}
	if got := a.Stats().Dropped[mesh.DropUnconnected.String()]; got != 3 {
		t.Errorf("dropped %d datagrams without a connection, want 3", got)
	}
	eventually(t, time.Second, "the datagram made the nodes connect", a.hasPeer(addr(2)))
	connect(t, a, b)
	var want []string
	bytes := 0
	for i, length := range []int{1, 100, 500, 583, mesh.MaxDatagramBytes} {
		frame := noise(length, byte(i))
		want = append(want, string(frame))
		bytes += length
		for _, pair := range [][2]*node{{a, b}, {b, a}} {
			if err := pair[0].SendDatagram(pair[1].address(), frame); err != nil {
				t.Errorf("SendDatagram of %d bytes: %v", length, err)
			}
		}
	}
	for _, n := range []*node{a, b} {
		eventually(t, time.Second, "the datagrams have arrived", func() bool {
			return len(n.gotDatagrams()) == len(want)
		})
		if got := n.gotDatagrams(); !slices.Equal(got, want) {
			t.Errorf("%v received other datagrams than were sent: %.20q", n.address(), got)
		}
		traffic := transport.Traffic{Messages: uint64(len(want)), Bytes: uint64(bytes)}
		if got := n.Stats(); got.DatagramsSent != traffic || got.DatagramsReceived != traffic {
			t.Errorf("counted %v sent and %v received, want %v for both",
				got.DatagramsSent, got.DatagramsReceived, traffic)
		}
	}
	for _, length := range []int{0, mesh.MaxDatagramBytes + 1} {
		err := a.SendDatagram(addr(2), make([]byte, length))
		if !errors.Is(err, mesh.ErrTooLarge) {
			t.Errorf("SendDatagram of %d bytes: got %v, want ErrTooLarge", length, err)
		}
	}
	closeAll(t, a)
	if err := a.SendDatagram(addr(2), []byte("x")); !errors.Is(err, mesh.ErrClosed) {
		t.Errorf("SendDatagram after Close: got %v, want ErrClosed", err)
	}
}

// testDatagramFlood sends more datagrams than the connection can carry, both several in a
// packet and one per packet. They must not delay other traffic.
func testDatagramFlood(t *testing.T, w World) {
	for _, length := range []int{20, 380, 580, mesh.MaxDatagramBytes} {
		a, b := join(t, w, addr(1)), join(t, w, addr(2))
		connect(t, a, b)
		flood := bytes.Repeat([]byte{'x'}, length)
		quit, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			for {
				select {
				case <-quit:
					return
				case <-time.After(100 * time.Microsecond):
				}
				for range 200 {
					if err := a.SendDatagram(addr(2), flood); err != nil {
						t.Errorf("SendDatagram: %v", err)
					}
				}
			}
		}()
		for i := range 20 {
			time.Sleep(time.Millisecond)
			start := time.Now()
			a.Notify(addr(2), make([]byte, 200))
			eventually(t, time.Second, "the heartbeat has arrived", b.hasReceived(transport.System, i+2))
			if took := time.Since(start); took > 10*time.Millisecond {
				t.Errorf("heartbeat %d took %v during a flood of datagrams of %d bytes, want at most 10 ms",
					i, took, length)
			}
		}
		close(quit)
		<-over
		time.Sleep(time.Second)
		sent, got := a.Stats(), b.Stats()
		if sent.Dropped[mesh.DropBusy.String()] == 0 {
			t.Errorf("no datagram of %d bytes was dropped, so the test proves nothing",
				length)
		}
		if got.DatagramsReceived.Messages == 0 ||
			got.DatagramsReceived.Messages > sent.DatagramsSent.Messages {
			t.Errorf("received %v of the %v sent", got.DatagramsReceived, sent.DatagramsSent)
		}
		closeAll(t, a, b)
	}
}

// testDatagramsSlow uses a handler that does not return.
func testDatagramsSlow(t *testing.T, w World) {
	const count = 2000
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.setSlow(true)
	for i := range count {
		if err := a.SendDatagram(addr(2), fmt.Append(nil, i)); err != nil {
			t.Fatalf("SendDatagram: %v", err)
		}
		if i%10 == 9 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	connect(t, a, b) // other traffic is not delayed
	lost := b.Stats().Dropped[mesh.DropBusy.String()]
	if lost == 0 {
		t.Error("no datagram was dropped while the handler was blocked")
	}
	b.setSlow(false)
	time.Sleep(time.Second)
	got := b.gotDatagrams()
	if received := b.Stats().DatagramsReceived.Messages; uint64(len(got)) != received-lost {
		t.Errorf("delivered %d datagrams, want %d received minus %d dropped",
			len(got), received, lost)
	}
	if err := a.SendDatagram(addr(2), []byte("again")); err != nil {
		t.Fatalf("SendDatagram: %v", err)
	}
	eventually(t, time.Second, "the next datagram has arrived", func() bool {
		return slices.Contains(b.gotDatagrams(), "again")
	})
}

// testBeforeAdmission dials twice and sends everything a dialer can send before its greeting.
// The first greeting is refused, the second one is accepted.
func testBeforeAdmission(t *testing.T, w World) {
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	early := func() raw {
		r := dialRaw(t, stranger, addr(1))
		for range transport.MaxStreams {
			s, err := r.OpenStream()
			if err != nil {
				t.Fatalf("OpenStream: %v", err)
			}
			mustWrite(t, s, append(frame([]byte("head")), "data"...))
			go func() { _, _ = s.Write(make([]byte, 64<<20)) }() // blocks until the connection ends
		}
		if _, err := r.OpenStream(); !errors.Is(err, transport.ErrTooManyStreams) {
			t.Errorf("OpenStream before the greet: got %v, want ErrTooManyStreams", err)
		}
		for range 10 {
			if err := r.SendDatagram([]byte{0, 1, 'x'}); err != nil {
				t.Fatalf("SendDatagram: %v", err)
			}
		}
		return r
	}
	mute, refused := early(), early()
	s := defaults(addr(9))
	s.key = storeOf(addr(8))
	if err := refused.greetAs(s, addr(1), 1); err == nil {
		t.Error("a greet that must be refused was answered")
	}
	for _, r := range []raw{mute, refused} {
		if code, err := r.closed(); code == transport.CodeClosed {
			t.Errorf("closed with %v, %v; want another code", code, err)
		}
	}
	if streams, datagrams := len(a.allAccepted()), len(a.gotDatagrams()); streams+datagrams > 0 {
		t.Errorf("%d streams and %d datagrams were delivered from a peer that was not admitted",
			streams, datagrams)
	}
	closeAll(t, a)

	a = join(t, w, addr(1))
	admitted := early()
	time.Sleep(time.Second)
	if streams, datagrams := len(a.allAccepted()), len(a.gotDatagrams()); streams+datagrams > 0 {
		t.Errorf("%d streams and %d datagrams were delivered before the greet", streams, datagrams)
	}
	if err := admitted.greet(addr(9), addr(1), 2); err != nil {
		t.Fatalf("greet: %v", err)
	}
	// After its greeting the peer is known. Its streams and datagrams that waited are then delivered.
	in := a.accepted(transport.MaxStreams - 1)
	if in.head != "head" || in.from.Address != addr(9) {
		t.Errorf("got stream %q from %v, want \"head\" from %v", in.head, in.from, addr(9))
	}
	mustRead(t, in, "data")
	eventually(t, time.Second, "the datagrams have arrived",
		func() bool { return len(a.gotDatagrams()) > 0 })
	admitted.Close(transport.CodeClosed, "enough")
}
