// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"cmp"
	"net"
	"sync"
	"syscall"
)

// socket is the TCP connection below TLS. After startDirect, its Write does not block on systems
// that support this. It stores what the kernel has no room for, and drain writes it later. Without
// this, goroutines that must not block could not use TLS, because Write must not return early with
// a part of a TLS record.
type socket struct {
	net.Conn
	beforeRead func() // called by Read; may be nil

	mu       sync.Mutex
	raw      syscall.RawConn // nil if Write may block
	gathers  bool            // more records follow
	rest     []byte          // at most maxRest
	spare    []byte
	draining bool
}

const (
	// maxRest bounds the bytes that Write stores. maxRest exceeds one flush of a lane, because TLS
	// also writes on its own: it updates its keys whenever the peer asks.
	maxRest = 8 * maxPending
	// gatherBytes is how many bytes of records are written together: a system call for each record
	// would cost more than the copy.
	gatherBytes = 4 * recordBytes
)

// startDirect makes Write return without waiting, if the system supports this.
func (s *socket) startDirect() {
	sys, ok := s.Conn.(syscall.Conn)
	if !ok || !canTryWrite {
		return
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return // Write blocks, but only writeLoop calls it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = raw
}

// direct reports whether Write returns without waiting and no earlier write has left anything.
func (s *socket) direct() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw != nil && !s.draining && len(s.rest) == 0
}

// behind reports whether drain has anything to write.
func (s *socket) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rest) > 0
}

// Read implements net.Conn for TLS.
func (s *socket) Read(b []byte) (int, error) {
	if s.beforeRead != nil {
		s.beforeRead()
	}
	return s.Conn.Read(b)
}

// writeRecords writes b in as few system calls as possible, which also wakes the peer less often.
// It is one Write of TLS, because sayGoodbye may call another.
func (t tlsConn) writeRecords(b []byte) error {
	t.socket.mu.Lock()
	t.socket.gathers = true
	t.socket.mu.Unlock()
	_, err := t.Write(b)
	t.socket.mu.Lock()
	defer t.socket.mu.Unlock()
	t.socket.gathers = false
	return cmp.Or(err, t.socket.tryRest())
}

// Write implements net.Conn for TLS, which calls it from one goroutine at a time.
func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	if s.raw == nil {
		s.mu.Unlock()
		return s.Conn.Write(b)
	}
	defer s.mu.Unlock()
	if len(s.rest)+len(b) > maxRest {
		_ = s.Conn.Close() // the error counts
		return 0, errNotRead
	}
	s.rest = append(s.rest, b...)
	if s.gathers && len(s.rest) < gatherBytes {
		return len(b), nil
	}
	return len(b), s.tryRest()
}

// tryRest writes as much of rest as the kernel has room for. s.mu must be held.
func (s *socket) tryRest() error {
	if s.draining || len(s.rest) == 0 {
		return nil
	}
	n, err := tryWrite(s.raw, s.rest)
	s.rest = s.rest[:copy(s.rest, s.rest[n:])]
	return err
}

// drain writes what Write has stored, and blocks until the kernel has accepted it.
func (s *socket) drain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	defer func() { s.draining = false }()
	for len(s.rest) > 0 {
		b := s.rest
		s.rest, s.spare = s.spare[:0], nil
		s.mu.Unlock()
		_, err := s.Conn.Write(b)
		s.mu.Lock()
		if cap(b) <= 2*maxPending {
			s.spare = b[:0]
		}
		if err != nil {
			return err
		}
	}
	return nil
}
