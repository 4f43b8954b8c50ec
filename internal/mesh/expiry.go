// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// expiryLead is how long before the expiry of the peer's certificate this node leaves the
	// connection gracefully. The next handshake shows whether the peer has a new certificate.
	expiryLead = time.Minute
	// expiryInterval is the time between two checks of the clock. A single timer is not
	// enough: the clock may be set, and timers do not run while the machine sleeps.
	expiryInterval = time.Minute
	// replaceTimeout is how long a connection lasts that ReplaceConns replaces. It is longer than a
	// handshake and the exchange of greetings take.
	replaceTimeout = 10 * time.Second
)

var errExpired = errors.New("transport: the certificate of the peer has expired: " +
	"renew it")

// watchExpiry ends the connection before the peer's certificate expires. The peer's mutex
// must be held.
func (l *link) watchExpiry() {
	if c := l.conn.Certificate(); c != nil {
		l.expiry = time.AfterFunc(expiryPause(c.NotAfter), func() { l.checkExpiry(c.NotAfter) })
	}
}

// expiryPause returns the time until the next check of a certificate that expires at end.
func expiryPause(end time.Time) time.Duration {
	left := time.Until(end)
	if left > expiryLead {
		left -= expiryLead
	}
	return max(0, min(left, expiryInterval))
}

// checkExpiry ends the connection when the certificate expires. When less than expiryLead is left,
// it leaves the connection gracefully: later frames use another connection, and nothing is lost. It
// keeps a connection that was made when less than expiryLead was left, because a new connection
// would have the same certificate.
func (l *link) checkExpiry(end time.Time) {
	p, now := l.peer, time.Now().Round(0)
	if !now.Before(end) {
		l.end(transport.CodeRefused, "the certificate has expired", errExpired)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.over {
		return
	}
	if early := end.Add(-expiryLead); !now.Before(early) && l.since.Before(early) && !p.leaving {
		p.drainLink(l)
		p.wakeOrDial(transport.System)
	}
	l.expiry.Reset(expiryPause(end))
}

// ReplaceConns replaces all connections, after the credentials of this node have changed: each peer
// must authenticate again. Connections are left gracefully, so no frame is lost. Those of peers
// that can no longer authenticate end after replaceTimeout.
func (m *Mesh) ReplaceConns() {
	m.replaceLinks()
	// Handshakes that were in progress may have used the old credentials.
	time.AfterFunc(replaceTimeout, m.replaceLinks)
}

func (m *Mesh) replaceLinks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		p.replaceLinks()
	}
}

// replaceLinks leaves the connections of a peer, and limits how long this takes.
func (p *peer) replaceLinks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving {
		return
	}
	if p.cur != nil {
		p.drainLink(p.cur)
		p.wakeOrDial(transport.System)
	}
	for _, l := range p.draining {
		time.AfterFunc(replaceTimeout, func() {
			l.end(transport.CodeRefused, "the credentials have been replaced", nil)
		})
	}
}
