// SPDX-License-Identifier: Apache-2.0

package store

import "context"

// Store keeps what a node must remember across restarts. File and Memory implement it, and
// tests wrap one of them.
type Store interface {
	// Load returns the last saved content, or false if nothing was saved.
	Load() (Content, bool, error)
	// Save returns once c is durable. After an error the node stops.
	Save(c Content) error
	// Probe writes a few bytes to the disk of the store and returns once they are durable. It blocks
	// while the disk does not answer.
	Probe() error
	// ResetKey returns the same key at each start. With it, a restarted node can reset the
	// connections of its earlier run.
	ResetKey() ([32]byte, error)
	// Close releases the store.
	Close() error
}

type contextKey struct{}

// NewContext returns a context that makes cluster.Start use s instead of the store of its
// configuration. s is treated as durable. The node closes s, even if Start fails. Tests use
// NewContext to keep a Memory across restarts or to inject failures.
func NewContext(ctx context.Context, s Store) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext returns the store passed to NewContext, or nil.
func FromContext(ctx context.Context) Store {
	s, _ := ctx.Value(contextKey{}).(Store)
	return s
}
