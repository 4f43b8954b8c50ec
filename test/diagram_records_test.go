// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/test/sim"
)

// TestDiagramRecords plays docs/plantuml/RECORDS.puml: protocol.md section 10.
func TestDiagramRecords(t *testing.T) {
	t.Parallel()
	cast := []string{"owner", "leader", "other"}
	owned := func(s *stage) *sim.Cluster {
		c := s.build(3, 0, 1, 2)
		s.form(0, 1, 2)
		s.lead(1)
		take(c, 0)
		s.cut("owner", func() bool { return !c.Holds(0, "k").IsZero() })
		s.rest()
		return c
	}
	checkStories(t, "RECORDS.puml", []story{{
		part: "a member takes a record",
		cast: cast,
		play: func(_ *testing.T, s *stage) {
			c := s.build(3, 0, 1, 2)
			s.form(0, 1, 2)
			s.lead(1)
			s.roll("")
			take(c, 0)
			s.cut("owner", func() bool { return !c.Holds(0, "k").IsZero() && c.Records(2).Len() > 0 })
		},
	}, {
		part: "another member drops it",
		cast: cast,
		play: func(_ *testing.T, s *stage) {
			c := owned(s)
			s.roll("")
			c.Commit(2, message.RecordRequest{Changes: []message.Change{{Key: "k", Drop: true}}})
			s.cut("end of the record", func() bool { return c.Records(2).Len() == 0 })
		},
	}, {
		part: "its owner is silent",
		cast: cast,
		play: func(_ *testing.T, s *stage) {
			c := owned(s)
			s.dead = "owner"
			c.Crash(0)
			s.roll("RecordUpdate(k is gone)")
			s.cut("end of the record", func() bool { return c.Records(2).Len() == 0 })
		},
	}})
}

// take makes a process acquire the record k, as a job does.
func take(c *sim.Cluster, i int) {
	c.Commit(i, message.RecordRequest{
		Conditions: []message.Condition{{Key: "k"}},
		Changes:    []message.Change{{Key: "k", Owned: true}},
	})
}
