// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"
)

// Source is a strategy: it decides when this process leads.
type Source interface {
	// State returns the current state and a channel that is closed at the next change. It must not
	// block.
	State() (State, <-chan struct{})
	// Resign ends t, a term of this process, with ErrResigned. It waits for the functions that run
	// under t, and lets other processes lead first. If no other process can lead, this process may
	// lead again in another term. Resign returns as soon as another process may lead. failed is the
	// error of the work, or nil if a caller resigned. A Source that can choose when it leads must not
	// lead again within pause, because no function would run. If Resign returns an error, the term may
	// continue. If t has already ended, Resign does nothing.
	Resign(t Term, failed error, pause time.Duration) error
	// Close leaves permanently. It returns when it has left or ctx is done. No function is running
	// when Close is called. If Close returns an error, it may be called again.
	Close(ctx context.Context) error
}

// State is the state of a Source at one moment.
type State struct {
	// Term is the newest term, of this process or another. It is zero before the first term.
	Term Term
	// Why is the reason that no process leads; nil if it is unknown.
	Why error
}
