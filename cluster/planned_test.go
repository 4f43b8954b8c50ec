// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/member"
)

// logging forms a cluster and returns a journal of all log lines of one level from then on.
func logging(w *world, level zerolog.Level) *journal {
	w.t.Helper()
	j, logger := keep(level)
	for i := range w.size {
		w.add(i, Config{}, logger)
	}
	time.Sleep(time.Second)
	for _, n := range w.nodes {
		if err := n.WaitActive(w.within(time.Minute), w.size); err != nil {
			w.t.Fatal(err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines, j.times = nil, nil
	return j
}

// TestPlannedOperationsCauseNoWarning checks that no node logs a warning about a planned operation:
// leave, hand over, drain or close. A node that stops as planned logs no cause.
func TestPlannedOperationsCauseNoWarning(t *testing.T) {
	transfer := func(n *Node) error { return n.Transfer(context.Background(), member.Address{}) }
	drain := func(n *Node) error { return n.Drain(context.Background()) }
	witness := func(n *Node) error { return n.Prefer(context.Background(), member.NeverLeads) }
	leave := func(n *Node) error { return n.Leave(context.Background()) }
	for _, c := range []struct {
		name  string
		size  int
		steps []func(*Node) error // each is called on the current leader
		ended int
	}{
		{"transfer", 3, []func(*Node) error{transfer}, 0},
		{"drain", 3, []func(*Node) error{drain}, 0},
		{"the leader becomes a witness", 3, []func(*Node) error{witness}, 0},
		{"the leader leaves", 3, []func(*Node) error{leave}, 1},
		{"one drains, and the next leaves", 3, []func(*Node) error{drain, leave}, 1},
		{"one alone leaves", 1, []func(*Node) error{leave}, 1},
	} {
		for _, level := range []zerolog.Level{zerolog.WarnLevel, zerolog.InfoLevel} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.size)
				j := logging(w, level)
				for _, step := range c.steps {
					time.Sleep(time.Second) // let the leader hear from its members
					if err := step(w.leader()); err != nil {
						t.Fatalf("%s: %v", c.name, err)
					}
				}
				time.Sleep(2 * time.Second)
				if level == zerolog.WarnLevel {
					if lines, _ := j.about(""); len(lines) != 0 {
						t.Errorf("%s: got %s, want no warning", c.name, strings.Join(lines, "\n"))
					}
				}
				ended, _ := j.about(`"message":"ended"`)
				if level == zerolog.InfoLevel && len(ended) != c.ended ||
					strings.Contains(strings.Join(ended, ""), "cause") {
					t.Errorf("%s: got %q, want %d lines without a cause", c.name, ended, c.ended)
				}
				w.close()
			})
		}
	}
}

// TestLeavingFollowerCausesNoWarning checks that a follower that leaves causes no warning on any
// node.
func TestLeavingFollowerCausesNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		j := logging(w, zerolog.WarnLevel)
		if err := w.others(w.leader())[0].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if lines, _ := j.about(""); len(lines) != 0 {
			t.Errorf("got %s, want no warning", strings.Join(lines, "\n"))
		}
	})
}

// TestUnplannedEventsCauseWarning checks that unplanned events cause a warning: a lost leader, and
// a leader that is alone, even if it was drained but could not hand over.
func TestUnplannedEventsCauseWarning(t *testing.T) {
	for _, drained := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3)
			defer w.close()
			j := logging(w, zerolog.WarnLevel)
			leader := w.leader()
			w.cut(leader)
			leader.drained.Store(drained)
			time.Sleep(5 * time.Second)
			for text, want := range map[string]int{"lost the leader": 2, "lost authority": 1} {
				if lines, _ := j.about(text); len(lines) != want {
					t.Errorf("drained %t, %q: got %q, want %d lines", drained, text, lines, want)
				}
			}
			leader.drained.Store(false)
			w.heal(leader)
		})
	}
}
