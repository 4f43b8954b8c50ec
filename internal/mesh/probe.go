// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// maxProbes bounds the probes of one peer that are under way.
const maxProbes = 4

// Probe asks the host from which the connection of this very run of a peer comes
// whether the process there is gone (protocol.md section 6), and where it refuses the
// port calls refused, once and from another goroutine, and ends the connection: what
// waits for an answer on it need not wait until QUIC gives up. It does not block.
// Nothing happens without such a connection, where the network cannot ask, or while
// several probes of the peer are under way.
func (m *Mesh) Probe(who member.Identity, refused func()) {
	m.mu.Lock()
	p := m.peers[who.Address]
	m.mu.Unlock()
	if p == nil {
		return
	}
	conn := p.connOf(who)
	if conn == nil {
		return
	}
	if p.probes.Add(1) > maxProbes || !m.spawn(func() {
		defer p.probes.Add(-1)
		if conn.PortRefused(m.ctx) {
			refused()
			p.endRun(who)
		}
	}) {
		p.probes.Add(-1)
	}
}

// endRun ends the connection to a run of the peer that is gone.
func (p *peer) endRun(who member.Identity) {
	p.mu.Lock()
	l := p.cur
	p.mu.Unlock()
	if l != nil && l.who == who {
		l.end(transport.CodeClosed, "the port is refused", errPortRefused)
	}
}

var errPortRefused = errors.New("transport: the host of the peer refuses its port: " +
	"the process is gone")

// connOf is the connection to a run of the peer, nil for none.
func (p *peer) connOf(who member.Identity) transport.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil || p.cur.who != who {
		return nil
	}
	return p.cur.conn
}
