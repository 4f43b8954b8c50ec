// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/transporttest"
	"github.com/athena-go/athena/transport"
)

// Secrets in the format of "athena secret new".
const (
	secret      = "DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg="
	otherSecret = "RSlX9s8Hu81SooNo2txGhdNM/mx976RKTj4sWAVXlgw="
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetwork(t *testing.T) {
	transporttest.Run(t, func(t testing.TB) transporttest.World { return newWorld(t) })
}

const delay = time.Millisecond // delay of packets from one node to another

// world is a simulated packet network for one test.
type world struct {
	*simnet.PacketNet
	testing.TB
}

func newWorld(t testing.TB) *world {
	return &world{PacketNet: simnet.NewPacketNet(delay), TB: t}
}

// brokenSocket is a socket that can fail to send.
type brokenSocket struct {
	simnet.Socket
	failing atomic.Bool
}

func (s *brokenSocket) WriteTo(b []byte, to net.Addr) (int, error) {
	if s.failing.Load() {
		return 0, syscall.EPERM
	}
	return s.PacketConn.WriteTo(b, to)
}

func (w *world) listen(at member.Address) net.PacketConn {
	p, err := w.Open(at.String())
	if err != nil {
		w.Fatalf("open a socket at %v: %v", at, err)
	}
	return p
}

func (w *world) config(at member.Address) Config {
	tls, err := SecretTLS([][]byte{[]byte(secret)}, "test", time.Now)
	if err != nil {
		w.Fatalf("SecretTLS: %v", err)
	}
	// The key stays the same across restarts.
	key := [32]byte{1, 2, 3}
	copy(key[3:], at.String())
	return Config{
		Config:   transport.Config{Size: 3},
		Conn:     w.listen(at),
		TLS:      tls,
		ResetKey: key,
	}
}

func (w *world) Listen(t testing.TB, at member.Address) transport.Network {
	t.Helper()
	n, err := newNetwork(w.config(at))
	if err != nil {
		t.Fatalf("listen on %v: %v", at, err)
	}
	return n
}

func (w *world) Close()               {}
func (w *world) Delay() time.Duration { return delay }
