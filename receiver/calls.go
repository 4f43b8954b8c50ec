// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/athena-go/athena/member"
)

// ErrCanceled is the cause of the context of a request whose sender has stopped waiting.
var ErrCanceled = errors.New("receiver: the sender canceled the request")

// maxEarlyCancels bounds the cancels that are remembered.
const maxEarlyCancels = 1 << 14

// callTable holds the requests that are queued or being handled, so that they can be canceled.
// Queue and Concurrency bound their number.
type callTable struct {
	mu      sync.Mutex
	pending map[callKey]context.CancelCauseFunc
	early   earlyCancels
}

// earlyCancels are the latest cancels that named an unknown request. A cancel may arrive before its
// request.
type earlyCancels struct {
	known  map[callKey]bool
	ring   []callKey // may contain keys that are no longer known
	oldest int
}

func (e *earlyCancels) addCancel(key callKey) {
	switch {
	case e.known[key]:
		return
	case e.known == nil:
		e.known = map[callKey]bool{}
	}
	if len(e.ring) < maxEarlyCancels {
		e.ring = append(e.ring, key)
	} else {
		delete(e.known, e.ring[e.oldest])
		e.ring[e.oldest] = key
		e.oldest = (e.oldest + 1) % maxEarlyCancels
	}
	e.known[key] = true
}

type callKey struct {
	from member.Address
	id   uint64
}

// openCall returns the context of a request. A sender must not use the id of a pending request.
func (c *callTable) openCall(ctx context.Context, d Delivery) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d.Call.Timeout > 0 {
		timed, stop := context.WithTimeout(ctx, d.Call.Timeout)
		inner := cancel
		ctx, cancel = timed, func(cause error) { inner(cause); stop() }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := callKey{d.From.Address, d.Call.ID}
	if c.pending[key] != nil {
		cancel(ErrMalformed)
		return nil, fmt.Errorf("%w: two requests with id %d", ErrMalformed, d.Call.ID)
	}
	if c.pending == nil {
		c.pending = map[callKey]context.CancelCauseFunc{}
	}
	c.pending[key] = cancel
	if c.early.known[key] {
		delete(c.early.known, key)
		cancel(ErrCanceled)
	}
	return ctx, nil
}

// cancelCall cancels the context of a request, which is still answered, or remembers to do so when
// the request arrives. Cancels of observers are not remembered, because they could displace those
// of members. Their requests wait for no room, so the cancel among the events follows soon.
func (c *callTable) cancelCall(key callKey) {
	c.mu.Lock()
	cancel := c.pending[key]
	if cancel == nil && !key.from.IsObserver() {
		c.early.addCancel(key)
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel(ErrCanceled)
	}
}

// endCall cancels the context of a request and removes the request.
func (c *callTable) endCall(key callKey, cause error) {
	c.mu.Lock()
	cancel := c.pending[key]
	delete(c.pending, key)
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Cancel cancels the context of a request on behalf of its sender, also if the request arrives
// later. A sender must not use the id again.
func (m *Mux) Cancel(from member.Address, id uint64) {
	if run := m.live.Load(); run != nil {
		run.calls.cancelCall(callKey{from, id})
	}
}

// IsQuiet reports whether no request is queued or being handled.
func (m *Mux) IsQuiet() bool {
	run := m.live.Load()
	if run == nil {
		return true
	}
	run.calls.mu.Lock()
	defer run.calls.mu.Unlock()
	return len(run.calls.pending) == 0
}

// CancelAll cancels the contexts of all requests of a member that can no longer receive
// answers.
func (m *Mux) CancelAll(from member.Address, cause error) {
	run := m.live.Load()
	if run == nil {
		return
	}
	run.calls.mu.Lock()
	defer run.calls.mu.Unlock()
	maps.DeleteFunc(run.calls.early.known, func(key callKey, _ bool) bool { return key.from == from })
	for key, cancel := range run.calls.pending {
		if key.from == from {
			cancel(cause)
		}
	}
}
