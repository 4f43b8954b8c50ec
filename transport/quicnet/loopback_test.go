// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// node is a node on a real socket, with its handler.
type node struct {
	*mesh.Mesh
	self    member.Identity
	socket  net.PacketConn
	network *network
	frames  [transport.Kinds]chan []byte
	reports chan mesh.Report
	lost    chan member.Identity

	serve func(head []byte, s mesh.BulkStream) // nil closes streams
}

func secured(t testing.TB) *tls.Config {
	t.Helper()
	c, err := SecretTLS([][]byte{[]byte(secret)}, "test", time.Now)
	if err != nil {
		t.Fatalf("SecretTLS: %v", err)
	}
	return c
}

// listen starts a node on a free port of the loopback interface.
func listen(t testing.TB, tls *tls.Config) *node {
	t.Helper()
	socket, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	return start(t, socket, tls, 1)
}

func start(t testing.TB, socket net.PacketConn, tls *tls.Config, incarnation uint64) *node {
	t.Helper()
	at, err := member.ParseAddress(socket.LocalAddr().String())
	if err != nil {
		t.Fatalf("ParseAddress: %v", err)
	}
	cfg := Config{Conn: socket, TLS: tls, ResetKey: [32]byte{1}}
	return startWith(t, cfg, at, incarnation)
}

// testKey is the key of the store of every node.
var testKey = storekey.Key{1}

// startWith starts a node with the settings that all nodes of these tests share.
func startWith(t testing.TB, cfg Config, at member.Address, incarnation uint64) *node {
	t.Helper()
	return startHandler(t, cfg, at, incarnation, func(n *node) mesh.Handler { return n })
}

