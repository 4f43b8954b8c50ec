// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// TestOwedAfterPartOfTheWait checks that restarts within the wait do not change its total length. A
// node that restarts must owe exactly the part that it has not waited for.
func TestOwedAfterPartOfTheWait(t *testing.T) {
	own := message.Timings{
		LeaderTimeout: 2 * time.Second, LeaseTimeout: time.Second, TTLTimeout: 10 * time.Second,
	}
	next := OwedBy(own, message.Timings{})
	for _, before := range []Owed{
		next, {Lease: 3 * time.Second, Hold: time.Second}, {Hold: 20 * time.Second},
		{Lease: 9 * time.Second, Hold: 18 * time.Second},
	} {
		owed, want := before, before.Wait(next)
		for d := time.Second; d <= want; d += time.Second {
			owed = owed.After(time.Second, next)
			if got := owed.Wait(next); got != want-d {
				t.Fatalf("%+v, after %v: it waits %v, want %v", before, d, got, want-d)
			}
		}
		lease, hold := min(before.Lease, own.LeaseTimeout), min(before.Hold, own.HoldTimeout())
		if owed.Lease < lease || owed.Hold < hold {
			t.Errorf("%+v: it owes %+v in the end", before, owed)
		}
	}
}
