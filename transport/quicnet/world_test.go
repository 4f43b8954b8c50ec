// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/transporttest"
)

const secret = "0123456789abcdef"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetwork(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.World { return newWorld(t) })
}

const delay = time.Millisecond // from one node to another

// world is a simulated network of packets.
type world struct {
	simnet.PerfectRouter
	testing.TB

	mu    sync.Mutex
	cut   map[[2]string]bool
	nodes map[member.Address]*packets
}

func newWorld(t testing.TB) *world {
	return &world{
		TB:    t,
		cut:   make(map[[2]string]bool),
		nodes: make(map[member.Address]*packets),
	}
}

// packets is the socket of one node.
type packets struct {
	*simnet.SimConn
	link *simnet.SimulatedLink
	once sync.Once
}

func (p *packets) Close() (err error) {
	p.once.Do(func() {
		err = p.SimConn.Close()
		_ = p.link.Close() // it always returns nil
	})
	return err
}

// brokenSocket is one that can fail to send.
type brokenSocket struct {
	*packets
	failing atomic.Bool
}

func (s *brokenSocket) WriteTo(b []byte, to net.Addr) (int, error) {
	if s.failing.Load() {
		return 0, syscall.EPERM
	}
	return s.packets.WriteTo(b, to)
}

// listen opens a simulated socket.
func (w *world) listen(at member.Address) *packets {
	addr := &net.UDPAddr{IP: net.ParseIP(at.Host).To4(), Port: int(at.Port)}
	link := &simnet.SimulatedLink{Latency: delay, UploadPacket: w}
	p := &packets{SimConn: simnet.NewBlockingSimConn(addr, link), link: link}
	w.AddNode(addr, link)
	link.Start()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[at] = p
	return p
}

func (w *world) config(at member.Address) Config {
	tls, err := SecretTLS([][]byte{[]byte(secret)}, "test", time.Now)
	if err != nil {
		w.Fatalf("SecretTLS: %v", err)
	}
	// The key stays the same over restarts.
	key := [32]byte{1, 2, 3}
	copy(key[3:], at.String())
	return Config{
		Config:   transport.Config{Size: 3, Encode: encodeNothing, Decode: decodeNothing},
		Conn:     w.listen(at),
		TLS:      tls,
		ResetKey: key,
	}
}

func encodeNothing(message.Message) ([]byte, error) { return nil, nil }
func decodeNothing([]byte) (message.Message, error) { return message.Message{}, nil }

func (w *world) Listen(t testing.TB, at member.Address) transport.Network {
	t.Helper()
	n, err := newNetwork(w.config(at))
	if err != nil {
		t.Fatalf("listen on %v: %v", at, err)
	}
	return n
}

func (w *world) Cut(from, to member.Address)  { w.setCut(from, to, true) }
func (w *world) Heal(from, to member.Address) { w.setCut(from, to, false) }

func (w *world) setCut(from, to member.Address, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[[2]string{from.String(), to.String()}] = cut
}

// SendPacket implements simnet.Router.
func (w *world) SendPacket(p simnet.Packet) error {
	w.mu.Lock()
	cut := w.cut[[2]string{p.From.String(), p.To.String()}]
	w.mu.Unlock()
	if cut {
		return nil
	}
	_ = w.PerfectRouter.SendPacket(p) // nobody learns that there is no such node
	return nil
}

func (w *world) Kill(at member.Address) {
	w.mu.Lock()
	p := w.nodes[at]
	w.mu.Unlock()
	if err := p.Close(); err != nil {
		w.Errorf("kill %v: %v", at, err)
	}
}

func (w *world) Close()               {}
func (w *world) Delay() time.Duration { return delay }
