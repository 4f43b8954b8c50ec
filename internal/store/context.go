// SPDX-License-Identifier: Apache-2.0

package store

import "context"

// Store keeps what a node must remember over restarts: a File, a Memory, or what a test
// puts around one of them.
type Store interface {
	// Load returns what was saved last; false if nothing was.
	Load() (Content, bool, error)
	// Save returns once c is durable. After an error the node ends.
	Save(c Content) error
	// ResetKey returns the same key at every start: with it a restarted node ends the
	// connections of its earlier run.
	ResetKey() ([32]byte, error)
	// Close ends the use of the store.
	Close() error
}

type contextKey struct{}

// NewContext returns a context with which cluster.Start uses s in place of the store that
// its configuration names. s counts as durable. The node closes it, also if Start fails.
// Tests keep a Memory over restarts in this way, or make a store fail.
func NewContext(ctx context.Context, s Store) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext returns the store of NewContext, nil without one.
func FromContext(ctx context.Context) Store {
	s, _ := ctx.Value(contextKey{}).(Store)
	return s
}
