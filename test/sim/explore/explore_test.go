// SPDX-License-Identifier: Apache-2.0

package explore_test

import (
	"strings"
	"testing"

	"github.com/athena-go/athena/test/sim/explore"
)

// No order of events, losses, duplications and crashes in an election of three nodes breaks an
// invariant. The test covers whole machines and package paxos alone.
func TestEveryOrderOfAnElection(t *testing.T) {
	for _, tc := range []struct {
		opt explore.Options
		min int // minimum number of states; fewer means that some were not explored
	}{
		{explore.Options{Size: 2, Attempts: 3, Crashes: 1}, 1000},
		{explore.Options{Size: 3, Attempts: 2, Crashes: 1}, 40_000},
		{explore.Options{Size: 3, Attempts: 2, Refusals: true}, 50_000},
		{explore.Options{Size: 3, Attempts: 3, Crashes: 1}, 1_500_000},
		{explore.Options{Paxos: true, Size: 3, Attempts: 2, Crashes: 1}, 40_000},
		{explore.Options{Paxos: true, Size: 3, Attempts: 2, Refusals: true}, 90_000},
		{explore.Options{Paxos: true, Size: 3, Attempts: 3}, 100_000},
		{explore.Options{Paxos: true, Size: 3, Attempts: 2, Crashes: 2}, 300_000},
	} {
		if (testing.Short() || underRace) && tc.min > 45_000 {
			t.Logf("%+v: skipped: it takes a minute (make full), more under the race detector", tc.opt)
			continue
		}
		r, err := explore.Run(tc.opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: %d states, %d steps, %d deep, %d elections, %d machines, %d events",
			tc.opt, r.States, r.Transitions, r.Depth, r.Elections, r.Machines, r.Events)
		switch {
		case r.Violation != nil:
			t.Errorf("%+v: %v", tc.opt, r.Violation)
		case !r.Complete || r.States < tc.min || r.Elections == 0:
			t.Errorf("%+v: got %+v, want all of at least %d states", tc.opt, r, tc.min)
		}
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for _, opt := range []explore.Options{
		{Size: 1}, {Size: 4}, {Size: 3, Attempts: -1}, {Size: 3, Attempts: 256}, {Size: 3, Crashes: 256},
	} {
		if _, err := explore.Run(opt); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%+v: got error %v, want one with the range", opt, err)
		}
	}
}

// A search that reaches its limit ends, and its result is marked as incomplete.
func TestLimitOfStates(t *testing.T) {
	r, err := explore.Run(explore.Options{Size: 3, Attempts: 3, States: 1000})
	if err != nil || r.Complete || r.States < 1000 || r.States > 2000 {
		t.Errorf("got %+v, %v, want about 1000 states, not all", r, err)
	}
}
