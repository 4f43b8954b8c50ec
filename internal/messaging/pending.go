// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// MaxPending bounds the pending calls of a node: requests, and sends with an outcome.
const MaxPending = 1 << 16

var errPending = fmt.Errorf("%w: %d outcomes are pending", ErrBusy, MaxPending)

// pendingCall is a call whose answer has not arrived. settle is called once, with the
// answer or an error, and must not block.
type pendingCall struct {
	to     member.Address
	kind   transport.Kind // of the call's frame
	settle func(a wire.Answer, err error)
}

// isRequest reports whether the handler must be canceled if the caller stops waiting.
func (c pendingCall) isRequest() bool {
	return c.kind == transport.Request || c.kind == transport.Answer
}

// pendingCalls holds the pending calls by id.
type pendingCalls struct {
	room chan struct{} // holds one entry for each call

	mu     sync.Mutex
	lastID uint64
	closed bool // no more calls can be added
	calls  map[uint64]pendingCall
}

// newPendingCalls starts the ids at a random number. If ids started at 1, the late answer to a call
// of this node's previous run could match a call of this run.
func newPendingCalls() pendingCalls {
	return pendingCalls{
		room:   make(chan struct{}, MaxPending),
		lastID: rand.Uint64() >> 1, // leaves 2^63 ids, so lastID never wraps to 0
		calls:  map[uint64]pendingCall{},
	}
}

// add adds a call and returns its id. While there are MaxPending calls, it blocks for at most
// mesh.SendTimeout, and not at all in a handler: other handlers may wait for it.
func (p *pendingCalls) add(
	ctx context.Context, quit <-chan struct{}, c pendingCall,
) (uint64, error) {
	select {
	case p.room <- struct{}{}:
	default:
		if receiver.Depth(ctx) > 0 {
			return 0, errPending
		}
		limit := time.NewTimer(mesh.SendTimeout)
		defer limit.Stop()
		select {
		case p.room <- struct{}{}:
		case <-limit.C:
			return 0, errPending
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
		case <-quit:
			return 0, ErrClosed
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		<-p.room
		return 0, ErrClosed
	}
	p.lastID++
	p.calls[p.lastID] = c
	return p.lastID, nil
}

// remove removes a call. It returns false if the call was removed before, and so is settled or will
// be soon.
func (p *pendingCalls) remove(id uint64) bool {
	_, ok := p.take(id, member.Address{})
	return ok
}

// isOnly reports whether there is at most one call.
func (p *pendingCalls) isOnly() bool { return len(p.room) <= 1 }

// complete settles a call with its answer. It returns false if the call is unknown, already
// settled, or was made to a different member.
func (p *pendingCalls) complete(from member.Address, a wire.Answer) bool {
	c, ok := p.take(a.ID, from)
	if ok {
		c.settle(a, nil)
	}
	return ok
}

// close refuses further calls, and removes and returns the pending requests. It keeps sends,
// because their outcomes may still arrive.
func (p *pendingCalls) close() map[uint64]pendingCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	requests := map[uint64]pendingCall{}
	for id, c := range p.calls {
		if c.isRequest() {
			requests[id] = c
			delete(p.calls, id)
			<-p.room
		}
	}
	return requests
}

// take removes and returns a call to a member. The zero address stands for any member.
func (p *pendingCalls) take(id uint64, to member.Address) (pendingCall, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.calls[id]
	if !ok || c.to != to && !to.IsZero() {
		return c, false
	}
	delete(p.calls, id)
	<-p.room
	return c, true
}

// fail settles all calls to a member with err. The zero address stands for all members.
func (p *pendingCalls) fail(to member.Address, err error) {
	p.mu.Lock()
	var failed []pendingCall
	for id, c := range p.calls {
		if to.IsZero() || c.to == to {
			failed = append(failed, c)
			delete(p.calls, id)
			<-p.room
		}
	}
	p.mu.Unlock()
	for _, c := range failed {
		c.settle(wire.Answer{}, err)
	}
}
