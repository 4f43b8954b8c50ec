// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"
	"sync/atomic"
)

// cell holds the latest value of something and wakes those who wait for the
// next. A slow reader misses values in between, never the last.
type cell[T any] struct {
	latest  atomic.Pointer[T] // nil before the first; what it points to does not change
	mu      sync.Mutex
	changed chan struct{}
}

// set replaces the value.
func (c *cell[T]) set(v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest.Store(&v)
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// get returns the value, and what is closed when there is another.
func (c *cell[T]) get() (T, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	if v := c.latest.Load(); v != nil {
		return *v, c.changed
	}
	var none T
	return none, c.changed
}
