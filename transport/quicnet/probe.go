// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/athena-go/athena/member"
)

// probeTimeout bounds the wait for a refusal.
const probeTimeout = time.Second

// probe is the packet to send. QUIC drops it without an answer.
var probe = []byte{0}

// PortRefused implements transport.Conn. It sends a packet to the address that the peer's
// packets come from. It uses a separate socket, because only a connected socket is notified
// of the refusal.
func (c *conn) PortRefused(ctx context.Context, _ member.Address) bool {
	at, ok := c.quic.RemoteAddr().(*net.UDPAddr)
	if !ok || !c.kernel {
		return false
	}
	from := &net.UDPAddr{}
	if local, ok := c.quic.LocalAddr().(*net.UDPAddr); ok {
		from.IP, from.Zone = local.IP, local.Zone
	}
	socket, err := net.DialUDP("udp", from, at)
	if err != nil {
		return false
	}
	defer socket.Close()
	if socket.SetDeadline(time.Now().Add(probeTimeout)) != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Now()) })()
	_, err = socket.Write(probe)
	for err == nil {
		// A packet that arrives proves nothing: any host could have sent it.
		_, err = socket.Read(make([]byte, 1))
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
