// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

const (
	// maxJoinedBytes bounds what the kernel joins: it is the largest UDP payload, rounded up.
	maxJoinedBytes = 64 << 10
	// controlBytes has room for the packet info of IPv4 and IPv6, ECN and the segment size.
	// quic-go's buffers have this size too.
	controlBytes = 128
)

// joinedConn is a UDP socket for which the kernel joins consecutive packets of one sender
// (UDP_GRO). One system call, and one pass through the kernel, then returns up to 64 packets, which
// ReadBatch separates. Without this, a fast receiver spends a quarter of its CPU time on reading
// packets.
type joinedConn struct {
	*net.UDPConn
	buffer  []byte
	control []byte
	from    netip.AddrPort
	addr    *net.UDPAddr // from, for quic-go
	rest    []byte       // the packets in buffer that ReadBatch has not returned
	size    int          // size of each packet, except that the last one may be shorter
	info    []byte       // their control messages, in control
}

var _ quic.OOBCapablePacketConn = (*joinedConn)(nil)

// joinPackets makes the kernel join packets. If conn is not a UDP socket or the kernel does
// not support it, it returns conn.
func joinPackets(conn net.PacketConn) net.PacketConn {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return conn
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return conn
	}
	fault := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	})
	if fault != nil || err != nil {
		return conn
	}
	return &joinedConn{
		UDPConn: udp, buffer: make([]byte, maxJoinedBytes), control: make([]byte, controlBytes),
	}
}

// ReadBatch fills ms with packets, one for each message. quic-go calls it from one goroutine.
func (c *joinedConn) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	if len(c.rest) == 0 {
		if err := c.read(); err != nil {
			return 0, err
		}
	}
	n := 0
	for n < len(ms) {
		packet := c.rest[:min(c.size, len(c.rest))]
		ms[n].N = copy(ms[n].Buffers[0], packet)
		ms[n].NN = copy(ms[n].OOB, c.info)
		ms[n].Addr = c.addr
		n++
		if c.rest = c.rest[len(packet):]; len(c.rest) == 0 {
			break
		}
	}
	return n, nil
}

// read reads from the socket. The packets may be empty, as any UDP packet may.
func (c *joinedConn) read() error {
	n, info, _, from, err := c.ReadMsgUDPAddrPort(c.buffer, c.control)
	if err != nil {
		return err
	}
	if from != c.from || c.addr == nil {
		c.from, c.addr = from, net.UDPAddrFromAddrPort(from)
	}
	c.rest, c.info = c.buffer[:n], c.control[:info]
	c.size = segmentSize(c.info, n)
	return nil
}

// segmentSize returns the size of each packet that the kernel has joined. If the kernel has joined
// no packets, segmentSize returns the number of bytes read.
func segmentSize(info []byte, all int) int {
	for len(info) > 0 {
		head, body, rest, err := unix.ParseOneSocketControlMessage(info)
		if err != nil {
			break
		}
		if head.Level == unix.IPPROTO_UDP && head.Type == unix.UDP_GRO && len(body) == 4 {
			return max(1, int(binary.NativeEndian.Uint32(body)))
		}
		info = rest
	}
	return all
}
