// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// TestTheValueOfTheHighestBallotIsAdopted tests protocol.md section 6, step 4. The leader has died.
// The last voter proposes a value that only it accepts. The first voter then proposes another value
// at the same version. This value is chosen, but the first voter does not learn it. The others see
// both values, the older one last.
func TestTheValueOfTheHighestBallotIsAdopted(t *testing.T) {
	c := formed(t, steady(5))
	var voters []int
	for i := range c.Processes() {
		if i != c.Leader() {
			voters = append(voters, i)
		}
	}
	first, last := voters[0], voters[3]
	for _, i := range voters[:3] {
		c.Drain(i) // so that the last voter proposes first
	}
	c.Crash(c.Leader())
	c.Interrupt = func(i int, out statemachine.Output) (sent int, crash bool) {
		for _, m := range out.Send {
			p, ok := m.Body.(message.Proposal)
			switch {
			case !ok || p.Stage != message.Formal:
			case i == last:
				c.Isolate(last)
			case i == first:
				for _, o := range voters[1:] {
					c.CutOneWay(o, first)
				}
			}
		}
		return 0, false
	}
	limit := 2 * c.setup.Timings.TTLTimeout
	accepted := func(i int) bool {
		return c.Durable(i).Accepted.ID.Ballot.Proposer == c.procs[first].cfg.Address
	}
	if !c.RunUntil(limit, func() bool { return accepted(voters[1]) && accepted(voters[2]) }) {
		t.Fatalf("no value was chosen%s", c.Describe())
	}
	c.Isolate(first)
	c.Mend(last, voters[1])
	c.Mend(last, voters[2])
	if !c.RunUntil(limit, func() bool { return c.Leader() >= 0 }) {
		sound(t, c)
		t.Fatalf("L1 at %v: no leader%s", c.Now(), c.Describe())
	}
	sound(t, c)
}
