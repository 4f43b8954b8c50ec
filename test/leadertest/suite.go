// SPDX-License-Identifier: Apache-2.0

package leadertest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/athena-go/athena/leader"
)

// Kit gives access to the processes of one test, inside its bubble.
type Kit struct {
	// Open returns the candidate of process i. The suite closes it.
	Open func(i int, o leader.Options) *leader.Candidate
	// Stop stops the node or store on which the candidate of process i depends. It is nil
	// if the candidate depends on nothing.
	Stop func(i int)
}

// Strategy describes a strategy to the suite.
type Strategy struct {
	// Start starts processes for one test and registers their cleanup with t.
	Start func(t *testing.T, size int) Kit
	// Alone is set if the processes do not know one another (election.Static), so that none
	// of them takes over from another.
	Alone bool
}

// Run runs the suite.
func Run(t *testing.T, s Strategy) {
	t.Helper()
	for _, c := range []struct {
		name string
		size int // number of processes in the group; 1 if they are alone
		test func(g *group)
	}{
		{"term", 3, testTerm},
		{"completed work", 3, testDoneWork},
		{"failed work", 3, testFailedWork},
		{"failed work of a lone process", 1, testFailedAlone},
		{"retry", 3, testRetry},
		{"panic", 3, testPanic},
		{"one call at a time", 1, testSecondCall},
		{"end of the context", 3, testContextEnds},
		{"resign", 3, testResign},
		{"resign in the work", 3, testResignInWork},
		{"do", 3, testDo},
		{"do with a context that is done", 1, testDoContext},
		{"close", 3, testClose},
		{"close that times out", 1, testCloseTwice},
		{"end of the source", 1, testStop},
	} {
		size := c.size
		if s.Alone {
			size = 1
		}
		t.Run(c.name, func(t *testing.T) { runGroup(t, s, size, c.test) })
	}
	if s.Alone {
		return
	}
	t.Run("resign of a follower", func(t *testing.T) { runGroup(t, s, 3, testResignOfFollower) })
	t.Run("changes", func(t *testing.T) { runGroup(t, s, 3, testChanges) })
	t.Run("one at a time", func(t *testing.T) { runGroup(t, s, 3, testOneAtATime) })
}

// RunStandby runs the tests of a strategy that never leads.
func RunStandby(t *testing.T, s Strategy) {
	t.Helper()
	t.Run("standby", func(t *testing.T) { runGroup(t, s, 1, testStandby) })
}

func runGroup(t *testing.T, s Strategy, size int, test func(g *group)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), longestTest)
		defer stop()
		g := &group{t: t, ctx: ctx, kit: s.Start(t, size)}
		g.all = make([]*leader.Candidate, size)
		test(g)
	})
}
