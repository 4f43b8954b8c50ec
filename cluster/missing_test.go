// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
)

const (
	seedMissing = "a seed is missing"
	seedBack    = "a missing seed is an active member"
)

// TestMissingSeedsAreNamed checks that nodes with a leader name a seed that they do not reach: in
// the status immediately, and once in the log after MissingTimeout. Another line reports its
// return.
func TestMissingSeedsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.add(0, Config{})
		w.add(1, Config{})
		for _, n := range w.nodes {
			if _, err := n.WaitLeader(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		const why = "memnet: dial 127.0.0.1:7003: no node listens there"
		want := []MissingSeed{{address(2), why}}
		for _, n := range w.nodes {
			if got := n.Status().MissingSeeds; !slices.Equal(got, want) {
				t.Errorf("%s: missing seeds %v, want %v", n.cfg.Name, got, want)
			}
		}
		time.Sleep(diagnosis.MissingTimeout - diagnosis.WarnInterval)
		w.book.wants(seedMissing, 0)
		time.Sleep(10 * diagnosis.MissingTimeout)
		for _, line := range w.book.wants(seedMissing, 2) {
			if line["peer"] != address(2).String() || line["why"] != why {
				t.Errorf("logged %v, want the peer and why", line)
			}
		}
		w.book.wants(seedBack, 0)
		w.add(2, Config{})
		time.Sleep(2 * diagnosis.WarnInterval)
		w.book.wants(seedBack, 2)
		for _, n := range w.nodes {
			if got := n.Status().MissingSeeds; len(got) > 0 {
				t.Errorf("%s: missing seeds %v, want none", n.cfg.Name, got)
			}
		}

		w.cut(w.nodes[2])
		time.Sleep(2 * diagnosis.MissingTimeout)
		missing := 0
		for _, n := range w.nodes[:2] {
			missing += len(n.Status().MissingSeeds)
		}
		if missing != 2 {
			t.Errorf("%d nodes name the seed that is cut off, want 2", missing)
		}
		w.book.wants(seedMissing, 4)
		w.heal(w.nodes[2])
		time.Sleep(2 * diagnosis.WarnInterval)
		w.book.wants(seedBack, 4)
	})
}

// TestMembersOutOfReachAreLogged checks that each of two followers that cannot reach each other
// logs that once.
func TestMembersOutOfReachAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.net.Cut(address(0), address(1))
		w.net.Cut(address(1), address(0))
		for _, i := range []int{2, 0, 1} {
			w.add(i, Config{})
		}
		if _, err := w.nodes[0].WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * diagnosis.MissingTimeout)
		named := map[any]bool{}
		for _, line := range w.book.wants("an active member cannot be reached", 2) {
			named[line["peer"]] = true
		}
		if !named[address(0).String()] || !named[address(1).String()] {
			t.Errorf("named %v, want both followers", named)
		}
	})
}

// TestReturnIsNotOutOfReach checks that a follower that was cut off from all members and reaches
// the leader again does not name the other follower immediately: it may be connected a moment
// later.
func TestReturnIsNotOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		for i := range 3 {
			w.add(i, Config{})
		}
		n := w.nodes[0]
		if _, err := n.WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		leader := n.View().Leader
		if n.cfg.self == leader {
			n = w.nodes[1]
		}
		w.cut(n)
		time.Sleep(2 * diagnosis.MissingTimeout)
		w.net.Heal(n.cfg.self, leader)
		w.net.Heal(leader, n.cfg.self)
		if _, err := n.WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(diagnosis.WarnInterval / 2)
		w.book.wants("an active member cannot be reached", 0)
	})
}

// TestRevivedConnectionIsInReach checks that a peer whose silent connection answers again, so that
// no other one replaces it, does not count as out of reach.
func TestRevivedConnectionIsInReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		for i := range 3 {
			w.add(i, Config{})
		}
		if _, err := w.nodes[0].WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, n := range w.nodes {
			w.cut(n)
			time.Sleep(3 * time.Second)
			w.heal(n)
			time.Sleep(2 * diagnosis.MissingTimeout)
		}
		w.book.wants("an active member cannot be reached", 0)
	})
}
