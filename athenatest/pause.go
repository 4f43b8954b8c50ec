// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/tlsnet"
)

// clock controls the time and the network of a process. While it is stopped, the process
// cannot read the clock, send or receive. When the process resumes, the timers that are due
// have fired and the packets that arrived are waiting.
type clock struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when the process resumes; nil while it runs
	ahead time.Duration // added to the clock of the bubble
}

func (c *clock) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shut != nil
}

// blockWhileStopped blocks while the process is stopped.
func (c *clock) blockWhileStopped() {
	c.mu.Lock()
	shut := c.shut
	c.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (c *clock) now() time.Time {
	c.blockWhileStopped()
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) jumpBy(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *clock) stopClock() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut == nil {
		c.shut = make(chan struct{})
	}
}

func (c *clock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut != nil {
		close(c.shut)
		c.shut = nil
	}
}

// socket is the socket of a process.
type socket struct {
	simnet.Socket
	clock *clock
}

func (s socket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.PacketConn.ReadFrom(b)
	s.clock.blockWhileStopped()
	return n, from, err
}

func (s socket) WriteTo(b []byte, to net.Addr) (int, error) {
	s.clock.blockWhileStopped()
	return s.PacketConn.WriteTo(b, to)
}

// openSocket returns a function that opens the socket of a process.
func (p *process) openSocket(
	packets *simnet.PacketNet) func(string) (net.PacketConn, error,
) {
	return func(addr string) (net.PacketConn, error) {
		s, err := packets.Open(addr)
		return socket{simnet.Socket{PacketConn: s}, &p.clock}, err
	}
}

// conn is a TCP connection of a process. While the process is stopped, its host still receives
// segments.
type conn struct {
	net.Conn
	clock *clock
}

func (c conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.clock.blockWhileStopped()
	return n, err
}

func (c conn) Write(b []byte) (int, error) {
	c.clock.blockWhileStopped()
	return c.Conn.Write(b)
}

// tcpHost is the TCP of a process.
type tcpHost struct {
	*simnet.TCPHost
	clock *clock
}

func (h tcpHost) Accept() (net.Conn, error) {
	c, err := h.TCPHost.Accept()
	return conn{c, h.clock}, err
}

func (h tcpHost) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := h.TCPHost.Dial(ctx, addr)
	return conn{c, h.clock}, err
}

// openTLS returns a function that opens the network of a process with TLS on TCP.
func (p *process) openTLS(
	packets *simnet.PacketNet,
) func(transport.Config) (transport.Network, error) {
	return func(cfg transport.Config) (transport.Network, error) {
		socket, err := packets.Open(cfg.Addr)
		if err != nil {
			return nil, err
		}
		h := tcpHost{simnet.NewTCPHost(socket), &p.clock}
		n, err := tlsnet.New(cfg, h, h.dial)
		if err != nil {
			return nil, errors.Join(err, h.Shutdown())
		}
		return h.Host(n), nil
	}
}

// Pause pauses node i like SIGSTOP, or like a suspended virtual machine: until Resume it sends
// nothing, receives nothing and sees no time pass.
//
// Only the node is paused. The program around it continues in this process: its timers fire, and
// its work can still write. No context of WhileLeader ends before Resume, so the work of a leader
// continues into the term of the next leader. Only a fencing token can detect such writes. Methods
// of the node that read its clock, such as Term.Valid and Status, block until Resume.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	c.Node(i)
	c.leases.haltProcess(c.slots[i].present, true)
	synctest.Wait()
}

// Resume ends Pause. When it returns, the node has noticed how much time has passed.
func (c *Cluster) Resume(i int) {
	c.t.Helper()
	c.leases.haltProcess(c.processOf(i), false)
	c.lookForFailures()
}

// JumpClock sets the clock of node i ahead by a duration, as if its machine had slept. The node
// measures leases and silence with this clock. Nodes assume that all clocks run at the same rate.
// If the clocks of a majority jump, this majority may choose a leader while a node whose clock did
// not jump still has its lease.
func (c *Cluster) JumpClock(i int, ahead time.Duration) {
	c.t.Helper()
	c.processOf(i).clock.jumpBy(ahead)
}
