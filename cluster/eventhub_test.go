// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/member"
)

func at(port uint16, status member.Status) member.Member {
	a := member.Address{Host: "127.0.0.1", Port: port}
	return member.Member{
		Identity: member.Identity{Address: a, Incarnation: 1},
		Name:     fmt.Sprint("n", port),
		Status:   status,
	}
}

func viewOf(version uint64, leader uint16, quorate bool, members ...member.Member) member.View {
	v := member.View{Version: version, Quorate: quorate, Members: members}
	if leader != 0 {
		v.Leader = at(leader, 0).Address
	}
	return v
}

// TestChangesBetweenViews checks that each difference between two views is reported by an event.
func TestChangesBetweenViews(t *testing.T) {
	one, two := at(1, member.Active), at(2, member.Active)
	again := one
	again.Incarnation = 2
	seat := at(2, member.Leaving)
	seat.Gone = true
	nameless := at(2, member.Active)
	nameless.Name = nameless.Address.String()
	for _, c := range []struct {
		name          string
		before, after member.View
		want          []string
	}{
		{"nothing", viewOf(1, 1, true, one), viewOf(1, 1, true, one), nil},
		{"a member appears", viewOf(1, 1, true, one), viewOf(1, 1, true, one, at(2, member.Joining)),
			[]string{"n2 at 127.0.0.1:2 is joining"}},
		{"a member moves", viewOf(1, 1, true, one, at(2, member.Joining)), viewOf(1, 1, true, one, two),
			[]string{"n2 at 127.0.0.1:2 is active, was joining"}},
		{"a member that has no name", viewOf(1, 1, true, one), viewOf(1, 1, true, one, nameless),
			[]string{"127.0.0.1:2 is active"}},
		{"a member is removed and its seat kept", viewOf(1, 1, true, one, at(2, member.Leaving)),
			viewOf(1, 1, true, one, seat), []string{"n2 at 127.0.0.1:2 is removed, was leaving"}},
		{"the seat of a removed member goes", viewOf(1, 1, true, one, seat),
			viewOf(1, 1, true, one), nil},
		{"a member vanishes", viewOf(1, 1, true, one, two), viewOf(1, 1, true, one),
			[]string{"n2 at 127.0.0.1:2 is removed, was active"}},
		{"a member runs again", viewOf(1, 2, true, one, two), viewOf(1, 2, true, again, two),
			[]string{"n1 at 127.0.0.1:1 is active"}},
		{"the leader is lost", viewOf(1, 1, true, one), viewOf(1, 0, false, one), []string{"no leader"}},
		{"the version grows without a leader", viewOf(1, 0, false, one), viewOf(2, 0, false, one), nil},
		{"the leader loses its quorum", viewOf(1, 1, true, one), viewOf(1, 1, false, one),
			[]string{"leader of version 1 is n1 at 127.0.0.1:1, without quorum"}},
		{"members before the leader", viewOf(1, 0, false, one), viewOf(2, 2, true, one, two),
			[]string{"n2 at 127.0.0.1:2 is active", "leader of version 2 is n2 at 127.0.0.1:2"}},
	} {
		var got []string
		for _, e := range eventsOf(diagnosis.CompareViews(c.before, c.after), c.after) {
			got = append(got, e.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: want - got +\n%s", c.name, diff)
		}
	}
}

// TestEventsBeginWithTheView checks that events begin with the view and continue without gaps or
// duplicates.
func TestEventsBeginWithTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{view: viewOf(1, 0, false), size: 3}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []Event
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e := range h.readEvents(ctx, nil) {
				got = append(got, e)
			}
		}()
		synctest.Wait()
		next := viewOf(2, 0, false)
		h.publishEvents(next, []Event{Lagged{1}, Lagged{2}})
		h.publishEvents(next, nil)
		h.publishEvents(next, []Event{Lagged{3}})
		synctest.Wait()
		cancel()
		<-ended
		want := []Event{Snapshot{viewOf(1, 0, false), 3}, Lagged{1}, Lagged{2}, Lagged{3}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events: want - got +\n%s", diff)
		}
		if len(h.subs) != 0 {
			t.Errorf("subscriptions left: got %d, want 0", len(h.subs))
		}
	})
}

// TestSlowReaderLags checks that a slow reader learns how many events it missed, then gets the
// current view and all later events, and never blocks publishing.
func TestSlowReaderLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		quit := make(chan struct{})
		var got []Event
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e := range h.readEvents(t.Context(), quit) {
				got = append(got, e)
				time.Sleep(time.Second)
			}
		}()
		synctest.Wait() // the reader is busy with its first Snapshot
		const missed = 3 * eventQueue
		begin := time.Now()
		for range missed {
			h.publishEvents(viewOf(7, 0, false), []Event{LeaderChanged{}})
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("publishing took %v, want 0", took)
		}
		time.Sleep(10 * time.Second)
		h.publishEvents(viewOf(8, 0, false), []Event{Lagged{42}})
		time.Sleep(10 * time.Second)
		close(quit)
		<-ended
		want := []Event{Snapshot{}, Lagged{missed}, Snapshot{View: viewOf(7, 0, false)}, Lagged{42}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events: want - got +\n%s", diff)
		}
	})
}

func TestReaderMayStop(t *testing.T) {
	h := &hub{}
	for range h.readEvents(t.Context(), nil) {
		break
	}
	if len(h.subs) != 0 {
		t.Errorf("subscriptions left: got %d, want 0", len(h.subs))
	}
}

// TestSnapshotCountsTheFullCluster checks that a Snapshot reports the size of the full cluster: a
// node that is alone in a cluster of three is shown as one of three members.
func TestSnapshotCountsTheFullCluster(t *testing.T) {
	e := Snapshot{View: viewOf(1, 1, false, at(1, member.Active)), Size: 3}
	want := "1 of 3 members active, leader of version 1 is n1 at 127.0.0.1:1, without quorum"
	if got := e.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
