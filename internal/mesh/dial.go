// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// firstPause is the pause after the first attempt to dial. Each failure doubles it.
	firstPause   = 30 * time.Millisecond
	maxDoublings = 16
	// yieldTime is how long the node with the greater address waits for the other node to dial. If
	// both dial, one handshake is wasted. When five nodes start at the same time, wasted handshakes
	// cost more CPU time than this wait is worth.
	yieldTime = 5 * time.Millisecond
	// An attempt lasts for attemptPauses pauses, but at least for minAttempt. Further attempts start
	// in the meantime: a process that has just started does not know the earlier attempts, but answers
	// a new one. On a busy machine, an attempt that ends too early wastes a handshake.
	attemptPauses = 4
	minAttempt    = 500 * time.Millisecond
	// When a large cluster starts, a node dials many peers. Then the pause is at least pausePerDial
	// for each peer being dialed, up to maxRedialCap, and an attempt may take at least attemptPerDial
	// for each. Otherwise repeated handshakes would leave too little CPU time for any handshake to
	// complete. The node with the greater address yields yieldTime for every dialsPerYield of these
	// peers.
	pausePerDial   = 60 * time.Millisecond
	attemptPerDial = 200 * time.Millisecond
	dialsPerYield  = 4
	// Nodes of a large cluster that start together all dial the same few peers. If a busy peer
	// received a second handshake from each node before it could answer the first handshakes, it would
	// never answer any. So until the first connection to a peer, the pause is at least pausePerMember
	// for each member, up to maxRedialCap. An attempt may take attemptPerMember for each member, up to
	// maxSlotTime.
	pausePerMember   = 5 * time.Millisecond
	attemptPerMember = 50 * time.Millisecond
)

// dial makes attempts until there is a connection or no connection is needed. When ctx is canceled,
// pending attempts end.
func (p *peer) dial(ctx context.Context) {
	pause := time.NewTimer(p.firstWait())
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		release, life := func() {}, minAttempt
		if p.isNew() {
			release = p.mesh.slots.acquire(ctx)
			life = max(life, p.mesh.perMember(attemptPerMember, maxSlotTime))
		}
		next, attempt, more := p.nextAttempt(ctx)
		if !attempt {
			release()
		}
		if !more {
			return
		}
		others := time.Duration(p.mesh.dialing.Load() - 1)
		if attempt {
			timeout := max(attemptPauses*next, life, others*attemptPerDial)
			attemptCtx, cancel := context.WithTimeout(ctx, timeout)
			p.mesh.work.Go(func() {
				defer cancel()
				slot := time.AfterFunc(p.mesh.slots.holdTime(), release)
				p.attemptDial(attemptCtx)
				if slot.Stop() {
					release()
				}
			})
		}
		pause.Reset(max(next, min(others*pausePerDial, maxRedialCap)))
	}
}

// firstWait returns the wait before the first attempt. After a failure it is the rest of a pause,
// which prevents a busy loop if the connections of a peer break immediately. Otherwise only the
// node with the greater address waits, to yield to the other node.
func (p *peer) firstWait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failures > 0:
		return p.dialPause() - time.Since(p.dialedAt)
	case p.mesh.self.Compare(p.addr) > 0:
		return yieldTime * time.Duration(max(1, p.mesh.dialing.Load()/dialsPerYield))
	default:
		return 0
	}
}

// nextAttempt decides whether to make another attempt now. It makes no attempt while a greeting is
// pending, or if one that the peer dialed probably waits for proof. more is false if no connection
// is needed or ctx is done.
func (p *peer) nextAttempt(ctx context.Context) (pause time.Duration, attempt, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropStale()
	if ctx.Err() != nil || !p.needsDial() {
		p.cancelDial()
		p.dialing, p.cancelDial = false, nil
		p.mesh.dialing.Add(-1)
		// Frames queued since ctx was canceled may need another connection.
		p.wakeOrDial(transport.System)
		return 0, false, false
	}
	if p.greeting == nil && !p.yieldsToProof() {
		attempt, p.dialedAt = true, time.Now()
		p.mesh.stats.dials.Add(1)
		if p.failures > 0 {
			p.mesh.stats.redials.Add(1)
		}
		p.failures++
	}
	return p.dialPause(), attempt, true
}

