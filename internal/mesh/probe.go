// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"errors"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// maxProbes bounds the number of probes of one peer in flight.
const maxProbes = 4

var errPortRefused = errors.New("transport: the host of the peer refuses packets to its port: " +
	"the process has ended")

// Probe asks the host of a run of a peer whether the process is gone (protocol.md section 6). If
// the host refuses the port, Probe calls refused once, from another goroutine. It also ends the
// connection, so that nothing waits for the timeout of QUIC. Probe does not block. It does nothing
// if the last connection to the peer was to another run, if maxProbes probes of the peer are in
// flight, or if the network does not support probes.
func (m *Mesh) Probe(who member.Identity, refused func()) {
	m.mu.Lock()
	p := m.peers[who.Address]
	m.mu.Unlock()
	if p == nil {
		return
	}
	l := p.lastLinkTo(who)
	if l == nil {
		return
	}
	if p.probes.Add(1) > maxProbes || !m.spawnWork(func() {
		defer p.probes.Add(-1)
		if !l.conn.PortRefused(m.ctx, who.Address) {
			return
		}
		refused()
		if l := p.linkTo(who); l != nil {
			l.end(transport.CodeClosed, "the host refuses the port", errPortRefused)
		}
	}) {
		p.probes.Add(-1)
	}
}

// linkTo returns the connection to a run of the peer, or nil.
func (p *peer) linkTo(who member.Identity) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil || p.cur.who != who {
		return nil
	}
	return p.cur
}

// lastLinkTo returns the current or last connection to a run of the peer, or nil. The connection
// may already be lost, because TCP reports the end of a process before a probe is due.
func (p *peer) lastLinkTo(who member.Identity) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := cmp.Or(p.cur, p.lost)
	if l == nil || l.who != who {
		return nil
	}
	return l
}
