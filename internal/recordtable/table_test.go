// SPDX-License-Identifier: Apache-2.0

package recordtable

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/athena-go/athena/leader"
)

var errEnded = errors.New("ended")

// countValues returns how many values a channel delivers before it is closed.
func countValues(changed <-chan struct{}) (n int) {
	for range changed {
		n++
	}
	return n
}

// TestWatchEndsWithItsNode checks what happens when the node stops. The channels of Watch are
// closed, a later Watch returns a closed channel, and List returns ErrClosed with the cause.
func TestWatchEndsWithItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancelCause(t.Context())
		table := New(Config{Life: life})
		before := table.Watch(t.Context(), "")
		end(errEnded)
		if n := countValues(before); n != 1 {
			t.Errorf("a watch from before the end: got %d values, want 1", n)
		}
		if n := countValues(table.Watch(t.Context(), "")); n != 1 {
			t.Errorf("a watch from after the end: got %d values, want 1", n)
		}
		_, err := table.List(t.Context(), "")
		if !errors.Is(err, leader.ErrClosed) || !errors.Is(err, errEnded) {
			t.Errorf("List: got %v, want ErrClosed and the cause", err)
		}
	})
}

// TestWatchEndsWithItsContext checks that the channel of Watch is closed when its context is done,
// and that the table forgets it.
func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Config{Life: t.Context()})
		ctx, cancel := context.WithCancel(t.Context())
		changed := table.Watch(ctx, "")
		cancel()
		if n := countValues(changed); n != 1 {
			t.Errorf("got %d values, want 1", n)
		}
		if n := len(table.watchers); n != 0 {
			t.Errorf("%d watchers are left", n)
		}
	})
}

// TestRunsDoNotShareIDs checks that the answer to a request of an earlier run matches no request of
// this one: it would report that this request was carried out.
func TestRunsDoNotShareIDs(t *testing.T) {
	ids := map[uint64]bool{}
	for range 8 {
		table := New(Config{Life: t.Context()})
		for n := range uint64(MaxCommits) {
			id := table.lastRequest + 1 + n
			if ids[id] {
				t.Fatalf("two runs use the id %d", id)
			}
			ids[id] = true
		}
	}
}
