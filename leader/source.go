// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"
)

// Source is a strategy: it decides when this process leads.
type Source interface {
	// State returns what is known now, and a channel that is closed when that changes.
	// It must not block.
	State() (State, <-chan struct{})
	// Resign gives up the leadership of t, a term of this process, and returns when
	// another process may lead. It ends the term with ErrResigned, waits for the
	// functions that run under it, and then lets others lead first; if no other can, this
	// process may lead again, by another term. failed is the error of the work, nil if a
	// caller asked; a Source that decides alone when it leads does not lead again before
	// pause is over, since no function would run. After an error the term may last. For a
	// term that is over, Resign does nothing.
	Resign(t Term, failed error, pause time.Duration) error
	// Close leaves for good, and returns when that is done or ctx is done. No function
	// runs when it is called. After an error it is called again.
	Close(ctx context.Context) error
}

// State is what a Source knows at one moment.
type State struct {
	// Term is the newest one, of this process or another. It is zero before the first.
	Term Term
	// Why is why no process leads; nil if that is not known.
	Why error
}
