// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Relay is a network between clients and a server. Cut and Heal interrupt and restore it.
type Relay struct {
	listener net.Listener

	mu    sync.Mutex
	open  chan struct{} // closed while the network works
	conns []net.Conn
}

// NewRelay relays connections to the server until the end of the test.
func NewRelay(t *testing.T, server string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: l, open: make(chan struct{})}
	close(r.open)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // closed
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				from.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, from, to)
			r.mu.Unlock()
			running.Go(func() { r.pass(from, to) })
			running.Go(func() { r.pass(to, from) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.Heal()
		running.Wait()
	})
	return r
}

// Address returns the address for the clients.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Cut holds back all traffic until Heal, without an error.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = make(chan struct{})
}

// Heal ends Cut and closes the old connections.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}

func (r *Relay) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	for b := make([]byte, 32<<10); ; {
		n, err := from.Read(b)
		r.mu.Lock()
		open := r.open
		r.mu.Unlock()
		<-open
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			return // one end was closed
		}
	}
}

// FreeAddress returns an unused loopback address. Its port is below the range that systems
// use for outgoing connections, so that it stays free while the server is stopped.
func FreeAddress(t testing.TB) string {
	t.Helper()
	const from, to = 10_000, 32_000
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+rand.N(to-from)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port found in 100 attempts")
	return ""
}

// Pause blocks for d, or until the test ends.
func Pause(t testing.TB, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
