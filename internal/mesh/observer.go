// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"time"

	"github.com/athena-go/athena/member"
)

const (
	// MaxObserverBytes bounds an answer to an observer, and the answers that wait until it reads.
	MaxObserverBytes = 64 << 10
	// maxObserverStreams bounds the bulk streams that all observers together have opened, without
	// those of workers.
	maxObserverStreams = 256
	// observerBufferBytes is the size of the read buffers of an observer's streams, and of the memory
	// that is kept for the next write: observers are many and mostly idle.
	observerBufferBytes = 2 << 10
	// observerRedialCap is the cap for the pauses between the dials of an observer. It is greater than
	// that of members, because many observers may dial one member.
	observerRedialCap = 2 * time.Second
)

var (
	errTooManyObservers = errors.New("transport: full: too many observers; ask another member")
	errObserverSystem   = errors.New("transport: an observer must not send system frames")
)

// isObserved reports whether one end of the link is an observer.
func (l *link) isObserved() bool {
	return l.peer.addr.IsObserver() || l.peer.mesh.self.IsObserver()
}

// systemHandler returns the handler of system frames. An observer takes no part in the protocol of
// the members, so its frames end the link before anything can read them.
func (l *link) systemHandler() deliverFunc {
	if l.isObserved() {
		return func(member.Identity, []byte) error { return errObserverSystem }
	}
	return l.peer.mesh.handler.System
}

// addObserver adds an observer and holds it. m.mu must be held.
func (m *Mesh) addObserver(addr member.Address) (*peer, error) {
	if m.observers >= m.cfg.Observers && !m.forgetPeer(true) {
		return nil, errTooManyObservers
	}
	m.observers++
	return m.addPeer(addr), nil
}

// takeObserverStream counts a bulk stream of an observer, or returns false.
func (m *Mesh) takeObserverStream() bool {
	if int(m.observerStreams.Add(1)) <= maxObserverStreams+m.cfg.Workers {
		return true
	}
	m.observerStreams.Add(-1)
	return false
}

// countObservers returns the number of connected observers.
func (m *Mesh) countObservers() (connected int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for addr, p := range m.peers {
		if addr.IsObserver() && p.isConnected() {
			connected++
		}
	}
	return connected
}
