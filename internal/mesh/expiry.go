// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// expiryLead is how long before the end of the peer's certificate a connection
	// is left in order: the next one shows what the peer has by then.
	expiryLead = time.Minute
	// expiryInterval is how often the clock is looked at meanwhile: it may be set,
	// and timers stand still while the machine sleeps.
	expiryInterval = time.Minute
)

var errExpired = errors.New("transport: the certificate of the peer has ended: " +
	"give it another one")

// watchExpiry sees to it that the connection does not outlive the certificate that
// the peer has shown. The peer is locked.
func (l *link) watchExpiry() {
	if c := l.conn.Certificate(); c != nil {
		l.expiry = time.AfterFunc(l.untilLook(c.NotAfter), func() { l.lookAtExpiry(c.NotAfter) })
	}
}

// untilLook is when to look at the clock again.
func (l *link) untilLook(end time.Time) time.Duration {
	until := time.Until(end)
	if until > expiryLead {
		until -= expiryLead
	}
	return max(0, min(until, expiryInterval))
}

// lookAtExpiry ends the connection with the certificate, or leaves it in order
// shortly before: another one is dialed for what comes next, and nothing is lost.
// A connection that was made within that time stays, since nothing would change.
func (l *link) lookAtExpiry(end time.Time) {
	p, now := l.peer, time.Now().Round(0)
	if !now.Before(end) {
		l.end(transport.CodeRefused, "the certificate has ended", errExpired)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.over {
		return
	}
	if early := end.Add(-expiryLead); !now.Before(early) && l.since.Before(early) && !p.leaving {
		p.drain(l)
		p.urge(transport.System)
	}
	l.expiry.Reset(l.untilLook(end))
}
