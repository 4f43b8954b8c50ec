// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/athena-go/athena/message"
)

// take lets a process take a record, as a latch is taken.
func (c *Cluster) take(i int, key string) {
	c.Commit(i, message.RecordRequest{
		Conditions: []message.Condition{{Key: key}},
		Changes:    []message.Change{{Key: key, Owned: true}},
	})
}

// TestALeaderWithoutAuthorityExtendsNobody: protocol.md section 10. A leader is cut off
// with a member that owns a record. It goes on to answer that member until it steps
// down, and meanwhile the others have a leader, and take the record.
func TestALeaderWithoutAuthorityExtendsNobody(t *testing.T) {
	c := formed(t, steady(5))
	tm := c.setup.Timings
	leader := c.Leader()
	owner, other := (leader+1)%5, (leader+2)%5
	c.take(owner, "k")
	if !c.RunUntil(tm.HeartbeatTimeout, func() bool { return !c.Holds(owner, "k").IsZero() }) {
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
		if c.Holds(other, "k").IsZero() {
			c.take(other, "k")
		}
	}
	sound(t, c)
	if c.Holds(other, "k").IsZero() {
		t.Fatalf("nobody takes the record, and nothing is shown%s", c.Describe())
	}
}

// TestAMemberThatLeavesTrustsNoMore: protocol.md section 10. The owner of a record says
// that it leaves, and hears nothing of what follows: that its record is another's.
func TestAMemberThatLeavesTrustsNoMore(t *testing.T) {
	c := formed(t, steady(3))
	tm := c.setup.Timings
	leader := c.Leader()
	owner, other := (leader+1)%3, (leader+2)%3
	c.take(owner, "k")
	if !c.RunUntil(tm.HeartbeatTimeout, func() bool { return !c.Holds(owner, "k").IsZero() }) {
		t.Fatalf("n%d never owns the record%s", owner+1, c.Describe())
	}
	c.CutOneWay(leader, owner)
	c.Leave(owner)
	for range 10 {
		c.RunFor(tm.HeartbeatInterval / 2)
		if c.Holds(other, "k").IsZero() {
			c.take(other, "k")
		}
	}
	sound(t, c)
	if c.Holds(other, "k").IsZero() {
		t.Fatalf("nobody takes the record, and nothing is shown%s", c.Describe())
	}
}
