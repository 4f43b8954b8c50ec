// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/internal/transportkinds"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// beats makes two nodes send each other heartbeats until the function stop is called, which checks
// that no heartbeat was late or missing.
func beats(t *testing.T, a, b *node) (stop func()) {
	t.Helper()
	const interval, late = 100 * time.Millisecond, 300 * time.Millisecond
	quit := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(interval):
			}
			a.Notify(b.self.Address, []byte("forth"))
			b.Notify(a.self.Address, []byte("back"))
		}
	})
	var most [2]time.Duration
	for i, n := range []*node{a, b} {
		work.Go(func() {
			for last := time.Now(); ; last = time.Now() {
				select {
				case <-n.frames[transport.System]:
					most[i] = max(most[i], time.Since(last))
				case <-quit:
					most[i] = max(most[i], time.Since(last))
					return
				}
			}
		})
	}
	return func() {
		t.Helper()
		close(quit)
		work.Wait()
		if worst := max(most[0], most[1]); worst > late {
			t.Errorf("no heartbeat for %v, want at most %v", worst, late)
		}
	}
}

func udp(at member.Address) net.Addr {
	return &net.UDPAddr{IP: net.ParseIP(at.Host).To4(), Port: int(at.Port)}
}

// mute is a socket that sends only the first packet of each handshake and delivers no packets. It
// counts the packets that it would have delivered.
type mute struct {
	simnet.Socket
	mu               sync.Mutex
	begun            map[string]bool
	retries, answers *atomic.Int64
	answered         map[string]bool
}

func (s *mute) WriteTo(b []byte, to net.Addr) (int, error) {
	id := string(b[6 : 6+b[5]]) // connection ID of the dialer
	s.mu.Lock()
	first := !s.begun[id]
	s.begun[id] = true
	s.mu.Unlock()
	if !first {
		return len(b), nil
	}
	return s.PacketConn.WriteTo(b, to)
}

func (s *mute) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := s.PacketConn.ReadFrom(p)
		if err != nil {
			return n, from, err
		}
		const long, kind, retry = 0x80, 0x30, 0x30
		switch {
		case n < 7 || p[0]&long == 0:
		case p[0]&kind == retry:
			s.retries.Add(1)
		default:
			if id := string(p[6 : 6+p[5]]); !s.answered[id] {
				s.answered[id] = true
				s.answers.Add(1)
			}
		}
	}
}

// TestHalfOpenHandshakes starts 10,000 handshakes from a hundred forged addresses, which never
// answer. It checks that connected nodes are not disturbed, that a member can still connect, and
// that only few handshakes are kept. Time is virtual, so the test does not measure the CPU time of
// the flood.
func TestHalfOpenHandshakes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		stop := beats(t, a, b)
		var retries, answers atomic.Int64
		flooded := make(chan struct{})
		go func() {
			defer close(flooded)
			w.flood(t, addrA, 100, 100, &retries, &answers)
		}()
		time.Sleep(2 * time.Second)
		c := w.join(t, member.Address{Host: "10.0.0.3", Port: 7000}, 1, nil)
		for begin := time.Now(); a.Stats().Connections < 2; time.Sleep(50 * time.Millisecond) {
			c.Notify(addrA, []byte("let me in"))
			if time.Since(begin) > time.Second {
				t.Errorf("a member cannot connect during the flood: %v", c.Stats().Handshakes)
				break
			}
		}
		<-flooded
		stop()
		// Size is 3. A handshake is kept for handshakeTimeout, and the flood takes 10 s.
		const kept = unprovenPerMember*3 + extraUnproven
		if got := answers.Load(); got < kept || got > 5*kept {
			t.Errorf("%d handshakes were answered, want %d to %d", got, kept, 5*kept)
		}
		if got := retries.Load(); got < 9000 {
			t.Errorf("%d dialers had to prove their address, want most of 10000", got)
		}
	})
}

// flood starts handshakes with a node from many addresses, one address after another, and
// never answers.
func (w *world) flood(
	t *testing.T, at member.Address, hosts, each int, retries, answers *atomic.Int64,
) {
	to := udp(at)
	client := &tls.Config{
		InsecureSkipVerify: true,
		NextProtos:         []string{transportkinds.QUIC.ALPN},
		CurvePreferences:   []tls.CurveID{tls.CurveP256}, // so that the first flight fits into one packet
	}
	var dialers []*quic.Transport
	for i := range hosts {
		host := member.Address{Host: fmt.Sprintf("10.1.0.%d", i+1), Port: 9}
		s := &mute{
			Socket:  simnet.Socket{PacketConn: w.listen(host)},
			begun:   map[string]bool{},
			retries: retries, answers: answers, answered: map[string]bool{},
		}
		d := &quic.Transport{Conn: s}
		dialers = append(dialers, d)
		defer func() { _ = d.Close(); _ = s.Close() }()
	}
	var work sync.WaitGroup
	for range each {
		for _, d := range dialers {
			work.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := d.Dial(ctx, to, client, nil); err == nil {
					t.Error("a dialer that receives nothing is connected")
				}
			})
			time.Sleep(time.Millisecond)
		}
	}
	work.Wait()
}

