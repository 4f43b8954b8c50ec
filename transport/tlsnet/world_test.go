// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"crypto/tls"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/transporttest"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

const secret = "DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg="

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetwork(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.World { return newWorld() })
}

func secretTLS() (*tls.Config, bool, error) {
	c, err := quicnet.SecretTLS([][]byte{[]byte(secret)}, "test", time.Now)
	return c, false, err
}

// delay is the one-way delay between two nodes of a world.
const delay = time.Millisecond

// world is a simulated network of packets with TCP on each host.
type world struct{ *simnet.PacketNet }

func newWorld() world { return world{simnet.NewPacketNet(delay)} }

func (w world) Listen(t testing.TB, at member.Address) transport.Network {
	t.Helper()
	packets, err := w.Open(at.String())
	if err != nil {
		t.Fatalf("open a socket at %v: %v", at, err)
	}
	h := simnet.NewTCPHost(packets)
	n, err := New(transport.Config{Size: 3, TLS: secretTLS}, h, h.Dial)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return h.Host(n)
}

func (w world) Close()               {}
func (w world) Delay() time.Duration { return delay }
