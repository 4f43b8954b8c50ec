// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// MaxDepth is the greatest Depth. A request of this depth never waits for a free handler.
const MaxDepth = 4

// StallTimeout is how long a request waits while all handlers of its type are busy and none of them
// returns. The sender then gets ErrBusy. A handler that runs for longer is slow (SlowHandler).
const StallTimeout = 5 * time.Second

// idleChecks is how often a waiting request checks in StallTimeout whether a handler has returned.
const idleChecks = 5

type depthKey struct{}

// Depth returns the length of the chain of handlers that led to ctx, at most MaxDepth. It is 0 if
// ctx is not the context of a handler, 1 in the handler of an event or request that was sent
// outside of handlers, and 2 or more in the handler of an event that a handler sent with its
// context. An event, unlike a request, counts as 2 at most.
//
// A handler of one depth waits only for handlers of a greater depth, and those of the greatest
// depth do not wait. Therefore, handlers never wait for each other in a circle (docs/events.md).
func Depth(ctx context.Context) int {
	depth, _ := ctx.Value(depthKey{}).(int)
	return depth
}

// handlerContexts returns the contexts of the handlers of deliveries of each depth.
func handlerContexts(parent context.Context) (contexts [MaxDepth + 1]context.Context) {
	for depth := range contexts {
		contexts[depth] = context.WithValue(parent, depthKey{}, min(depth+1, MaxDepth))
	}
	return contexts
}

// slots bounds the running handlers of a type. It keeps some for the events and requests of
// handlers, which would otherwise wait for handlers that wait for them.
type slots struct {
	// pools[d] is for deliveries of depth d or more. A pool is nil if it would be empty.
	pools    [MaxDepth]chan struct{}
	limit    int
	released [MaxDepth]atomic.Uint64 // by pool
	// stuckAt[d] is countReturned(d)+1 when a request of depth d gave up because no handler returned.
	// Until one returns, further requests do not wait.
	stuckAt [MaxDepth]atomic.Uint64
}

// newSlots keeps one slot in 32 for each depth above 0. Fewer slots than 32 are all for every
// depth.
func newSlots(limit int) *slots {
	s := &slots{limit: limit}
	kept := limit / 32
	s.pools[0] = make(chan struct{}, limit-kept*(MaxDepth-1))
	for d := 1; d < MaxDepth && kept > 0; d++ {
		s.pools[d] = make(chan struct{}, kept)
	}
	return s
}

// takeSlot takes a slot and returns its pool, to which the caller must return it. It blocks until
// there is a slot, or until done is closed: then it returns nil. For a request it also returns nil
// if no slot was returned for StallTimeout, and if the request has MaxDepth.
func (s *slots) takeSlot(depth int, request bool, done <-chan struct{}) chan struct{} {
	select { // most find a slot here, and a select of one channel is cheap
	case s.pools[0] <- struct{}{}:
		return s.pools[0]
	default:
	}
	var pools [MaxDepth]chan struct{}
	copy(pools[:], s.pools[:min(depth+1, MaxDepth)])
	select {
	case pools[1] <- struct{}{}:
		return pools[1]
	case pools[2] <- struct{}{}:
		return pools[2]
	case pools[3] <- struct{}{}:
		return pools[3]
	default:
	}
	var check <-chan time.Time
	released, idle := s.countReturned(depth), 0
	if request {
		if depth >= MaxDepth || s.stuckAt[depth].Load() == released+1 {
			return nil
		}
		ticker := time.NewTicker(StallTimeout / idleChecks)
		defer ticker.Stop()
		check = ticker.C
	}
	for {
		select {
		case pools[0] <- struct{}{}:
			return pools[0]
		case pools[1] <- struct{}{}:
			return pools[1]
		case pools[2] <- struct{}{}:
			return pools[2]
		case pools[3] <- struct{}{}:
			return pools[3]
		case <-done:
			return nil
		case <-check:
			if now := s.countReturned(depth); now != released {
				released, idle = now, 0
			} else if idle++; idle == idleChecks {
				s.stuckAt[depth].Store(released + 1)
				return nil
			}
		}
	}
}

// countReturned counts the returns of slots that a delivery of the given depth could take.
func (s *slots) countReturned(depth int) (released uint64) {
	for d := range min(depth+1, MaxDepth) {
		released += s.released[d].Load()
	}
	return released
}

// returnSlot returns a slot to its pool.
func (s *slots) returnSlot(pool chan struct{}) {
	<-pool
	s.released[slices.Index(s.pools[:], pool)].Add(1)
}

// busyError returns the error of a request that got no slot.
func (s *slots) busyError(name string) error {
	return fmt.Errorf("%w: all %d handlers of %s are running, and none has returned for %v",
		ErrBusy, s.limit, name, StallTimeout)
}