// TestNoise sends packets that are not QUIC or only resemble it. It checks that no node is
// disturbed, and that the answers are smaller than the noise.
func TestNoise(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, addrA, 1, nil), w.join(t, addrB, 1, nil)
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		stop := beats(t, a, b)
		stranger := w.listen(member.Address{Host: "10.0.0.9", Port: 7000})
		defer stranger.Close()
		var back atomic.Int64
		go func() {
			for p := make([]byte, 2000); ; {
				n, _, err := stranger.ReadFrom(p)
				if err != nil {
					return
				}
				back.Add(int64(n))
			}
		}()
		random := rand.New(rand.NewPCG(1, 2))
		to := udp(addrA)
		sent := 0
		for i := range 20_000 {
			p := noise(random, i%5)
			sent += len(p)
			if _, err := stranger.WriteTo(p, to); err != nil {
				t.Fatal(err)
			}
			if i%100 == 99 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		time.Sleep(2 * handshakeTimeout)
		stop()
		if got := back.Load(); got > int64(sent) {
			t.Errorf("%d bytes answered %d, want no more", got, sent)
		}
		established := mesh.ResultEstablished.String()
		if got := a.Stats(); got.Connections != 1 || got.Handshakes[established] != 1 ||
			len(a.Peers()) != 1 {
			t.Errorf("%+v, %d peers; want the one connection", got, len(a.Peers()))
		}
	})
}

// noise returns a packet of random bytes that starts like one of several kinds of packets.
func noise(r *rand.Rand, shape int) []byte {
	p := make([]byte, 1+r.IntN(1400))
	if shape >= 2 {
		p = make([]byte, 1200)
	}
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	switch shape {
	case 1: // a packet of an existing connection
		p[0] = p[0]&0x3f | 0x40
	case 2: // a packet of an unknown version
		p[0] |= 0xc0
	case 3: // an Initial packet of QUIC 1
		p[0] = 0xc0
		binary.BigEndian.PutUint32(p[1:], 1)
		p[5], p[14] = 8, 8 // lengths of the connection IDs
		p[23] = 0          // no token
		binary.BigEndian.PutUint16(p[24:], 0x4000|uint16(len(p)-26))
	case 4: // an Initial packet with a token
		p[0] = 0xc0
		binary.BigEndian.PutUint32(p[1:], 1)
		p[5], p[14], p[23] = 8, 8, 40
	}
	return p
}

// cache stores the session tickets of a server.
type cache struct {
	tls.ClientSessionCache
	kept atomic.Int64
}

func (c *cache) Put(key string, s *tls.ClientSessionState) {
	c.kept.Add(1)
	c.ClientSessionCache.Put(key, s)
}

// TestNothingIsResumed connects twice as a member that tries to resume its session, and
// checks that the certificates are verified each time.
func TestNothingIsResumed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.join(t, addrA, 1, nil)
		cfg := w.config(addrB)
		defer cfg.Conn.Close()
		sessions := &cache{ClientSessionCache: tls.NewLRUClientSessionCache(9)}
		cfg.TLS.ClientSessionCache, cfg.TLS.NextProtos = sessions, []string{transportkinds.QUIC.ALPN}
		d := &quic.Transport{Conn: cfg.Conn}
		defer d.Close()
		for range 2 {
			conn, err := d.DialEarly(t.Context(), udp(addrA), cfg.TLS, nil)
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			<-conn.HandshakeComplete()
			time.Sleep(time.Second)
			if s := conn.ConnectionState(); s.Used0RTT || s.TLS.DidResume {
				t.Errorf("0-RTT %v, resumed %v; want neither", s.Used0RTT, s.TLS.DidResume)
			}
			_ = conn.CloseWithError(0, "")
		}
		if got := sessions.kept.Load(); got != 0 {
			t.Errorf("%d tickets arrived, want none", got)
		}
	})
}

// TestAnotherProgramIsNoNode checks that a program that speaks another protocol over QUIC is not
// taken for a node.
func TestAnotherProgramIsNoNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cfg := w.config(addrB)
		defer cfg.Conn.Close()
		cfg.TLS.NextProtos = []string{"h3"}
		other := &quic.Transport{Conn: cfg.Conn}
		defer other.Close()
		if _, err := other.Listen(cfg.TLS, nil); err != nil {
			t.Fatalf("Listen: %v", err)
		}
		a := w.join(t, addrA, 1, nil)
		a.Notify(addrB, []byte("hello"))
		if err := a.nextReport(t, mesh.ReportUnreachable); !errors.Is(err, transport.ErrNotNode) {
			t.Errorf("got %v, want ErrNotNode", err)
		}
		if _, err := other.Dial(t.Context(), udp(addrA), cfg.TLS, nil); err == nil {
			t.Error("another program is accepted")
		}
	})
}

