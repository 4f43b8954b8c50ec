// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Destination sends frames to one address. It looks up the peer once, not for each frame.
type Destination struct {
	mesh *Mesh
	addr member.Address
	peer atomic.Pointer[peer] // nil before the first frame
}

// Destination returns a Destination for an address.
func (m *Mesh) Destination(addr member.Address) *Destination {
	return &Destination{mesh: m, addr: addr}
}

// holdPeer is like Mesh.holdPeer.
func (d *Destination) holdPeer() (*peer, error) {
	if p := d.peer.Load(); p != nil {
		if p.holders.Add(1); !p.forgotten.Load() {
			return p, nil
		}
		p.release()
	}
	p, err := d.mesh.holdPeer(d.addr)
	if err == nil {
		d.peer.Store(p)
	}
	return p, err
}

// SendMode modifies a Send. The zero value waits for room.
type SendMode struct {
	Flush bool // write the frame immediately, without waiting for later frames
	Try   bool // do not wait for room on a connection
	// Urgent sends without waiting for room, up to maxUrgentBytes.
	Urgent bool
}

// Send sends a frame of a kind other than System and returns once the connection has accepted it;
// the caller may then reuse the frame. While the peer is slow, Send blocks (backpressure) until ctx
// is done or the peer is known to be stuck. Without a connection it blocks for at most
// SendTimeout. An error means that the frame was not sent: it wraps ErrClosed, ErrTooLarge,
// ErrNoRoom, ErrUnreachable or the cause of ctx.
func (d *Destination) Send(
	ctx context.Context, k transport.Kind, frame []byte, mode SendMode,
) error {
	if limit := d.mesh.cfg.CustomBytes; len(frame) == 0 || len(frame) > limit {
		d.mesh.stats.countDrop(DropTooLarge, 1)
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrTooLarge, len(frame), limit)
	}
	p, err := d.holdPeer()
	if err != nil {
		return err
	}
	defer p.release()
	return p.send(ctx, &p.flows[k], frame, mode)
}

// TrySend sends a frame without waiting, or returns false.
func (d *Destination) TrySend(k transport.Kind, frame []byte, mode SendMode) bool {
	if len(frame) == 0 || len(frame) > d.mesh.cfg.CustomBytes {
		return false // Send would return the reason
	}
	p, err := d.holdPeer()
	if err != nil {
		return false
	}
	defer p.release()
	l, err := p.offerFrame(&p.flows[k], frame, mode)
	if err != nil || l == nil {
		return false
	}
	l.signalWriter(k)
	return true
}

// SendUrgent sends a frame that needs no room and precedes waiting Sends. Without a connection, it
// keeps the frame for the next one to the same run of the peer, and drops it if a later run
// connects. The caller must bound the number of urgent frames.
func (d *Destination) SendUrgent(k transport.Kind, frame []byte) {
	p, err := d.holdPeer()
	if err != nil {
		return // the Mesh is closed, or has too many peers
	}
	defer p.release()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f := &p.flows[k]; {
	case p.leaving:
	case p.cur != nil:
		f.addFrame(frame)
		p.cur.signalWriter(k)
	default:
		f.addFrame(frame)
		f.kept++
	}
}

// send implements Destination.Send for one peer.
func (p *peer) send(ctx context.Context, f *flow, frame []byte, mode SendMode) error {
	if ctx.Err() != nil {
		return p.sendFailure(context.Cause(ctx))
	}
	l, err := p.offerFrame(f, frame, mode)
	switch {
	case err != nil:
		return err
	case l == nil && p.addr.IsObserver() && !p.isConnected():
		return p.sendFailure(nil) // no node dials an observer
	case l == nil:
		return p.sendWaiting(ctx, f, frame)
	case !mode.Flush || !l.tryFlush(f.kind):
		l.signalWriter(f.kind)
	}
	return nil
}

// sendWaiting queues a Send behind the earlier ones and waits until its frame is accepted.
func (p *peer) sendWaiting(ctx context.Context, f *flow, frame []byte) error {
	w := &waitingSend{frame: frame, done: make(chan struct{})}
	p.enqueueSend(f, w)
	defer p.addSenders(f.kind, -1)
	timeout := time.NewTimer(SendTimeout)
	defer timeout.Stop()
	for {
		var cause error
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-timeout.C:
			if p.isConnected() {
				timeout.Reset(SendTimeout)
				continue
			}
		}
		if p.withdrawSend(f, w) {
			return p.sendFailure(cause)
		}
		return w.err
	}
}

// enqueueSend queues a Send that waits for room.
func (p *peer) enqueueSend(f *flow, w *waitingSend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.senders++
	f.waiting = append(f.waiting, w)
	switch {
	case p.leaving:
		f.refuse(ErrClosed)
	case p.cur != nil:
		f.admit() // there may be room now, although offerFrame found none
	}
	p.wakeOrDial(f.kind)
}

// withdrawSend removes a waiting Send from the queue. It returns false if the frame was already
// accepted or the Send has failed.
func (p *peer) withdrawSend(f *flow, w *waitingSend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(f.waiting, w)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	if p.cur != nil {
		f.admit() // a smaller frame may have room
		p.cur.signalWriter(f.kind)
	}
	return true
}

// addSenders adds the given change to the number of callers that need a connection.
func (p *peer) addSenders(k transport.Kind, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.senders += change
	p.wakeOrDial(k)
}

// offerFrame queues a frame if there is a connection with room for it, and returns its link. The
// caller must then wake the writer of the link or flush the frame. It returns no link and no error
// if the caller has to wait for a connection or for room.
func (p *peer) offerFrame(f *flow, frame []byte, mode SendMode) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leaving:
		return nil, ErrClosed
	case p.cur == nil:
		return nil, nil
	case len(f.waiting) == 0 && f.push(frame):
		return p.cur, nil
	case mode.Urgent && len(f.pending) < maxUrgentBytes:
		f.addFrame(frame)
		return p.cur, nil
	case f.stuck != nil:
		return nil, f.stuck
	case mode.Try:
		return nil, fmt.Errorf("%w: %s", ErrNoRoom, p.addr)
	}
	return nil, nil
}

func (p *peer) isConnected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil
}

// sendFailure returns why a frame was not sent. cause is nil if SendTimeout has passed.
func (p *peer) sendFailure(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leaving:
		return ErrClosed
	case p.cur != nil:
		return fmt.Errorf("transport: %s does not accept frames: it is slow or down: %w", p.addr, cause)
	case cause == nil:
		cause = p.lastErr
	case p.lastErr != nil:
		cause = fmt.Errorf("%w (%w)", cause, p.lastErr)
	}
	if cause == nil {
		return fmt.Errorf("%w: %s", ErrUnreachable, p.addr)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, p.addr, cause)
}
