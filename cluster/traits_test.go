// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// TestLabelsReachEveryNode checks that the labels of Config and of SetLabels reach the views of all
// nodes, and that each change causes one event.
func TestLabelsReachEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		for i := range w.size {
			w.add(i, Config{Labels: map[string]string{"zone": string(rune('a' + i))}})
		}
		n, of := w.nodes[0], w.nodes[2]
		if err := n.WaitActive(w.within(time.Minute), 3); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		m, _ := n.View().Member(of.Self().Address)
		if got, _ := m.Labels.Get("zone"); got != "c" {
			t.Errorf("n3 is shown with the zone %q, want c", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		events := make(chan Event, 16)
		go func() {
			defer close(events)
			for e := range n.Events(ctx) {
				events <- e
			}
		}()
		<-events // the snapshot
		want := map[string]string{"zone": "d", "http": "10.0.0.1:80"}
		if err := of.SetLabels(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(of.Self().Labels.All()); !maps.Equal(got, want) {
			t.Errorf("Self has the labels %v, want %v", got, want)
		}
		time.Sleep(time.Second)
		stop()
		var all []string
		for e := range events {
			all = append(all, e.String())
		}
		if len(all) != 1 ||
			all[0] != memberText(m)+" has preference 0 and labels http=10.0.0.1:80, zone=d" {
			t.Errorf("got the events %q, want one about the labels", all)
		}
	})
}

// TestPreferMovesLeadership checks that a leader that becomes a witness hands over before Prefer
// returns, and that Prefer undoes Drain.
func TestPreferMovesLeadership(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		time.Sleep(time.Second) // let the leader hear from its members
		n := w.leader()
		if err := n.Prefer(w.within(time.Minute), member.NeverLeads); err != nil {
			t.Fatal(err)
		}
		if n.View().Role == member.Leading || n.Self().Preference != member.NeverLeads {
			t.Errorf("a witness has the role %v and the preference %v",
				n.View().Role, n.Self().Preference)
		}
		if err := n.Prefer(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if err := n.Drain(t.Context()); err != nil || !n.Status().Drained {
			t.Fatalf("Drain: %v", err)
		}
		if err := n.Prefer(t.Context(), 0); err != nil || n.Status().Drained {
			t.Errorf("Prefer after Drain: %v, drained %v", err, n.Status().Drained)
		}
		time.Sleep(time.Second)
		if err := w.leader().Transfer(w.within(time.Minute), n.Self().Address); err != nil {
			t.Errorf("Transfer to a member that was drained before Prefer: %v", err)
		}
		for _, p := range []member.Preference{-2, member.MaxPreference + 1} {
			if err := n.Prefer(t.Context(), p); err == nil {
				t.Errorf("Prefer(%d) returned no error", p)
			}
		}
		if err := n.SetLabels(t.Context(), map[string]string{"a=b": ""}); err == nil {
			t.Error("SetLabels accepted an invalid key")
		}
	})
}

// TestPreferredLeaderReturns checks that HandOverToPreferred makes a leader hand over to a more
// preferred member.
func TestPreferredLeaderReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.durable()
		defer w.close()
		cfg := func(i int) Config {
			return Config{
				Preference:          member.Preference(max(i-1, 0)),
				HandOverToPreferred: 3 * time.Second,
			}
		}
		for i := range w.size {
			w.add(i, cfg(i))
		}
		time.Sleep(time.Second)
		first := w.leader()
		if first.Self().Address != address(2) {
			t.Fatalf("%s leads, want %s", first.Self().Address, address(2))
		}
		w.end(first)
		time.Sleep(2 * time.Second)
		second := w.leader()
		w.add(2, cfg(2))
		time.Sleep(2 * time.Second)
		if got := w.leader(); got != second {
			t.Fatalf("%s leads too early", got.Self().Address)
		}
		time.Sleep(3 * time.Second)
		if got := w.leader().Self().Address; got != address(2) {
			t.Errorf("%s leads, want %s", got, address(2))
		}
	})
}
