// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"

	"github.com/athena-go/athena/member"
)

// TestSilentMembersOfALargeCluster checks that the statuses of members that fall silent one after
// the other, and are heard again, change in few revisions if the cluster is large.
func TestSilentMembersOfALargeCluster(t *testing.T) {
	for _, tc := range []struct{ size, revisions int }{
		{9, 8},  // each of four members has its own two revisions
		{40, 2}, // the first change, and all others together a state interval of 200 ms later
	} {
		b := aQuorateLeader(t, tc.size)
		const silent = 4
		keep := func(from int) {
			for i := from; i < tc.size; i++ {
				b.hand(b.keepAlive(i, b.now))
			}
		}
		step := 10 * time.Millisecond
		for i := range silent { // the members 1 to 4 are heard for the last time, one after the other
			b.run(step)
			keep(1 + i)
		}
		for b.status(0, 1) == member.Active {
			b.run(step / 2)
			keep(1 + silent)
		}
		// Later the members that fell silent are heard again, in pairs of changes within the interval.
		before := b.nodes[0].Durable().Held.Revision - 1
		for range 6 {
			b.run(step)
			keep(1 + silent)
		}
		for i := range silent {
			b.run(step)
			b.hand(b.keepAlive(1+i, b.now))
		}
		b.run(150 * time.Millisecond)
		for i := range silent {
			if s := b.status(0, 1+i); s != member.Active {
				t.Errorf("%d members: n%d is %v, want active\n%s", tc.size, 2+i, s, b)
			}
		}
		if got := int(b.nodes[0].Durable().Held.Revision - before); got > tc.revisions {
			t.Errorf("%d members: got %d revisions, want at most %d", tc.size, got, tc.revisions)
		}
	}
}
