// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"sync"

	"github.com/athena-go/athena/leader"
)

// calls are the calls of Do of one handle.
type calls struct {
	life    context.Context // ends with Close
	end     context.CancelCauseFunc
	running sync.WaitGroup
	idle    chan struct{} // closed once the handle is closed and nothing runs

	mu     sync.Mutex
	closed bool
}

func newCalls() *calls {
	c := &calls{idle: make(chan struct{})}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// beginCall registers a call, which must call running.Done when it returns.
func (c *calls) beginCall() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return leader.ErrClosed
	}
	c.running.Add(1)
	return nil
}

// closeCalls ends the contexts of the calls, refuses further calls, and waits until nothing runs.
// It returns the cause of ctx if ctx is done first.
func (c *calls) closeCalls(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.end(leader.ErrClosed)
		go func() {
			c.running.Wait()
			close(c.idle)
		}()
	}
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
