// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

const packetDelay = 5 * time.Millisecond

// packetPair is a network with two addresses.
type packetPair struct {
	*testing.T
	*PacketNet
	a, b member.Address
}

// testPackets runs a test in a bubble.
func testPackets(t *testing.T, f func(p *packetPair)) {
	synctest.Test(t, func(t *testing.T) {
		f(&packetPair{t, NewPacketNet(packetDelay),
			member.Address{Host: "10.0.0.1", Port: 7000}, member.Address{Host: "10.0.0.2", Port: 7000}})
	})
}

func (p *packetPair) openSocket(at member.Address) net.PacketConn {
	p.Helper()
	s, err := p.Open(at.String())
	if err != nil {
		p.Fatal(err)
	}
	return s
}

// sendPacket sends a packet from one socket to the address of another one.
func (p *packetPair) sendPacket(from, to net.PacketConn, text string) {
	p.Helper()
	if _, err := from.WriteTo([]byte(text), to.LocalAddr()); err != nil {
		p.Fatal(err)
	}
}

// wantRead checks the next packet of a socket, and when it arrives.
func (p *packetPair) wantRead(s net.PacketConn, text string, after time.Duration) {
	p.Helper()
	began, buf := time.Now(), make([]byte, 100)
	n, _, err := s.ReadFrom(buf)
	if took := time.Since(began); err != nil || string(buf[:n]) != text || took != after {
		p.Errorf("got %q, %v after %v; want %q after %v", buf[:n], err, took, text, after)
	}
}

// wantNothing checks that no packet arrives within a second.
func (p *packetPair) wantNothing(s net.PacketConn) {
	p.Helper()
	if err := s.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		p.Fatal(err)
	}
	if n, _, err := s.ReadFrom(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.Errorf("got %d bytes, %v; want a timeout", n, err)
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		p.Fatal(err)
	}
}

func TestPacketsKeepTheirOrder(t *testing.T) {
	testPackets(t, func(p *packetPair) {
		a, b := p.openSocket(p.a), p.openSocket(p.b)
		p.SetPath(p.a, p.b, Path{Delay: packetDelay})
		p.sendPacket(a, b, "late")
		p.SetPath(p.a, p.b, Path{})
		p.sendPacket(a, b, "first")
		p.sendPacket(a, b, "second")
		p.wantRead(b, "first", packetDelay)
		p.wantRead(b, "second", 0)
		p.wantRead(b, "late", packetDelay)
		p.Cut(p.a, p.b)
		p.sendPacket(a, b, "lost")
		p.wantNothing(b)
		p.Heal(p.a, p.b)
		p.sendPacket(a, b, string(make([]byte, maxPacket+1)))
		p.wantNothing(b)
	})
}

// TestPacketsReachTheNewestSocket checks that packets on their way reach the process that has the
// address when they arrive.
func TestPacketsReachTheNewestSocket(t *testing.T) {
	testPackets(t, func(p *packetPair) {
		a, b := p.openSocket(p.a), p.openSocket(p.b)
		p.sendPacket(a, b, "unread")
		time.Sleep(packetDelay)
		p.sendPacket(a, b, "across a restart")
		p.Kill(p.b)
		if _, err := b.WriteTo(nil, a.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a killed socket sends: %v", err)
		}
		b = p.openSocket(p.b)
		p.wantRead(b, "across a restart", packetDelay)
		newer := p.openSocket(p.b)
		p.sendPacket(a, b, "taken over")
		p.wantNothing(b)
		p.wantRead(newer, "taken over", 0)
		p.sendPacket(a, b, "given back")
		if err := newer.Close(); err != nil {
			t.Fatal(err)
		}
		p.wantRead(b, "given back", packetDelay)
	})
}

// TestCloseEndsRead checks that a reader that waits notices the end of its socket.
func TestCloseEndsRead(t *testing.T) {
	testPackets(t, func(p *packetPair) {
		b := p.openSocket(p.b)
		time.AfterFunc(time.Second, func() { p.Kill(p.b) })
		began := time.Now()
		_, _, err := b.ReadFrom(make([]byte, 100))
		if took := time.Since(began); !errors.Is(err, net.ErrClosed) || took != time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}
