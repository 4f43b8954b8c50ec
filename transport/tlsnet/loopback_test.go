// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

const otherSecret = "RSlX9s8Hu81SooNo2txGhdNM/mx976RKTj4sWAVXlgw="

// open opens a network on a free port of the loopback interface.
func open(t testing.TB, edit func(*transport.Config)) (*network, member.Address) {
	t.Helper()
	cfg := transport.Config{Size: 3, Addr: "127.0.0.1:0", TLS: secretTLS}
	if edit != nil {
		edit(&cfg)
	}
	opened, err := Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	n := opened.(*network)
	t.Cleanup(func() { _ = n.Close() }) // the test may have closed it
	at, err := member.ParseAddress(n.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return n, at
}

// connected returns both ends of a connection between two networks.
func connected(t testing.TB) (dialed, accepted transport.Conn) {
	t.Helper()
	a, _ := open(t, nil)
	b, at := open(t, nil)
	dialed, err := a.Dial(t.Context(), at)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	accepted, err = b.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	return dialed, accepted
}

// TestDialsLeaveFromTheListenedAddress checks that peers see the address on which the dialer
// listens, also on a host with several.
func TestDialsLeaveFromTheListenedAddress(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "0.0.0.0"} {
		a, _ := open(t, func(c *transport.Config) { c.Addr = host + ":0" })
		b, at := open(t, nil)
		if _, err := a.Dial(t.Context(), at); err != nil {
			t.Fatalf("from %s: %v", host, err)
		}
		accepted, err := b.Accept()
		if err != nil {
			t.Fatal(err)
		}
		want := host
		if host == "0.0.0.0" {
			want = "127.0.0.1" // as the kernel chooses
		}
		if got := accepted.Remote().Host; got != want {
			t.Errorf("listening on %s: dialed from %s, want %s", host, got, want)
		}
		if accepted.ProvesRemote() {
			t.Errorf("listening on %s: a random port proves that the dialer listens there", host)
		}
	}
}

// TestEverythingAtOnce sends on all streams in both directions at the same time, much more than
// fits into the kernel's buffers, and checks what arrives.
func TestEverythingAtOnce(t *testing.T) {
	const size = 8 << 20
	a, b := connected(t)
	var work sync.WaitGroup
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	want := sha256.Sum256(data)
	send := func(to io.Writer, closeWrite func() error) {
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 100_000)
			if _, err := to.Write(rest[:n]); err != nil {
				t.Errorf("Write: %v", err)
				return
			}
			rest = rest[n:]
		}
		if err := closeWrite(); err != nil {
			t.Errorf("CloseWrite: %v", err)
		}
	}
	receive := func(from io.Reader) {
		h := sha256.New()
		if n, err := io.Copy(h, from); n != size || err != nil {
			t.Errorf("read %d bytes, %v; want %d", n, err, size)
		} else if !bytes.Equal(h.Sum(nil), want[:]) {
			t.Error("other bytes arrived")
		}
	}
	for _, c := range []transport.Conn{a, b} {
		for k := range transport.Kinds {
			work.Go(func() { send(c.Stream(k), c.Stream(k).CloseWrite) })
			work.Go(func() { receive(c.Stream(k)) })
		}
		for range 3 {
			s, err := c.OpenStream()
			if err != nil {
				t.Fatalf("OpenStream: %v", err)
			}
			work.Go(func() { send(s, s.CloseWrite) })
			work.Go(func() { receive(s) })
			work.Go(func() {
				s, err := c.AcceptStream()
				if err != nil {
					t.Errorf("AcceptStream: %v", err)
					return
				}
				defer s.Release()
				var both sync.WaitGroup
				both.Go(func() { receive(s) })
				both.Go(func() { send(s, s.CloseWrite) })
				both.Wait()
			})
		}
	}
	work.Wait()
	for _, c := range []transport.Conn{a, b} {
		c := c.(*conn)
		c.mu.Lock()
		if len(c.streams) > 0 || c.accepted > 0 {
			t.Errorf("%d streams are kept, %d accepted: want none", len(c.streams), c.accepted)
		}
		c.mu.Unlock()
	}
}

