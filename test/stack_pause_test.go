// SPDX-License-Identifier: Apache-2.0

package test

import (
	"net"
	"sync"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/transport/transporttest"
)

// pauser is what a process sees of time and network. A process that is suspended
// reads no clock and neither sends nor receives until it goes on: its timers have
// fired and its packets have come meanwhile, and it learns of all of that at once.
type pauser struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when the process goes on; nil while it runs
	ahead time.Duration // of the clock of the others
}

func (g *pauser) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// pass blocks while the process is suspended.
func (g *pauser) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// now is the clock of the process.
func (g *pauser) now() time.Time {
	g.pass()
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Add(g.ahead)
}

func (g *pauser) jump(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead += d
}

// pausedSocket is the socket of a process.
type pausedSocket struct {
	transporttest.Socket
	pauser *pauser
}

func (s pausedSocket) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := s.PacketConn.ReadFrom(b)
	s.pauser.pass()
	return n, from, err
}

func (s pausedSocket) WriteTo(b []byte, to net.Addr) (int, error) {
	s.pauser.pass()
	return s.PacketConn.WriteTo(b, to)
}

// suspend stops a process as SIGSTOP does, and a virtual machine that is paused.
func (s *stack) suspend(i int) {
	s.t.Helper()
	g := s.processes[i].pauser
	s.watch.freeze(s.node(i), true)
	g.mu.Lock()
	g.shut = make(chan struct{})
	g.mu.Unlock()
	synctest.Wait()
}

// resume lets it go on, and returns when it has seen what time it is.
func (s *stack) resume(i int) {
	s.t.Helper()
	p := &s.processes[i]
	if !p.pauser.isShut() {
		return
	}
	p.pauser.mu.Lock()
	close(p.pauser.shut)
	p.pauser.shut = nil
	p.pauser.mu.Unlock()
	synctest.Wait()
	s.watch.freeze(p.node, false)
}
