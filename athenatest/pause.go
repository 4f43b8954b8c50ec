// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"net"
	"sync"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/transporttest"
)

// clock is what a process sees of time and network. One that stands still reads no
// clock and neither sends nor receives until it goes on: its timers have fired and
// its packets have come meanwhile, and it learns of all of that at once.
type clock struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when the process goes on; nil while it runs
	ahead time.Duration // of the clock of the others
}

func (c *clock) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shut != nil
}

// blockWhileStopped blocks while the process stands still.
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

// socket is that of a process.
type socket struct {
	transporttest.Socket
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

// openSocket gives a process its socket.
func (p *process) openSocket(
	packets *transporttest.PacketNet) func(string) (net.PacketConn, error,
) {
	return func(addr string) (net.PacketConn, error) {
		s, err := packets.Open(addr)
		return socket{transporttest.Socket{PacketConn: s}, &p.clock}, err
	}
}

// Pause lets node i stand still as SIGSTOP does, and a virtual machine that is
// paused: it sends nothing, takes nothing and sees no time pass until Resume, and
// learns of all of it then.
//
// It is the node that stands still. What the program does without it goes on, in this
// process: its timers fire, and its work writes where it likes. No context of
// WhileLeader ends before Resume, so the work of a leader lasts into the term of the
// next one, which a fencing token has to tell. Calls of the node that look at the
// clock, Term.Valid and Status above all, block until Resume.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	c.Node(i)
	c.leases.haltProcess(c.slots[i].present, true)
	synctest.Wait()
}

// Resume undoes Pause. When it returns the node has seen what time it is.
func (c *Cluster) Resume(i int) {
	c.t.Helper()
	c.leases.haltProcess(c.processOf(i), false)
	c.lookForFailures()
}

// JumpClock sets the clock of node i, by which it counts leases and silence, ahead:
// to a node it is as if the machine had slept. Nodes trust clocks to run at one rate: a
// majority whose clocks all jump may choose a leader beside one whose clock does not.
func (c *Cluster) JumpClock(i int, ahead time.Duration) {
	c.t.Helper()
	c.processOf(i).clock.jumpBy(ahead)
}