// TestWhatAPeerMayTake checks the limits of one connection.
func TestWhatAPeerMayTake(t *testing.T) {
	c := quicConfig()
	if c.Allow0RTT || c.MaxIncomingUniStreams > 64 || c.MaxIncomingStreams > 16 ||
		c.MaxStreamReceiveWindow > 256<<10 || c.MaxConnectionReceiveWindow > 14<<20 {
		t.Errorf("got %+v, want no 0-RTT and limits that are small", c)
	}
	if c.HandshakeIdleTimeout < 2*time.Second || c.HandshakeIdleTimeout > 5*time.Second {
		t.Errorf("a handshake may be silent for %v, want 2 s to 5 s", c.HandshakeIdleTimeout)
	}
}

// recorder is a socket that records what it sends.
type recorder struct {
	simnet.Socket
	mu   sync.Mutex
	sent [][]byte
}

func (s *recorder) WriteTo(b []byte, to net.Addr) (int, error) {
	s.mu.Lock()
	s.sent = append(s.sent, slices.Clone(b))
	s.mu.Unlock()
	return s.PacketConn.WriteTo(b, to)
}

// TestReplayedPackets replays all packets of a connection to the same run of the receiver and to
// its next run. It sends them from the original address and from a different one.
func TestReplayedPackets(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, from := range []member.Address{addrA, {Host: "10.0.0.9", Port: 7000}} {
			t.Run(fmt.Sprintf("from %v restarted %v", from, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testReplayedPackets(t, from, restart) })
			})
		}
	}
}

func testReplayedPackets(t *testing.T, from member.Address, restart bool) {
	w := newWorld(t)
	tape := &recorder{}
	a := w.join(t, addrA, 1, func(c *Config) { tape.PacketConn, c.Conn = c.Conn, tape })
	b := w.join(t, addrB, 1, nil)
	a.Notify(addrB, []byte("pay me"))
	next(t, b.frames[transport.System], "frame")
	if err := a.Send(t.Context(), addrB, []byte("again")); err != nil {
		t.Fatalf("Send: %v", err)
	}
	next(t, b.frames[transport.Custom], "frame")
	time.Sleep(time.Second)
	w.Kill(addrA)
	if restart {
		w.Kill(addrB)
		b = w.join(t, addrB, 2, nil)
	}
	before := b.Stats()
	stranger := w.listen(from)
	defer stranger.Close()
	to := udp(addrB)
	for _, p := range tape.sent {
		if _, err := stranger.WriteTo(p, to); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * delay)
	}
	time.Sleep(10 * time.Second)
	after := b.Stats()
	if after.Received != before.Received || after.Handshakes[mesh.ResultEstablished.String()] !=
		before.Handshakes[mesh.ResultEstablished.String()] {
		t.Errorf("after %d replayed packets: %+v, before %+v", len(tape.sent), after, before)
	}
	for k := range b.frames {
		if len(b.frames[k]) > 0 {
			t.Errorf("frame %q arrived again", <-b.frames[k])
		}
	}
}

// TestReplayedGreet sends the recorded greeting of a connected member from another host, whose
// certificate does not match.
func TestReplayedGreet(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pki := simnet.NewAuthority(t)
		thief := member.Address{Host: "10.0.0.9", Port: 7000}
		open := func(at member.Address) *network {
			cfg := w.config(at)
			named(pki, pki.Issue(at.Host, nil))(&cfg)
			n, err := newNetwork(cfg)
			if err != nil {
				t.Fatalf("newNetwork: %v", err)
			}
			t.Cleanup(func() { _ = n.Close() })
			return n
		}
		// This network takes over the address of b and records the greeting that a sends.
		first := open(addrB)
		a := w.join(t, addrA, 1, named(pki, pki.Issue(addrA.Host, nil)))
		a.Notify(addrB, []byte("hello"))
		conn, err := first.Accept()
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		greet := make([]byte, 4096)
		n, err := conn.Stream(transport.System).Read(greet)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		greet = greet[:n]
		conn.Close(transport.CodeClosed, "enough")
		_ = first.Close()

		b := w.join(t, addrB, 1, named(pki, pki.Issue(addrB.Host, nil)))
		// One frame may be lost with the connection that was just closed.
		for tries := 0; len(b.frames[transport.System]) == 0 && tries < 100; tries++ {
			a.Notify(addrB, []byte("hello"))
			time.Sleep(50 * time.Millisecond)
		}
		next(t, b.frames[transport.System], "frame")
		stop := beats(t, a, b)
		conn, err = open(thief).Dial(t.Context(), addrB)
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		if _, err := conn.Stream(transport.System).Write(greet); err != nil {
			t.Fatalf("Write: %v", err)
		}
		err = b.nextReport(t, mesh.ReportHandshake)
		checkRefusal(t, "b", err, "it is for 10.0.0.9, not for 10.0.0.1")
		time.Sleep(2 * time.Second)
		stop()
		if p := b.Peers(); len(p) != 1 || p[0].Identity != a.self || !p[0].Connected {
			t.Errorf("peers %+v, want a alone, connected", p)
		}
	})
}
