// SPDX-License-Identifier: Apache-2.0

package cluster

import "sync"

// cell holds the latest value of something and wakes those who wait for the
// next. A slow reader misses values in between, never the last.
type cell[T any] struct {
	mu      sync.Mutex
	value   T
	changed chan struct{}
}

// set replaces the value.
func (c *cell[T]) set(v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value = v
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
	return c.value, c.changed
}
