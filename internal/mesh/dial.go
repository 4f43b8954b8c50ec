// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// firstPause is the pause after the first attempt to dial; each failure
	// doubles it.
	firstPause   = 30 * time.Millisecond
	maxDoublings = 16
	// yieldTime is how long the node with the greater address lets the other
	// one dial first. If both dial, one handshake is made in vain: it costs the
	// processors of five nodes that start together more than this wait.
	yieldTime = 5 * time.Millisecond
	// An attempt goes on for this many pauses, and for leastAttempt, while others
	// are made beside it: a packet to a process that is not yet there is answered
	// by nobody, and the next attempt must not wait until this is certain. On a
	// busy machine a handshake that is given up early is made in vain.
	attemptPauses = 4
	leastAttempt  = 500 * time.Millisecond
	// While many peers are dialed at once, as when a large cluster starts, each of them
	// waits longer before it is dialed again, at most mostRedialCap, and an attempt is
	// given longer: else the handshakes that are repeated leave no processor time for
	// one to end.
	pausePerDial   = 60 * time.Millisecond
	attemptPerDial = 200 * time.Millisecond
	// and the node with the greater address waits once more for so many of them.
	dialsPerYield = 4
)

// dial makes attempts until a connection is mapped or nobody wants one. The
// attempts that are under way end with ctx.
func (p *peer) dial(ctx context.Context) {
	pause := time.NewTimer(p.firstWait())
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		next, attempt, more := p.nextAttempt(ctx)
		if !more {
			return
		}
		others := time.Duration(p.mesh.dialing.Load() - 1)
		if attempt {
			timeout := max(attemptPauses*next, leastAttempt, others*attemptPerDial)
			attemptCtx, cancel := context.WithTimeout(ctx, timeout)
			p.mesh.work.Go(func() {
				defer cancel()
				p.attempt(attemptCtx)
			})
		}
		pause.Reset(max(next, min(others*pausePerDial, mostRedialCap)))
	}
}

// firstWait comes before the first attempt. It keeps a peer whose connections
// break at once from being dialed without a pause, and lets the smaller address
// of two nodes that start together dial first.
func (p *peer) firstWait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failures > 0:
		return p.pause()
	case p.mesh.self.Compare(p.addr) > 0:
		return yieldTime * time.Duration(max(1, p.mesh.dialing.Load()/dialsPerYield))
	default:
		return 0
	}
}

// nextAttempt decides whether to go on and, unless a greet is under way, to
// make another attempt. It ends the dialing when there is no more to do.
func (p *peer) nextAttempt(ctx context.Context) (pause time.Duration, attempt, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || !p.wanted() {
		p.cancelDial()
		p.dialing, p.cancelDial = false, nil
		p.mesh.dialing.Add(-1)
		// What was queued since ctx ended may want another connection.
		p.urge(transport.System)
		return 0, false, false
	}
	if p.greeting == nil {
		attempt = true
		p.mesh.stats.dials.Add(1)
		if p.failures > 0 {
			p.mesh.stats.redials.Add(1)
		}
		p.failures++
	}
	return p.pause(), attempt, true
}

// pause grows with the failures, up to a cap, with jitter so that two nodes
// do not dial each other in step. The peer is locked.
func (p *peer) pause() time.Duration {
	doublings := min(max(p.failures-1, 0), maxDoublings)
	d := min(firstPause<<doublings, p.mesh.redialCap)
	if p.refused {
		d = mostRedialCap
	}
	return d*3/4 + rand.N(d/2)
}

// attempt dials once.
func (p *peer) attempt(ctx context.Context) {
	conn, err := p.mesh.net.Dial(ctx, p.addr)
	if err == nil {
		p.greet(conn)
		return
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return // another connection came first, or the Mesh ends
	case errors.Is(cause, context.DeadlineExceeded):
		// Nobody's deadline but ours: it must not look like that of a caller.
		if !errors.Is(err, transport.ErrUnknownHost) {
			err = fmt.Errorf("%w from %s", transport.ErrNoAnswer, p.addr)
		}
	}
	p.mesh.stats.failed(err)
	// Who has another secret keeps it for a while.
	p.remember(err, errors.Is(err, transport.ErrCertificate))
	p.mesh.told.report(Report{ReportUnreachable, p.addr, err})
}

// remember keeps why there is no connection; refused says that it is in vain
// to try again soon.
func (p *peer) remember(err error, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastErr, p.refused = err, refused
}
