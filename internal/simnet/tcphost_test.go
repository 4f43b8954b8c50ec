// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// tcpPair is a pair of hosts with a connection.
type tcpPair struct {
	net              *PacketNet
	a, b             *TCPHost
	dialed, accepted net.Conn
}

func addr(i int) member.Address {
	return member.Address{Host: fmt.Sprintf("10.0.0.%d", i), Port: 7000}
}

func openTCP(t *testing.T, p *PacketNet, at member.Address) *TCPHost {
	t.Helper()
	packets, err := p.Open(at.String())
	if err != nil {
		t.Fatal(err)
	}
	h := NewTCPHost(packets)
	t.Cleanup(func() { _ = h.Shutdown() })
	return h
}

// inTCP runs a test with two hosts on a path with a delay of 5 ms and the given faults.
func inTCP(t *testing.T, path Path, test func(t *testing.T, p *tcpPair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &tcpPair{net: NewPacketNet(5 * time.Millisecond)}
		p.net.SetPath(addr(1), addr(2), path)
		p.net.SetPath(addr(2), addr(1), path)
		p.a, p.b = openTCP(t, p.net, addr(1)), openTCP(t, p.net, addr(2))
		var err error
		if p.dialed, err = p.a.Dial(t.Context(), addr(2).String()); err != nil {
			t.Fatalf("Dial: %v", err)
		}
		if p.accepted, err = p.b.Accept(); err != nil {
			t.Fatalf("Accept: %v", err)
		}
		test(t, p)
	})
}

// TestTCPOverBadPaths sends in both directions at the same time, over paths with different faults.
func TestTCPOverBadPaths(t *testing.T) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	for name, path := range map[string]Path{
		"good": {}, "lossy": {Loss: 0.2}, "disordered": {Jitter: 20 * time.Millisecond, Twice: 0.5},
		"small": {LimitBytes: 1200}, "all": {Loss: 0.1, Jitter: 5 * time.Millisecond, Twice: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			inTCP(t, path, func(t *testing.T, p *tcpPair) {
				errs := make(chan error, 2)
				for _, c := range []net.Conn{p.dialed, p.accepted} {
					go func() {
						_, err := c.Write(data)
						errs <- err
					}()
				}
				for _, c := range []net.Conn{p.dialed, p.accepted} {
					got := make([]byte, len(data))
					if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
						t.Errorf("Read: %v, or other bytes", err)
					}
				}
				for range 2 {
					if err := <-errs; err != nil {
						t.Errorf("Write: %v", err)
					}
				}
				if err := p.dialed.Close(); err != nil {
					t.Error(err)
				}
				if rest, err := io.ReadAll(p.accepted); len(rest) > 0 || err != nil {
					t.Errorf("after Close: %d bytes, %v, want the end", len(rest), err)
				}
			})
		})
	}
}

// TestTCPGaps loses every other segment of a window. Each gap must be repaired after one round
// trip, without a timeout, even after the repair of other gaps.
func TestTCPGaps(t *testing.T) {
	inTCP(t, Path{}, func(t *testing.T, p *tcpPair) {
		const gaps, roundTrip = 5, 10 * time.Millisecond
		write := func() {
			if _, err := p.dialed.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // wait until the byte was sent or lost
		}
		write()
		time.Sleep(time.Second) // wait until the round trip is known
		began := time.Now()
		for range gaps {
			p.net.Cut(addr(1), addr(2))
			write()
			p.net.Heal(addr(1), addr(2))
			write()
		}
		if _, err := io.ReadFull(p.accepted, make([]byte, 1+2*gaps)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > (gaps+1)*roundTrip {
			t.Errorf("%d gaps took %v, want a round trip for each", gaps, took)
		}
	})
}

// TestTCPCut cuts one direction. After the direction is healed, the data must arrive with the
// sender's next retransmission.
func TestTCPCut(t *testing.T) {
	inTCP(t, Path{}, func(t *testing.T, p *tcpPair) {
		p.net.Cut(addr(1), addr(2))
		if _, err := p.dialed.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		p.net.Heal(addr(1), addr(2))
		began := time.Now()
		if _, err := io.ReadFull(p.accepted, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > 5*time.Second {
			t.Errorf("it arrived %v after the heal, want the rest of a timeout", took)
		}
	})
}

// TestTCPEnds checks the error with which a connection ends.
func TestTCPEnds(t *testing.T) {
	inTCP(t, Path{}, func(t *testing.T, p *tcpPair) {
		if _, err := p.accepted.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_ = p.dialed.Close() // always returns nil
		if _, err := p.accepted.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("closed with unread bytes: got %v, want a reset", err)
		}
		if _, err := p.dialed.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after Close: got %v", err)
		}
	})
	inTCP(t, Path{}, func(t *testing.T, p *tcpPair) {
		p.net.Kill(addr(2))
		openTCP(t, p.net, addr(2))
		if _, err := p.dialed.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.dialed.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the other process is another run: got %v, want a reset", err)
		}
	})
	inTCP(t, Path{}, func(t *testing.T, p *tcpPair) {
		_ = p.b.Close() // always returns nil
		_, err := p.a.Dial(t.Context(), addr(2).String())
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial of a port without a listener: got %v, want a refusal", err)
		}
	})
}
