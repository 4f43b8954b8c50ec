// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"net"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// openSocket opens a UDP socket for QUIC.
type openSocket func(address string) (net.PacketConn, error)

// serveQUIC receives frames on one stream of a QUIC connection with the defaults of quic-go.
func serveQUIC(open openSocket) func(receiverSetup, *sink) (string, error) {
	return func(_ receiverSetup, s *sink) (string, error) {
		cfg, err := serverTLS()
		if err != nil {
			return "", err
		}
		socket, err := open("127.0.0.1:0")
		if err != nil {
			return "", err
		}
		l, err := quic.Listen(socket, cfg, &quic.Config{})
		if err != nil {
			return "", err
		}
		go func() {
			for {
				c, err := l.Accept(context.Background())
				if err != nil {
					return
				}
				go func() {
					if stream, err := c.AcceptStream(context.Background()); err == nil {
						serveFrames(stream, s)
					}
				}()
			}
		}()
		return l.Addr().String(), nil
	}
}

func dialQUIC(open openSocket) func(string, int) (client, error) {
	return func(address string, workers int) (client, error) {
		socket, err := open("127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		to, err := net.ResolveUDPAddr("udp", address)
		if err != nil {
			return nil, err
		}
		c, err := quic.Dial(context.Background(), socket, to, clientTLS(), &quic.Config{})
		if err != nil {
			return nil, err
		}
		stream, err := c.OpenStream()
		if err != nil {
			return nil, err
		}
		return newFrameClient(stream, func() { _ = c.CloseWithError(0, "") }, workers), nil
	}
}

func listenUDP(address string) (net.PacketConn, error) { return net.ListenPacket("udp", address) }

// groSocket uses the generic receive offload of the kernel, which quic-go itself does not use. One
// call reads up to 64 KiB of packets from one sender. ReadBatch passes them to quic-go one by one.
type groSocket struct {
	*net.UDPConn
	packets *ipv4.PacketConn
	big     []ipv4.Message
	filled  int // messages in big
	next    int // the message to split
	offset  int // number of bytes that ReadBatch has returned
}

const (
	groBuffers     = 4
	groBufferBytes = 64 << 10
	controlBytes   = 128
)

func listenGRO(address string) (net.PacketConn, error) {
	plain, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	c := plain.(*net.UDPConn)
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var optionErr error
	err = raw.Control(func(fd uintptr) {
		optionErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	})
	if err != nil {
		return nil, err
	}
	if optionErr != nil {
		return nil, optionErr
	}
	g := &groSocket{UDPConn: c, packets: ipv4.NewPacketConn(c)}
	for range groBuffers {
		g.big = append(g.big, ipv4.Message{
			Buffers: [][]byte{make([]byte, groBufferBytes)}, OOB: make([]byte, controlBytes),
		})
	}
	return g, nil
}

// ReadBatch reads packets for quic-go, which calls it from one goroutine.
func (g *groSocket) ReadBatch(messages []ipv4.Message, flags int) (n int, err error) {
	for g.next >= g.filled {
		if g.filled, err = g.packets.ReadBatch(g.big, flags); err != nil {
			g.filled = 0
			return 0, err
		}
		g.next, g.offset = 0, 0
	}
	for ; n < len(messages) && g.next < g.filled; n++ {
		from, to := &g.big[g.next], &messages[n]
		end := min(g.offset+segmentBytes(from), from.N)
		to.N = copy(to.Buffers[0], from.Buffers[0][g.offset:end])
		to.NN = copy(to.OOB, from.OOB[:from.NN])
		to.Addr = from.Addr
		if g.offset = end; end >= from.N {
			g.next, g.offset = g.next+1, 0
		}
	}
	return n, nil
}

// segmentBytes returns the size of the packets that the kernel has joined.
func segmentBytes(m *ipv4.Message) int {
	for control := m.OOB[:m.NN]; len(control) > 0; {
		header, body, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		if header.Level == unix.IPPROTO_UDP && header.Type == unix.UDP_GRO {
			return int(binary.NativeEndian.Uint32(body))
		}
		control = rest
	}
	return m.N
}
