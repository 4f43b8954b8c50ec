// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// expiryLead is how long before the peer's certificate expires a connection is left
	// in order. The next connection shows whether the peer has a new certificate.
	expiryLead = time.Minute
	// expiryInterval is the time between two checks of the clock: the clock may be set,
	// and timers stand still while the machine sleeps.
	expiryInterval = time.Minute
)

var errExpired = errors.New("transport: the certificate of the peer has expired: " +
	"give it another one")

// watchExpiry ends the connection before it outlives the certificate of the peer. The
// peer's mutex must be held.
func (l *link) watchExpiry() {
	if c := l.conn.Certificate(); c != nil {
		l.expiry = time.AfterFunc(expiryPause(c.NotAfter), func() { l.checkExpiry(c.NotAfter) })
	}
}

// expiryPause returns how long to wait for the next check of a certificate that is valid
// until end.
func expiryPause(end time.Time) time.Duration {
	left := time.Until(end)
	if left > expiryLead {
		left -= expiryLead
	}
	return max(0, min(left, expiryInterval))
}

// checkExpiry ends the connection when the certificate expires, or leaves it in order
// expiryLead before: later frames go over another connection, and nothing is lost. A
// connection that was made within that time stays, since another one would not help.
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