// TestTryWriteNeverBlocks checks that TryWrite does not block if the peer does not read, and that a
// full stream does not block the others.
func TestTryWriteNeverBlocks(t *testing.T) {
	a, b := connected(t)
	frame := make([]byte, 4<<10)
	taken := 0
	for range 10_000 {
		ok, err := a.Stream(transport.Custom).TryWrite(frame)
		if err != nil {
			t.Fatalf("TryWrite: %v", err)
		}
		if !ok {
			break
		}
		taken += len(frame)
	}
	if taken == 0 || taken > streamWindow {
		t.Errorf("taken %d bytes, want some and at most the window, %d", taken, streamWindow)
	}
	// A heartbeat does not wait behind these frames.
	if ok, err := a.Stream(transport.System).TryWrite([]byte("beat")); !ok || err != nil {
		t.Errorf("TryWrite of a system frame: %v, %v", ok, err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(b.Stream(transport.System), got); err != nil || string(got) != "beat" {
		t.Errorf("read %q, %v", got, err)
	}
	if rtt := a.RTT(); rtt < 0 || rtt > time.Second {
		t.Errorf("RTT %v", rtt)
	}
}

// TestCloseTellsThePeer checks that the peer gets the reason of Close, even while the bulk lane is
// being connected.
func TestCloseTellsThePeer(t *testing.T) {
	for i := range 20 {
		a, b := connected(t)
		if i%2 == 1 {
			a, b = b, a
		}
		for k := range transport.Kinds { // unread bytes must not make the peer lose the reason
			if _, err := b.Stream(k).Write(make([]byte, 10_000)); err != nil {
				t.Fatalf("Write: %v", err)
			}
		}
		a.Close(transport.CodeRefused, "not\nyou")
		_, err := io.Copy(io.Discard, b.Stream(transport.System))
		closed, ok := errors.AsType[*transport.CloseError](err)
		if !ok || !closed.Remote || closed.Code != transport.CodeRefused ||
			strings.Contains(closed.Reason, "\n") {
			t.Fatalf("the peer reads to %v, want a CloseError with the code", err)
		}
	}
}

// TestBothEndsClose checks that if both ends close at the same time, neither waits for the other.
func TestBothEndsClose(t *testing.T) {
	fastest := time.Hour
	for range 5 {
		a, b := connected(t)
		start := time.Now()
		go a.Close(transport.CodeClosed, "enough")
		b.Close(transport.CodeClosed, "enough")
		<-a.(*conn).over
		for _, c := range []transport.Conn{a, b} {
			if err := c.(*conn).network.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
		fastest = min(fastest, time.Since(start))
	}
	if fastest >= lastCloseTimeout {
		t.Errorf("the networks closed after %v", fastest)
	}
}

// TestStreamNumbersEnd checks that a connection ends when its stream numbers are used up.
func TestStreamNumbersEnd(t *testing.T) {
	for i, last := range []uint32{math.MaxUint32 - 1, math.MaxUint32} {
		a, b := connected(t)
		c := []*conn{a.(*conn), b.(*conn)}[i]
		c.mu.Lock()
		c.nextID = last
		c.mu.Unlock()
		if _, err := c.OpenStream(); err != nil {
			t.Errorf("OpenStream of number %d: %v", last, err)
		}
		if _, err := c.OpenStream(); err == nil {
			t.Error("a number is used twice")
		}
		<-c.over
	}
}

// TestKilledPeer closes the listener and the TCP connections of a peer, as if its process was
// killed.
func TestKilledPeer(t *testing.T) {
	a, b := connected(t)
	to, _ := member.ParseAddress(a.(*conn).dialed)
	if a.PortRefused(t.Context(), to) {
		t.Error("the port of a process that lives is refused")
	}
	killed := b.(*conn)
	if err := killed.network.listener.Close(); err != nil {
		t.Fatal(err)
	}
	killed.abort()
	if _, err := a.Stream(transport.System).Read(make([]byte, 1)); !errors.Is(err, errLost) {
		t.Errorf("Read: got %v, want errLost", err)
	}
	if !a.PortRefused(t.Context(), to) {
		t.Error("the port of a process that is gone is not refused")
	}
}

// TestKilledDialer is like TestKilledPeer, but kills the dialer. The accepting end probes the
// address of the member.
func TestKilledDialer(t *testing.T) {
	a, b := connected(t)
	killed := a.(*conn).network
	at, _ := member.ParseAddress(killed.listener.Addr().String())
	if b.PortRefused(t.Context(), at) {
		t.Error("the port of a process that lives is refused")
	}
	if err := killed.listener.Close(); err != nil {
		t.Fatal(err)
	}
	a.(*conn).abort()
	if _, err := b.Stream(transport.System).Read(make([]byte, 1)); !errors.Is(err, errLost) {
		t.Errorf("Read: got %v, want errLost", err)
	}
	if !b.PortRefused(t.Context(), at) {
		t.Error("the port of a process that is gone is not refused")
	}
	at.Host = "localhost"
	if !b.PortRefused(t.Context(), at) {
		t.Error("the port of a name is not refused")
	}
	at.Host = "127.0.0.2" // refuses the port too, but the connection came from another host
	if b.PortRefused(t.Context(), at) {
		t.Error("the refusal of another host counts")
	}
}

func TestOtherSecretIsRefused(t *testing.T) {
	failed := make(chan error, 1)
	a, _ := open(t, func(c *transport.Config) {
		c.TLS = func() (*tls.Config, bool, error) {
			own, err := quicnet.SecretTLS([][]byte{[]byte(otherSecret)}, "test", time.Now)
			return own, false, err
		}
	})
	_, at := open(t, func(c *transport.Config) {
		c.HandshakeFailed = func(_ member.Address, err error) { failed <- err }
	})
	if _, err := a.Dial(t.Context(), at); !errors.Is(err, transport.ErrCertificate) {
		t.Errorf("Dial: got %v, want ErrCertificate", err)
	}
	if err := <-failed; !errors.Is(err, transport.ErrCertificate) {
		t.Errorf("reported is %v, want ErrCertificate", err)
	}
}

// TestDialErrors dials addresses where no node listens.
func TestDialErrors(t *testing.T) {
	n, at := open(t, nil)
	cfg := n.cfg
	cfg.Addr = at.String()
	if _, err := Open(cfg); !errors.Is(err, transport.ErrAddressInUse) {
		t.Errorf("Open on an address in use: got %v", err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = c.Close()
		}
	}()
	to, _ := member.ParseAddress(plain.Addr().String())
	if _, err := n.Dial(t.Context(), to); !errors.Is(err, transport.ErrNotNode) {
		t.Errorf("Dial of a web server: got %v, want ErrNotNode", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	to, _ = member.ParseAddress(mute.Addr().String())
	if _, err := n.Dial(ctx, to); err == nil {
		t.Error("Dial of a process that does not answer succeeded")
	}
}