// startHandler is like startWith, but with another handler.
func startHandler(
	t testing.TB, cfg Config, at member.Address, incarnation uint64,
	handler func(*node) mesh.Handler,
) *node {
	t.Helper()
	n := &node{
		self: member.Identity{
			Address: at, StoreID: testKey.StoreID(), Incarnation: incarnation,
		},
		socket:  cfg.Conn,
		reports: make(chan mesh.Report, 100),
		lost:    make(chan member.Identity, 100),
	}
	for k := range n.frames {
		n.frames[k] = make(chan []byte, 1000)
	}
	var err error
	n.Mesh, err = mesh.New(mesh.Config{
		Encode: wire.Encode,
		Decode: wire.Decode,
		Key:    func(member.StoreID) storekey.Key { return testKey },
		Size:   3,
		Report: func(r mesh.Report) { n.reports <- r },
	}, func(c transport.Config) (transport.Network, error) {
		cfg.Config = c
		opened, err := New(cfg)
		n.network, _ = opened.(*network)
		return opened, err
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := n.Start(handler(n)); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func (n *node) Greet() message.Message {
	return message.Message{From: n.self, Body: message.Greet{
		Cluster: "test",
		Size:    3,
		Timings: message.Timings{
			HeartbeatInterval: 100 * time.Millisecond,
			HeartbeatTimeout:  400 * time.Millisecond,
			LeaderTimeout:     time.Second,
			LeaseTimeout:      time.Second,
			TTLTimeout:        10 * time.Second,
			RetryInterval:     500 * time.Millisecond,
		},
	}}
}

func (n *node) Greeted(message.Message)            {}
func (n *node) Needs(member.Address) bool          { return true }
func (n *node) Ask(member.Address, member.StoreID) {}

func (n *node) StoreOf(member.Address) member.StoreID { return testKey.StoreID() }

func (n *node) System(_ member.Identity, frame []byte) error {
	n.frames[transport.System] <- frame
	return nil
}

func (n *node) Custom(k transport.Kind, _ member.Identity, frame []byte) error {
	n.frames[k] <- slices.Clone(frame)
	return nil
}

func (n *node) Stream(_ member.Identity, head []byte, s mesh.BulkStream) {
	if n.serve != nil {
		n.serve(head, s)
	}
}

func (n *node) Datagram(member.Identity, []byte) {}

func (n *node) Lost(peer member.Identity) { n.lost <- peer }

// next returns the next value of a channel, which must arrive soon.
func next[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func TestLoopback(t *testing.T) {
	a, b := listen(t, secured(t)), listen(t, secured(t))
	for i := range 10 {
		want := fmt.Sprint(i)
		a.Notify(b.self.Address, []byte(want))
		if got := next(t, b.frames[transport.System], "frame"); string(got) != want {
			t.Errorf("system frame: got %q, want %q", got, want)
		}
		if err := b.Send(t.Context(), a.self.Address, []byte(want)); err != nil {
			t.Fatalf("Send: %v", err)
		}
		if got := next(t, a.frames[transport.Custom], "frame"); string(got) != want {
			t.Errorf("custom frame: got %q, want %q", got, want)
		}
	}
	if p := a.Peers()[0]; !p.Connected || !p.Dialed || p.RTT <= 0 || p.Identity != b.self {
		t.Errorf("peer of the dialer: %+v", p)
	}
}

func (n *node) nextReport(t *testing.T, what mesh.ReportKind) error {
	t.Helper()
	for {
		if r := next(t, n.reports, fmt.Sprint("report ", what)); r.Kind == what {
			return r.Err
		}
	}
}

func TestOtherSecretIsRefused(t *testing.T) {
	other, err := SecretTLS([][]byte{[]byte(otherSecret)}, "test", time.Now)
	if err != nil {
		t.Fatalf("SecretTLS: %v", err)
	}
	otherName, err := SecretTLS([][]byte{[]byte(secret)}, "another cluster", time.Now)
	if err != nil {
		t.Fatalf("SecretTLS: %v", err)
	}
	insecure, err := InsecureTLS(time.Now)
	if err != nil {
		t.Fatalf("InsecureTLS: %v", err)
	}
	b := listen(t, secured(t))
	for name, tls := range map[string]*tls.Config{
		"other secret": other, "other cluster": otherName, "no secret": insecure,
	} {
		a := listen(t, tls)
		a.Notify(b.self.Address, []byte("let me in"))
		a.awaitReport(t, mesh.ReportUnreachable, name, transport.ErrCertificate)
		if name != "no secret" { // the node accepts every peer, but has no certificate
			b.Notify(a.self.Address, []byte("come in"))
			b.awaitReport(t, mesh.ReportUnreachable, name, transport.ErrCertificate)
		}
		if got := a.Stats().Connections + b.Stats().Connections; got != 0 {
			t.Errorf("%s: %d connections", name, got)
		}
		if got := a.Stats().Handshakes[mesh.ResultCertificate.String()]; got == 0 {
			t.Errorf("%s: the dialer counted no refused certificate: %v", name, a.Stats().Handshakes)
		}
	}
}

// TestTheDialedTellsOfOtherSecrets checks that the dialed node reports the address of a
// dialer with a different secret.
func TestTheDialedTellsOfOtherSecrets(t *testing.T) {
	other, err := SecretTLS([][]byte{[]byte(otherSecret)}, "test", time.Now)
	if err != nil {
		t.Fatalf("SecretTLS: %v", err)
	}
	insecure, err := InsecureTLS(time.Now)
	if err != nil {
		t.Fatalf("InsecureTLS: %v", err)
	}
	for name, tls := range map[string]*tls.Config{
		"the dialer refuses": other, "the dialed refuses": insecure,
	} {
		a, b := listen(t, tls), listen(t, secured(t))
		a.Notify(b.self.Address, []byte("let me in"))
		for told := false; !told; {
			r := next(t, b.reports, name)
			if told = r.Kind == mesh.ReportHandshake; !told {
				continue
			}
			if r.Peer != a.self.Address || !errors.Is(r.Err, transport.ErrCertificate) {
				t.Errorf("%s: reported %v, %v; want %v, ErrCertificate", name, r.Peer, r.Err, a.self.Address)
			}
		}
		if got := b.Stats().Handshakes; got[mesh.ResultCertificate.String()] == 0 {
			t.Errorf("%s: handshakes %v, want a certificate refused", name, got)
		}
	}
}

// TestWhyACertificateDoesNotFit checks the reported reason for a certificate that is not accepted:
// the secret, the clock, or a refusal by the other node.
func TestWhyACertificateDoesNotFit(t *testing.T) {
	lastWeek := func() time.Time { return time.Now().Add(-7 * 24 * time.Hour) }
	for _, c := range []struct {
		name   string
		secret string
		clock  func() time.Time
		want   string // reported by the dialer
	}{
		{"another secret", otherSecret, time.Now, "is from another authority"},
		{"another clock", secret, lastWeek, "is valid only from"},
	} {
		tls, err := SecretTLS([][]byte{[]byte(c.secret)}, "test", c.clock)
		if err != nil {
			t.Fatalf("SecretTLS: %v", err)
		}
		a, b := listen(t, secured(t)), listen(t, tls)
		a.Notify(b.self.Address, []byte("hello"))
		err = a.nextReport(t, mesh.ReportUnreachable)
		if !errors.Is(err, transport.ErrCertificate) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the dialer reports %v, want %q", c.name, err, c.want)
		}
		const refused = "the other node refused the certificate of this one"
		if err := b.nextReport(t, mesh.ReportHandshake); !strings.Contains(err.Error(), refused) {
			t.Errorf("%s: the dialed node reports %v, want %q", c.name, err, refused)
		}
	}
}

func (n *node) awaitReport(t *testing.T, what mesh.ReportKind, name string, want error) {
	t.Helper()
	for {
		r := next(t, n.reports, name+": "+want.Error())
		if r.Kind == what && errors.Is(r.Err, want) {
			return
		}
	}
}

func TestInsecureNodesConnect(t *testing.T) {
	var nodes []*node
	for range 2 {
		c, err := InsecureTLS(time.Now)
		if err != nil {
			t.Fatalf("InsecureTLS: %v", err)
		}
		nodes = append(nodes, listen(t, c))
	}
	nodes[0].Notify(nodes[1].self.Address, []byte("hello"))
	next(t, nodes[1].frames[transport.System], "frame")
}

// TestOneListenedAddressProvesTheRemote checks that the source of a connection proves nothing to a
// socket that may dial from another address than the one at which the connection arrived.
func TestOneListenedAddressProvesTheRemote(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "0.0.0.0": false, "": false} {
		socket, err := Listen(host + ":0")
		if err != nil {
			t.Fatal(err)
		}
		n, err := newNetwork(Config{
			Config: transport.Config{Size: 1}, Conn: socket, TLS: secured(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		at := member.Address{Host: "127.0.0.1", Port: uint16(socket.LocalAddr().(*net.UDPAddr).Port)}
		if _, err = n.Dial(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		accepted, err := n.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := accepted.ProvesRemote(); got != want || accepted.Remote() != at {
			t.Errorf("listening on %q: %v proves itself: %v, want %v", host, accepted.Remote(), got, want)
		}
		_ = n.Close()
	}
}

func TestListenErrors(t *testing.T) {
	socket, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer socket.Close()
	_, err = Listen(socket.LocalAddr().String())
	if !errors.Is(err, transport.ErrAddressInUse) {
		t.Errorf("Listen on a port in use: got %v, want ErrAddressInUse", err)
	}
	for _, addr := range []string{"192.0.2.1:0", "127.0.0.1", "127.0.0.1:99999"} {
		if c, err := Listen(addr); err == nil {
			t.Errorf("Listen on %q: got %v, want an error", addr, c.LocalAddr())
		}
	}
}

// TestRestartIsNoticedByReset kills a node and restarts it immediately. The new run answers
// packets of the old connection with a reset.
func TestRestartIsNoticedByReset(t *testing.T) {
	a, b := listen(t, secured(t)), listen(t, secured(t))
	a.Notify(b.self.Address, []byte("hello"))
	next(t, b.frames[transport.System], "frame")

	kill(t, b)
	socket, err := Listen(b.self.Address.String())
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	b = start(t, socket, secured(t), 2)
	begin := time.Now()
	a.Notify(b.self.Address, make([]byte, wire.MinKeepAliveBytes))
	lost := a.nextReport(t, mesh.ReportLost)
	t.Logf("noticed after %v: %v", time.Since(begin), lost)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the restart was noticed after %v", took)
	}
	a.Notify(b.self.Address, []byte("hello again"))
	if got := next(t, b.frames[transport.System], "frame"); string(got) != "hello again" {
		t.Errorf("the new run got %q", got)
	}
}

func kill(t *testing.T, n *node) {
	t.Helper()
	if err := n.socket.Close(); err != nil {
		t.Fatalf("close socket: %v", err)
	}
	if err := n.nextReport(t, mesh.ReportFailed); err == nil {
		t.Error("the loss of the socket is reported without an error")
	}
}

// measuredSocket is a real socket that records its largest packet.
type measuredSocket struct {
	net.PacketConn // without the methods that let QUIC write several packets in one call
	udp            *net.UDPConn
	largest        atomic.Int64
}

func (s *measuredSocket) WriteTo(b []byte, to net.Addr) (int, error) {
	s.largest.Store(max(s.largest.Load(), int64(len(b))))
	return s.PacketConn.WriteTo(b, to)
}

// QUIC uses SyscallConn to keep the kernel from fragmenting packets.
func (s *measuredSocket) SyscallConn() (syscall.RawConn, error) { return s.udp.SyscallConn() }
func (s *measuredSocket) SetReadBuffer(n int) error             { return s.udp.SetReadBuffer(n) }
func (s *measuredSocket) SetWriteBuffer(n int) error            { return s.udp.SetWriteBuffer(n) }

// TestPacketsGrow checks that packets grow to the size that the path carries, but not beyond the
// size of quic-go's buffers.
func TestPacketsGrow(t *testing.T) {
	udp, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	socket := &measuredSocket{PacketConn: udp, udp: udp}
	a, b := start(t, socket, secured(t), 1), listen(t, secured(t))
	for begin := time.Now(); a.packetSize() < 1400; {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("packets have %d bytes, want 1400 or more", a.packetSize())
		}
		if err := a.Send(t.Context(), b.self.Address, make([]byte, 100<<10)); err != nil {
			t.Fatalf("Send: %v", err)
		}
		next(t, b.frames[transport.Custom], "frame")
	}
	if got := socket.largest.Load(); got < int64(a.packetSize()) || got > 1452 {
		t.Errorf("the largest packet has %d bytes, want %d to 1452", got, a.packetSize())
	}
}

// packetSize returns the size of the packets of a node's only connection, or 0 if it has none.
func (n *node) packetSize() (size int) {
	n.network.paths.Range(func(_, p any) bool {
		size = p.(*path).packetSize()
		return true
	})
	return size
}
