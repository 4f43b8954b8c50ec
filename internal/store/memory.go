// SPDX-License-Identifier: Apache-2.0

package store

import "sync"

// Memory is a store that forgets everything with the process. A node on it is
// a new member after each restart. While a majority of a cluster's seeds
// restarts or is new at the same time, a cluster of such nodes may elect two
// leaders; File has no such gap. Its methods may be called from anywhere and
// do not block.
type Memory struct {
	mu    sync.Mutex
	saved bool
	c     Content
	key   [32]byte
}

// NewMemory returns an empty store with a reset key. A key that is the same at
// the next start, and known to nobody else, lets peers notice that start at
// once; the zero key stands for one that is made at random.
func NewMemory(key [32]byte) *Memory { return &Memory{key: key} }

// Load returns what was saved last; false when nothing was. It never fails.
func (m *Memory) Load() (Content, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c, m.saved, nil
}

// Save keeps c, which must not be changed afterwards. It never fails.
func (m *Memory) Save(c Content) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c, m.saved = c, true
	return nil
}

// ResetKey returns the key of NewMemory. It never fails.
func (m *Memory) ResetKey() ([32]byte, error) { return m.key, nil }

// Close does nothing.
func (m *Memory) Close() error { return nil }
