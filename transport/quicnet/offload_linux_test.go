// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// families are pairs of an address to listen on and a host to dial.
var families = []struct{ listen, dial string }{
	{"127.0.0.1:0", "127.0.0.1"}, {"[::1]:0", "::1"}, {"[::]:0", "127.0.0.1"}, {"[::]:0", "::1"},
}

// TestJoinedPackets sends packets that the kernel joins, and reads them one by one, with their
// sender and the address that they were sent to.
func TestJoinedPackets(t *testing.T) {
	for _, f := range families {
		t.Run(f.dial+" at "+f.listen, func(t *testing.T) {
			socket, err := Listen(f.listen)
			if err != nil {
				t.Fatalf("Listen: %v", err)
			}
			defer socket.Close()
			joined, ok := joinPackets(socket).(*joinedConn)
			if !ok {
				t.Skip("needs UDP_GRO, of Linux 5.0")
			}
			setOption(t, socket, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
			setOption(t, socket, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
			to := &net.UDPAddr{IP: net.ParseIP(f.dial), Port: socket.LocalAddr().(*net.UDPAddr).Port}
			sender, err := net.ListenUDP("udp", &net.UDPAddr{IP: to.IP})
			if err != nil {
				t.Fatalf("ListenUDP: %v", err)
			}
			defer sender.Close()
			checkJoined(t, joined, sender, to)
		})
	}
}

// setOption sets an option of a socket, if its family has the option.
func setOption(t *testing.T, socket *net.UDPConn, level, option, value int) {
	t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatalf("SyscallConn: %v", err)
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), level, option, value) })
}

// checkJoined sends eleven packets in one call, the last of them half as long.
func checkJoined(t *testing.T, joined *joinedConn, sender *net.UDPConn, to *net.UDPAddr) {
	t.Helper()
	const size, packets = 1000, 11
	sent := make([]byte, size*packets-size/2)
	for i := range sent {
		sent[i] = byte(i / size)
	}
	setOption(t, sender, unix.IPPROTO_UDP, unix.UDP_SEGMENT, size)
	if _, err := sender.WriteTo(sent, to); err != nil {
		t.Fatalf("WriteTo: %v", err)
	}
	if err := joined.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatalf("SetReadDeadline: %v", err)
	}
	for n := 0; n < packets; {
		ms := make([]ipv4.Message, 8)
		for i := range ms {
			ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, 1452)}, make([]byte, controlBytes)
		}
		got, err := joined.ReadBatch(ms, 0)
		if err != nil {
			t.Fatalf("ReadBatch: %v", err)
		}
		if want := min(8, packets-n); got != want {
			t.Fatalf("ReadBatch returned %d packets, want %d: the kernel did not join them", got, want)
		}
		for _, m := range ms[:got] {
			want := sent[n*size : min((n+1)*size, len(sent))]
			if !bytes.Equal(m.Buffers[0][:m.N], want) {
				t.Errorf("packet %d has %d bytes, want %d", n, m.N, len(want))
			}
			if from := sender.LocalAddr().(*net.UDPAddr); m.Addr.(*net.UDPAddr).Port != from.Port ||
				!m.Addr.(*net.UDPAddr).IP.Equal(from.IP) {
				t.Errorf("packet %d is from %v, want %v", n, m.Addr, from)
			}
			if !hasPacketInfo(m.OOB[:m.NN]) {
				t.Errorf("packet %d comes without the address that it was sent to", n)
			}
			n++
		}
	}
}

func hasPacketInfo(control []byte) bool {
	all, err := unix.ParseSocketControlMessage(control)
	for _, m := range all {
		if m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO ||
			m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO {
			return err == nil
		}
	}
	return false
}

// TestFamilies sends large frames both ways over IPv4, IPv6 and a socket for both.
func TestFamilies(t *testing.T) {
	for _, f := range families {
		t.Run(f.dial+" at "+f.listen, func(t *testing.T) {
			var nodes [2]*node
			for i := range nodes {
				socket, err := Listen(f.listen)
				if err != nil {
					t.Fatalf("Listen: %v", err)
				}
				port := uint16(socket.LocalAddr().(*net.UDPAddr).Port)
				at, err := member.ParseAddress(netip.AddrPortFrom(netip.MustParseAddr(f.dial), port).String())
				if err != nil {
					t.Fatalf("ParseAddress: %v", err)
				}
				nodes[i] = startWith(t, Config{Conn: socket, TLS: secured(t), ResetKey: [32]byte{1}}, at, 1)
			}
			for i := range 20 {
				from, to := nodes[i%2], nodes[1-i%2]
				want := bytes.Repeat([]byte(fmt.Sprint(i)), 50<<10)
				if err := from.Send(t.Context(), to.self.Address, want); err != nil {
					t.Fatalf("Send: %v", err)
				}
				if got := next(t, to.frames[transport.Custom], "frame"); !bytes.Equal(got, want) {
					t.Fatalf("frame %d has %d other bytes, want %d", i, len(got), len(want))
				}
			}
		})
	}
}
