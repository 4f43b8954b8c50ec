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
