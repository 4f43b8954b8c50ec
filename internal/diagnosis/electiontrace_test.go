// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// TestElectionsAreBounded checks that the history keeps only the newest elections.
func TestElectionsAreBounded(t *testing.T) {
	o := New(Config{Log: slog.New(slog.DiscardHandler)})
	o.Start(time.Unix(0, 0))
	leader := at(1, 0).Address
	for v := range uint64(maxElections + 3) {
		view := member.View{Leader: leader, Version: v + 1, Quorate: true}
		o.Observe(Turn{
			Now: time.Unix(int64(v), 0), State: State{View: view}, NewTerm: Leader{leader, v + 1},
		})
	}
	r := o.ReadReport(time.Unix(100, 0), State{})
	if n := len(r.Elections); n != maxElections || r.Elections[0].Version != 4 ||
		r.Elections[n-1].Version != maxElections+3 {
		t.Errorf("got %d elections, %+v first", n, r.Elections[0])
	}
	if r.LeaderChanges[CauseStart] != 1 || r.LeaderChanges[CauseRaised] != maxElections+2 {
		t.Errorf("got the counts %v", r.LeaderChanges)
	}
}

// TestAConflictNamesItsRule checks that a conflict is reported with its rule, and that the first
// cause counts.
func TestAConflictNamesItsRule(t *testing.T) {
	var w electionTrace
	now := time.Unix(5, 0)
	w.noteQuorate(member.View{Leader: at(1, 0).Address, Version: 3})
	w.addTraces(now, []statemachine.Trace{
		{Kind: statemachine.SteppedDown, Cause: statemachine.CauseVersion},
		{Kind: statemachine.LostAuthority},
	})
	e := w.finishElection(now, Leader{at(2, 0).Address, 7})
	if e.Cause != CauseConflict || e.Rule != ruleVersion || e.Before != at(1, 0).Address {
		t.Errorf("got %+v, want a conflict by version", e)
	}
	w = electionTrace{}
	w.addTraces(now, []statemachine.Trace{
		{Kind: statemachine.Suspected, Cause: statemachine.CauseCrash},
		{Kind: statemachine.SteppedDown, Cause: statemachine.CauseLease},
	})
	if w.cause != CauseCrash {
		t.Errorf("got %q, want the first cause, %q", w.cause, CauseCrash)
	}
}

func TestEveryCauseOfTheMachineHasAName(t *testing.T) {
	for c := statemachine.CauseNone + 1; c < statemachine.Causes; c++ {
		if !slices.Contains(everyCause, causes[c].cause) ||
			causes[c].rule != "" && !slices.Contains(everyRule, causes[c].rule) {
			t.Errorf("%v has no name", c)
		}
	}
}
