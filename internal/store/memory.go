// SPDX-License-Identifier: Apache-2.0

package store

import "sync"

// Memory is a store that lasts as long as the process. A node that uses it is a new member after
// each restart. If a majority of the seeds of a cluster restarts or is new at the same time, nodes
// with a Memory may elect two leaders. Nodes with a File cannot. The methods of Memory may be
// called concurrently and do not block.
type Memory struct {
	mu    sync.Mutex
	saved bool
	c     Content
	key   [32]byte
}

// NewMemory returns an empty store with a reset key. If the node has the same secret key at its
// next start, its peers notice that start immediately. With the zero key, the node uses a random
// key.
func NewMemory(key [32]byte) *Memory { return &Memory{key: key} }

// Load returns the last saved content, or false if nothing was saved. It never fails.
func (m *Memory) Load() (Content, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c, m.saved, nil
}

// Save keeps c, which the caller must not change afterwards. It never fails.
func (m *Memory) Save(c Content) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c, m.saved = c, true
	return nil
}

// Probe does nothing: no disk is involved.
func (m *Memory) Probe() error { return nil }

// ResetKey returns the key passed to NewMemory. It never fails.
func (m *Memory) ResetKey() ([32]byte, error) { return m.key, nil }

// Close does nothing.
func (m *Memory) Close() error { return nil }
