// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// In the part with two nodes, the cluster has no leader, but the strategy Lowest has a leader.
func TestG07InACluster(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		all := w.openAll("group", byLowest())
		leaderOf(t, all)
		three, two := []int{0, 2, 3}, []int{1, 4}
		w.cutBetween(three, two, true)
		at := time.Now()
		if i := leaderOf(t, all, two...); i != 1 || time.Since(at) > alive+campaign {
			t.Errorf("node %d leads the part of two after %v", i, time.Since(at))
		}
		if i := leaderOf(t, all, three...); i != 0 {
			t.Errorf("node %d leads the part of three", i)
		}
		pause(t, time.Minute) // the members of the other part are removed
		if _, ok := w.nodes[1].Leader(); ok {
			t.Error("the part of two has a cluster leader")
		}
		if !all[0].IsLeader() || !all[1].IsLeader() {
			t.Error("a part has lost its leader")
		}
		w.cutBetween(three, two, false)
		at = time.Now()
		leaderOf(t, all)
		t.Logf("one leader %v after the links are whole", time.Since(at))
	})
}

func TestG06InACluster(t *testing.T) {
	inWorld(t, 5, func(t *testing.T, w *world) {
		all := w.openAll("group", byLowest())
		leaderOf(t, all)
		for i := range all {
			w.cutBetween([]int{i}, without(5, i), true)
		}
		for i := range all {
			leaderOf(t, all, i)
		}
		for i := range all {
			w.cutBetween([]int{i}, without(5, i), false)
		}
		if i := leaderOf(t, all); i != 0 {
			t.Errorf("node %d leads, want the lowest", i)
		}
	})
}

// A group is closed when its node stops.
func TestElectionEndsWithItsNode(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		worker := work(t, all[i])
		s := worker.next(t)
		if err := w.nodes[i].Close(); err != nil {
			t.Fatal(err)
		}
		s.ends(t, leader.ErrClosed)
		if err := <-worker.done; !errors.Is(err, leader.ErrClosed) {
			t.Errorf("WhileLeader: %v", err)
		}
		if _, err := w.groups[i].Open(w.nodes[i], "other", o); err == nil {
			t.Error("Open with a node that has ended: no error")
		}
	})
}

// Closed groups must not use memory: the callers of an admin API choose their names.
func TestClosedGroupsAreForgotten(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i := range 100 {
			w.close(w.open(0, fmt.Sprint("group", i), Options{Strategy: Static}))
		}
		again := w.open(0, "group", byLowest())
		synctest.Wait()
		g := w.groups[0]
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.open) != 1 || g.open["group"].Candidate != again {
			t.Errorf("%d groups are kept, want the open one", len(g.open))
		}
	})
}

// A member that opens a group again takes part immediately, no matter how many messages it sent or
// received before.
func TestE07OpenedAgainIsHeard(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		all := w.openAll("group", byLowest())
		i := leaderOf(t, all)
		pause(t, 20*alive)
		w.close(all[i])
		leaderOf(t, all, 1-i)
		all[i] = w.open(i, "group", byLowest())
		at := time.Now()
		for l, _ := all[i].Leader(); l.ID == ""; l, _ = all[i].Leader() {
			pause(t, sample/10)
		}
		if took := time.Since(at); took > sample+sample/2 {
			t.Errorf("knows the leader after %v, want the answer to its proposal", took)
		}
		w.close(all[1-i])
		leaderOf(t, all, i)
		all[1-i] = w.open(1-i, "group", byLowest())
		leaderOf(t, all)
		if !all[i].IsLeader() {
			t.Error("the former leader no longer leads")
		}
	})
}

func TestChanges(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		all := w.openAll("group", byLowest())
		i := leaderOf(t, all)
		ctx, stop := context.WithCancel(t.Context())
		var seen []leader.Holder
		watcher := (i + 1) % 3
		done := make(chan struct{})
		go func() {
			defer close(done)
			for l := range all[watcher].Changes(ctx) {
				seen = append(seen, l)
			}
		}()
		pause(t, alive)
		w.close(all[i])
		next := leaderOf(t, all, without(3, i)...)
		stop()
		<-done
		l, _ := all[next].Leader()
		if len(seen) < 2 || seen[0].ID != address(i).String() || seen[len(seen)-1] != l {
			t.Errorf("saw %+v, want %s first and %+v last", seen, address(i), l)
		}
	})
}

// The tokens of all strategies in a cluster are ordered. A new term of Lowest has a greater token
// than the cluster state of the member that leads.
func TestLowestTokenIsAboveTheState(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		var all []*leader.Candidate
		var last member.Token
		for round := range 3 {
			for _, n := range w.nodes {
				if term, ok := n.Leader(); ok && term.Valid() {
					if err := n.Transfer(t.Context(), member.Address{}); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
			pause(t, alive)
			held := heldToken(w.nodes[0])
			if round == 0 {
				all = w.openAll("group", byLowest())
			} else if err := all[leaderOf(t, all)].Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			l, _ := all[leaderOf(t, all)].Leader()
			if !held.Less(l.Token) || !last.Less(l.Token) {
				t.Errorf("token %v, want it above the state %v and the last token %v", l.Token, held, last)
			}
			last = l.Token
		}
	})
}