// dialPause returns a pause that doubles with each failure, up to a cap. Its jitter keeps
// two nodes from dialing each other in step. p.mu must be held.
func (p *peer) dialPause() time.Duration {
	doublings := min(max(p.failures-1, 0), maxDoublings)
	d := min(firstPause<<doublings, p.mesh.redialCap)
	if p.run == (member.Identity{}) {
		d = max(d, p.mesh.perMember(pausePerMember, maxRedialCap))
	}
	if p.refused {
		d = maxRedialCap
	}
	return d*3/4 + rand.N(d/2)
}

// isNew reports whether there has been no connection to the peer yet.
func (p *peer) isNew() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run == (member.Identity{})
}

// perMember returns a duration for each member of the cluster, up to limit.
func (m *Mesh) perMember(d, limit time.Duration) time.Duration {
	return min(d*time.Duration(m.cfg.Size), limit)
}

// attemptDial dials the address of the peer. If its name was not resolved in the last attempt, or
// not in time, attemptDial also dials the address from which the peer last greeted.
func (p *peer) attemptDial(ctx context.Context) {
	if last := p.lastRemote(); !last.IsZero() {
		var direct sync.WaitGroup
		direct.Go(func() { _ = p.dialAt(ctx, last) }) // the error of the name is reported
		defer direct.Wait()                           // the caller cancels ctx
	}
	err := p.dialAt(ctx, p.addr)
	if err == nil {
		return
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return // another attempt succeeded first, or the Mesh is closed
	case errors.Is(cause, context.DeadlineExceeded):
		// Hide that the attempt reached its deadline: a caller would take it for its own deadline.
		if !errors.Is(err, transport.ErrUnknownHost) && !isMismatch(err) {
			at, ok := errors.AsType[*net.OpError](err)
			err = fmt.Errorf("%w from %s", transport.ErrNoAnswer, p.addr)
			if ok {
				err = &net.OpError{Op: at.Op, Net: at.Net, Addr: at.Addr, Err: transport.ErrNoAnswer}
			}
		}
	}
	p.mesh.stats.countFailed(err)
	kind := ReportUnreachable
	if isMismatch(err) {
		kind = ReportRefused
	}
	// A peer with a different secret or transport is unlikely to be reconfigured soon.
	p.setLastErr(err, kind == ReportRefused || errors.Is(err, transport.ErrCertificate))
	p.mesh.reports.report(Report{kind, p.addr, err})
}

// dialAt dials the peer at an address and greets it.
func (p *peer) dialAt(ctx context.Context, at member.Address) error {
	began := time.Now()
	conn, err := p.mesh.net.Dial(ctx, at)
	if err == nil {
		p.mesh.slots.noteHandshake(time.Since(began))
		p.greet(conn)
	}
	return err
}

// lastRemote returns where the peer last proved its store, if its name cannot be resolved.
func (p *peer) lastRemote() (last member.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.lastErr, transport.ErrUnknownHost) {
		last = p.remote
	}
	return last
}

// isMismatch reports whether a handshake showed that the peer is configured with another transport.
func isMismatch(err error) bool {
	_, differs := errors.AsType[*transport.ConfigMismatchError](err)
	return differs
}

// setLastErr records why there is no connection. If refused is true, it is useless to dial again
// soon.
func (p *peer) setLastErr(err error, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastErr, p.refused = err, refused
	if refused && p.mesh.self.IsObserver() { // it asks another member instead of waiting
		for k := range p.flows {
			p.flows[k].refuse(fmt.Errorf("%w: %s: %w", ErrUnreachable, p.addr, err))
		}
	}
}
