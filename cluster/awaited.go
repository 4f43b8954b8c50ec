// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// MaxAwaited bounds the outcomes that a node awaits at once, of requests and of
// sends with WithOutcome.
const MaxAwaited = 1 << 16

// awaited is an event whose outcome somebody awaits. settle is called once, with
// the answer or with why there is none, and must not block.
type awaited struct {
	to      member.Address
	request bool // whose handler ends when nobody waits for it any more
	settle  func(a wire.Answer, err error)
}

// awaiting are the awaited outcomes by the numbers of their calls.
type awaiting struct {
	room chan struct{} // an entry for each

	mu    sync.Mutex
	last  uint64
	ended bool // nothing is awaited any more that is not yet
	calls map[uint64]awaited
}

// newAwaiting begins to count anywhere: an answer to an earlier run of this node,
// whose handler took its time, must not meet a call of this one, nor a call of this
// one that is still handled.
func newAwaiting() awaiting {
	return awaiting{
		room:  make(chan struct{}, MaxAwaited),
		last:  rand.Uint64() >> 1, // no run comes to the end, and to 0
		calls: map[uint64]awaited{},
	}
}

// open gives an event its number, once there is room.
func (w *awaiting) open(ctx context.Context, quit <-chan struct{}, a awaited) (uint64, error) {
	select {
	case w.room <- struct{}{}:
	default:
		select {
		case w.room <- struct{}{}:
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
		case <-quit:
			return 0, ErrClosed
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		<-w.room
		return 0, ErrClosed
	}
	w.last++
	w.calls[w.last] = a
	return w.last, nil
}

// close forgets a call; false when it was settled already, or is about to be.
func (w *awaiting) close(id uint64) bool {
	_, open := w.take(id, member.Address{})
	return open
}

// alone reports whether one outcome at most is awaited.
func (w *awaiting) alone() bool { return len(w.room) <= 1 }

// settle hands over what came from a member. Whoever else has the number, or
// nobody has it any more: then it is nobody's.
func (w *awaiting) settle(from member.Address, a wire.Answer) bool {
	c, open := w.take(a.ID, from)
	if open {
		c.settle(a, nil)
	}
	return open
}

// end opens no more calls, and gives up the requests among those that are open.
func (w *awaiting) end() map[uint64]awaited {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	requests := map[uint64]awaited{}
	for id, c := range w.calls {
		if c.request {
			requests[id] = c
			delete(w.calls, id)
			<-w.room
		}
	}
	return requests
}

// take removes a call to a member, the zero address for any.
func (w *awaiting) take(id uint64, to member.Address) (awaited, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, open := w.calls[id]
	if !open || c.to != to && !to.IsZero() {
		return c, false
	}
	delete(w.calls, id)
	<-w.room
	return c, true
}

// lose settles all calls to a member, the zero address for all.
func (w *awaiting) lose(to member.Address, err error) {
	w.mu.Lock()
	var lost []awaited
	for id, c := range w.calls {
		if to.IsZero() || c.to == to {
			lost = append(lost, c)
			delete(w.calls, id)
			<-w.room
		}
	}
	w.mu.Unlock()
	for _, c := range lost {
		c.settle(wire.Answer{}, err)
	}
}
