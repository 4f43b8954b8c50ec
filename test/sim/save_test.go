// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/athena-go/athena/statemachine"
)

// saving forms a cluster of three and delays a save of a follower by a second. It returns the
// cluster, while that save lasts, and the follower.
func saving(t *testing.T, s SlowSave, record func(Record)) (c *Cluster, who int) {
	t.Helper()
	setup := steady(3)
	setup.Record = record
	c = formed(t, setup)
	who = (c.Leader() + 1) % 3
	s.Takes = time.Second
	c.SlowSave = func(i int) SlowSave {
		if i != who {
			return SlowSave{}
		}
		return s
	}
	c.take(c.Leader(), "k")
	if !c.RunUntil(time.Second, func() bool { return c.procs[who].saving != nil }) {
		t.Fatalf("n%02d saved nothing%s", who+1, c.Describe())
	}
	c.SlowSave = nil
	return c, who
}

// TestSlowSaveHidesItsStep checks that until a save ends, the process sends nothing, takes
// no input, and keeps its old store.
func TestSlowSaveHidesItsStep(t *testing.T) {
	var happened []Record
	c, who := saving(t, SlowSave{}, func(r Record) { happened = append(happened, r) })
	p, old := c.procs[who], c.Durable(who)
	happened = nil
	c.Drain(who)
	c.RunFor(999 * time.Millisecond)
	for _, r := range happened {
		if r.Process == who && r.Kind != Lost {
			t.Errorf("during the save: %v", r)
		}
	}
	if c.Durable(who).Held.Number != old.Held.Number || len(p.inbox) < 2 || p.drained {
		t.Errorf("it holds %v after %v, and %d inputs wait", c.Durable(who).Held.Number,
			old.Held.Number, len(p.inbox))
	}
	happened = nil
	c.RunFor(100 * time.Millisecond)
	if now := c.Durable(who); !old.Held.Less(now.Held.Number) || !p.drained || len(p.inbox) > 0 {
		t.Errorf("after the save it holds %v, and %d inputs wait", now.Held.Number, len(p.inbox))
	}
	if len(happened) == 0 || happened[0].Process != who || happened[0].Kind != Sent {
		t.Errorf("after the save the step did not send first, but: %v", happened)
	}
	if !c.RunUntil(10*time.Second, c.Settled) {
		t.Errorf("not all are active after a slow save%s", c.Describe())
	}
	sound(t, c)
}

// TestCrashInASave checks that a crash during a save leaves either the old store or the new
// one.
func TestCrashInASave(t *testing.T) {
	for _, written := range []bool{false, true} {
		c, who := saving(t, SlowSave{Written: written}, nil)
		old := c.Durable(who).Held.Number
		c.RunFor(500 * time.Millisecond)
		c.Crash(who)
		if got := c.Durable(who).Held.Number; old.Less(got) != written {
			t.Errorf("written %v: the store holds %v after %v", written, got, old)
		}
		c.RunFor(time.Second)
		c.Start(who)
		if !c.RunUntil(20*time.Second, c.Settled) {
			t.Errorf("not all are active after a crash in a save%s", c.Describe())
		}
		sound(t, c)
	}
}

// TestPauseInASave checks that a process that is paused during a save continues after both the end
// of the save and Resume, in either order.
func TestPauseInASave(t *testing.T) {
	for _, freeze := range []func(*Cluster, int){(*Cluster).Pause, (*Cluster).Suspend} {
		for _, d := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
			c, who := saving(t, SlowSave{TimersFirst: true}, nil)
			old := c.Durable(who).Held.Number
			freeze(c, who)
			c.RunFor(d)
			if c.Durable(who).Held.Number != old {
				t.Errorf("paused for %v: its step took effect", d)
			}
			c.Resume(who, true)
			if saved := old.Less(c.Durable(who).Held.Number); saved != (d > time.Second) {
				t.Errorf("paused for %v: resumed: saved %v", d, saved)
			}
			c.RunFor(501 * time.Millisecond)
			if !old.Less(c.Durable(who).Held.Number) {
				t.Errorf("paused for %v: it never saved", d)
			}
			if !c.RunUntil(10*time.Second, c.Settled) {
				t.Errorf("not all are active%s", c.Describe())
			}
			sound(t, c)
		}
	}
}

// TestRefusalWaitsForASave checks that a machine does not learn of a refused connection
// during a save.
func TestRefusalWaitsForASave(t *testing.T) {
	c, who := saving(t, SlowSave{}, nil)
	leader := c.Leader()
	of := statemachine.Probe{Leader: c.procs[leader].identity(), Version: c.Authority(leader)}
	c.Crash(leader)
	steps := c.Steps()
	c.reportRefused(c.procs[who], of)
	if c.Steps() != steps {
		t.Error("a machine handled a refusal while it saved")
	}
	c.RunFor(1100 * time.Millisecond)
	if !c.View(who).Leader.IsZero() {
		t.Errorf("it follows a leader whose port is refused%s", c.Describe())
	}
	sound(t, c)
}
