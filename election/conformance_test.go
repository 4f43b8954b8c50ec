// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"testing"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/leadertest"
)

// inCluster starts nodes and opens a candidate on each with the function open.
func inCluster(
	open func(t *testing.T, w *world, i int, o leader.Options) *leader.Candidate,
) func(*testing.T, int) leadertest.Kit {
	return func(t *testing.T, size int) leadertest.Kit {
		w := newWorld(t, size)
		return leadertest.Kit{
			Open: func(i int, o leader.Options) *leader.Candidate { return open(t, w, i, o) },
			Stop: func(i int) { _ = w.nodes[i].Close() },
		}
	}
}

// groupOf returns a function that opens a group with a strategy.
func groupOf(o Options) func(*testing.T, *world, int, leader.Options) *leader.Candidate {
	return func(_ *testing.T, w *world, i int, lead leader.Options) *leader.Candidate {
		o.RetryFor = lead.RetryFor
		return w.open(i, "group", o)
	}
}

func openJob(t *testing.T, s record.Store, o leader.Options) *leader.Candidate {
	t.Helper()
	j, err := OpenJob(t.Context(), s, "job", JobOptions{RetryFor: o.RetryFor})
	if err != nil {
		t.Fatalf("OpenJob: %v", err)
	}
	return j.Candidate
}

func TestContractQuorum(t *testing.T) {
	leadertest.Run(t, leadertest.Strategy{Start: inCluster(groupOf(byQuorum()))})
}

func TestContractLowest(t *testing.T) {
	leadertest.Run(t, leadertest.Strategy{Start: inCluster(groupOf(byLowest()))})
}

func TestContractStatic(t *testing.T) {
	leadertest.Run(t, leadertest.Strategy{
		Start: inCluster(groupOf(Options{Strategy: Static})), Alone: true,
	})
}

func TestContractStandby(t *testing.T) {
	leadertest.RunStandby(t, leadertest.Strategy{
		Start: inCluster(groupOf(Options{Strategy: Standby})), Alone: true,
	})
}

func TestContractJob(t *testing.T) {
	leadertest.Run(t, leadertest.Strategy{Start: inCluster(
		func(t *testing.T, w *world, i int, o leader.Options) *leader.Candidate {
			return openJob(t, w.nodes[i].Records(), o)
		})})
}

func TestContractJobInMemory(t *testing.T) {
	leadertest.Run(t, leadertest.Strategy{Start: func(t *testing.T, _ int) leadertest.Kit {
		table := record.NewMemory()
		return leadertest.Kit{Open: func(i int, o leader.Options) *leader.Candidate {
			return openJob(t, table.Store(fmt.Sprint("n", i)), o)
		}}
	}})
}
