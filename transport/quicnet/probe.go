// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// probeTime is how long a refusal is waited for.
const probeTime = time.Second

// probe is what is sent: QUIC drops it without a word.
var probe = []byte{0}

// PortRefused implements transport.Conn. It asks the host of the peer at the address from
// which its packets come. Only a connected socket receives the refusal.
func (c *conn) PortRefused(ctx context.Context) bool {
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
	if socket.SetDeadline(time.Now().Add(probeTime)) != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Now()) })()
	_, err = socket.Write(probe)
	for err == nil {
		// Whatever answers is alive; it may be anybody.
		_, err = socket.Read(make([]byte, 1))
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
