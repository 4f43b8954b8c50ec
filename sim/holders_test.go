// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
)

// holds reports whether a process trusts any record.
func (c *Cluster) holds(i int) bool {
	p := c.procs[i]
	for _, key := range c.keys {
		token := member.Number{}
		if p.up() {
			token, _ = p.machine.Holds(p.clock.at(c.now), key)
		}
		if !token.IsZero() {
			return true
		}
	}
	return false
}

// take lets a process take the only record.
func (c *Cluster) take(i int) {
	c.ask(i, message.RecordRequest{
		Conditions: []message.Condition{{Key: c.keys[0]}},
		Changes:    []message.Change{{Key: c.keys[0], Owned: true}},
	})
}

// TestALeaderWithoutAuthorityExtendsNobody: protocol.md section 10. A leader is cut off
// with a member that owns a record. It goes on to answer that member until it steps
// down, and meanwhile the others have a leader, and take the record.
func TestALeaderWithoutAuthorityExtendsNobody(t *testing.T) {
	c := formed(t, steady(5))
	c.keys = []string{"k"}
	tm := c.setup.Timings
	leader := c.Leader()
	owner, other := (leader+1)%5, (leader+2)%5
	c.take(owner)
	if !c.RunUntil(tm.HeartbeatTimeout, func() bool { return c.holds(owner) }) {
		t.Fatalf("n%d never owns the record%s", owner+1, c.Describe())
	}
	for i := range 5 {
		if i != leader && i != owner {
			c.Cut(i, leader)
			c.Cut(i, owner)
		}
	}
	for range 60 {
		c.RunFor(tm.LeaderTimeout / 10)
		if !c.holds(other) {
			c.take(other)
		}
	}
	sound(t, c)
	if !c.holds(other) {
		t.Fatalf("nobody takes the record, and nothing is shown%s", c.Describe())
	}
}
