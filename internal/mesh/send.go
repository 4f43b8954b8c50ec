// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/transport"
)

// send gives a frame to the connection; now says that it shall not be gathered with
// others.
func (p *peer) send(ctx context.Context, f *flow, frame []byte, now bool) error {
	if ctx.Err() != nil {
		return p.unsent(context.Cause(ctx))
	}
	l, err := p.offer(f, frame)
	switch {
	case err != nil:
		return err
	case l == nil:
		return p.sendWaiting(ctx, f, frame)
	case !now || !l.tryFlush(f.kind):
		l.signalWriter(f.kind)
	}
	return nil
}

// sendWaiting waits until the frame is taken, behind the Sends that came before.
func (p *peer) sendWaiting(ctx context.Context, f *flow, frame []byte) error {
	w := &waiter{frame: frame, done: make(chan struct{})}
	p.enqueue(f, w)
	defer p.await(f.kind, -1)
	patience := time.NewTimer(SendTimeout)
	defer patience.Stop()
	for {
		var cause error
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-patience.C:
			if p.connected() {
				patience.Reset(SendTimeout)
				continue
			}
		}
		if p.withdraw(f, w) {
			return p.unsent(cause)
		}
		return w.err
	}
}

// enqueue makes a Send wait.
func (p *peer) enqueue(f *flow, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.senders++
	f.waiting = append(f.waiting, w)
	switch {
	case p.leaving:
		f.refuse(ErrClosed)
	case p.cur != nil:
		f.admit() // there may be room since it was looked for
	}
	p.urge(f.kind)
}

// withdraw ends the wait of a Send; false when its frame was taken, or it has an
// error.
func (p *peer) withdraw(f *flow, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(f.waiting, w)
	if i < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	return true
}

// await counts the Sends that want a connection.
func (p *peer) await(k transport.Kind, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.senders += change
	p.urge(k)
}

// offer takes a frame when there is a connection with room for it, whose writer has
// then to be told.
func (p *peer) offer(f *flow, frame []byte) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leaving:
		return nil, ErrClosed
	case p.cur == nil, len(f.waiting) > 0, !f.push(frame):
		return nil, nil
	}
	return p.cur, nil
}

func (p *peer) connected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil
}

// unsent says why a frame was not sent; cause is nil when it took too long.
func (p *peer) unsent(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leaving:
		return ErrClosed
	case p.cur != nil:
		return fmt.Errorf("transport: %s takes nothing, it is slow or gone: %w", p.addr, cause)
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
