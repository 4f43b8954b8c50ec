// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// stay selects the processes that are not restarted.
type stay struct{ leader, owner bool }

// regrouped forms a cluster and makes a process that does not lead acquire a record. The argument
// who selects the processes that keep running. All others, a majority, are restarted with other
// timings. If the argument again is positive, they are restarted repeatedly during their wait. Then
// the cluster has time to elect a leader, and the restarted processes request the record.
func regrouped(t *testing.T, old, next message.Timings, who stay, again time.Duration) {
	t.Helper()
	s := steady(3)
	if who.leader && who.owner {
		s = steady(5)
	}
	s.Timings = old
	c := formed(t, s)
	c.RunFor(2 * old.LeaderTimeout)
	leader, owner, _ := owned(t, c)
	var others []int
	for i := range c.procs {
		if i == leader && who.leader || i == owner && who.owner {
			continue
		}
		others = append(others, i)
		c.Reconfigure(i, next, message.Timings{})
	}
	end, taken := c.Now()+3*old.LeaderTimeout+3*old.HoldTimeout(), false
	for c.Now() < end && c.Violation() == nil {
		for _, i := range others {
			switch {
			case again > 0 && c.procs[i].starting != nil:
				c.Restart(i)
			case c.Up(i) && !taken:
				c.take(i, "k")
			}
		}
		c.RunFor(max(again, old.LeaderTimeout/20))
		taken = taken || slices.ContainsFunc(others, func(i int) bool {
			return !c.Holds(i, "k").IsZero()
		})
	}
	sound(t, c)
	if l := c.Leader(); !slices.Contains(others, l) || !taken {
		t.Fatalf("leader %d, record acquired: %v: the test proves nothing%s", l, taken, c.Describe())
	}
}

// lease returns timings with the given LeaseTimeout and the usual HoldTimeout.
func lease(d time.Duration) message.Timings {
	t := fast()
	t.LeaseTimeout, t.TTLTimeout = d, t.LeaderTimeout
	return t
}

// TestShorterLeaseIsWaitedFor tests protocol.md section 5. A leader keeps its timings while
// two of three restart with a shorter LeaseTimeout.
func TestShorterLeaseIsWaitedFor(t *testing.T) {
	regrouped(t, lease(5*time.Second), lease(2*time.Second), stay{leader: true}, 0)
}

// TestShorterHoldIsWaitedFor tests protocol.md section 10. The owner of a record keeps its
// timings while two of three restart with a shorter HoldTimeout.
func TestShorterHoldIsWaitedFor(t *testing.T) {
	old, next := fast(), fast()
	old.LeaseTimeout, next.LeaseTimeout = 2*time.Second, 2*time.Second
	old.LeaderTimeout, next.LeaderTimeout = 10*time.Second, 2*time.Second
	regrouped(t, old, next, stay{owner: true}, 0)
}

// TestShorterTimingsAddUp tests protocol.md section 10. The leader and the owner of a record keep
// their timings while the three other processes restart with shorter timings. The leader extends
// the record while the acknowledgements of these three give it authority.
func TestShorterTimingsAddUp(t *testing.T) {
	old, next := fast(), fast()
	old.LeaseTimeout, next.LeaseTimeout = 10*time.Second, 2*time.Second
	old.LeaderTimeout, next.LeaderTimeout = 10*time.Second, 2*time.Second
	regrouped(t, old, next, stay{leader: true, owner: true}, 0)
}

// TestSecondRestartOwesTheRest is like TestShorterLeaseIsWaitedFor, but each of the two processes
// restarts again during its wait.
func TestSecondRestartOwesTheRest(t *testing.T) {
	regrouped(t, lease(5*time.Second), lease(2*time.Second), stay{leader: true}, 250*time.Millisecond)
}
