// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/athena-go/athena/member"
)

// ErrCanceled is the cause of the context of a request that nobody waits for any
// more.
var ErrCanceled = errors.New("receiver: the asking side waits no longer")

// calls are the requests that wait or are being handled, so that the asking side
// can end them. Queues and Concurrency bound them.
type calls struct {
	mu      sync.Mutex
	pending map[callKey]context.CancelCauseFunc
}

type callKey struct {
	from member.Address
	id   uint64
}

// open makes the context of a request. A number that is in use is a fault of the
// asking side.
func (c *calls) open(ctx context.Context, d Delivery) (context.Context, error) {
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
		return nil, fmt.Errorf("%w: two requests of the number %d", ErrMalformed, d.Call.ID)
	}
	if c.pending == nil {
		c.pending = map[callKey]context.CancelCauseFunc{}
	}
	c.pending[key] = cancel
	return ctx, nil
}

// cancel ends the context of a request that is then still to be answered.
func (c *calls) cancel(key callKey, cause error) {
	c.mu.Lock()
	cancel := c.pending[key]
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// end ends the context of a request and forgets it.
func (c *calls) end(from member.Address, id uint64, cause error) {
	key := callKey{from, id}
	c.mu.Lock()
	cancel := c.pending[key]
	delete(c.pending, key)
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Cancel ends the context of a request that its sender takes back. One that is
// not known has been answered.
func (m *Mux) Cancel(from member.Address, id uint64) {
	if run := m.live.Load(); run != nil {
		run.calls.cancel(callKey{from, id}, ErrCanceled)
	}
}

// IsQuiet reports whether no request is being handled, or waits.
func (m *Mux) IsQuiet() bool {
	run := m.live.Load()
	if run == nil {
		return true
	}
	run.calls.mu.Lock()
	defer run.calls.mu.Unlock()
	return len(run.calls.pending) == 0
}

// CancelAll ends the contexts of all requests of a member whose answers can reach
// it no more.
func (m *Mux) CancelAll(from member.Address, cause error) {
	run := m.live.Load()
	if run == nil {
		return
	}
	run.calls.mu.Lock()
	defer run.calls.mu.Unlock()
	for key, cancel := range run.calls.pending {
		if key.from == from {
			cancel(cause)
		}
	}
}
