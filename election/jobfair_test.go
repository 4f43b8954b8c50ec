// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// TestJobsGoRound checks that each of five members leads a job if its leaders always resign. Two
// members whose work fails must not pass the job to each other forever.
func TestJobsGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		ids := []string{"a", "b", "c", "d", "e"}
		jobs := map[string]*Job{}
		for _, id := range ids {
			j, err := OpenJob(t.Context(), table.Store(id), "job", JobOptions{})
			if err != nil {
				t.Fatal(err)
			}
			jobs[id] = j
		}
		led := map[string]int{}
		for range 4 * len(ids) {
			h, err := jobs["a"].WaitLeader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			led[h.ID]++
			synctest.Wait()
			if err := jobs[h.ID].Resign(t.Context()); err != nil {
				t.Fatalf("Resign of %s: %v", h.ID, err)
			}
			time.Sleep(2 * time.Second)
		}
		for _, id := range ids {
			if led[id] < 2 {
				t.Errorf("%s led %d of %d times: %v", id, led[id], 4*len(ids), led)
			}
		}
		for _, j := range jobs {
			if err := j.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestResignBeforeTheFirstLook checks that a leader that resigns lets a new member lead first, even
// if the new member read the record of that leader only in OpenJob, and its election began after
// the record was dropped. The order of the members depends on their ids, so all orders are tested.
func TestResignBeforeTheFirstLook(t *testing.T) {
	for _, ids := range [][]string{
		{"a", "b", "c"}, {"a", "c", "b"}, {"b", "a", "c"},
		{"b", "c", "a"}, {"c", "a", "b"}, {"c", "b", "a"},
	} {
		synctest.Test(t, func(t *testing.T) { resignBeforeTheFirstLook(t, ids[0], ids[1], ids[2]) })
	}
}

// resignBeforeTheFirstLook lets three members lead, one after another.
func resignBeforeTheFirstLook(t *testing.T, first, second, third string) {
	table := record.NewMemory()
	open := func(id string) *Job {
		j, err := OpenJob(t.Context(), table.Store(id), "job", JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		return j
	}
	a, b := open(first), open(second)
	source, err := newJobSource(table.Store(third), "job")
	if err != nil {
		t.Fatal(err)
	}
	c := &Job{leader.New(source.life, source, leader.Options{}), source}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	// The third member opens the job as OpenJob does, but the leader resigns before its loops start.
	for _, step := range []func(context.Context) error{
		source.readRecords, b.Resign, source.readRecords,
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	source.running.Go(source.watchRecords)
	source.running.Go(source.runElection)
	time.Sleep(2 * time.Second)
	if by, _ := b.Leader(); by.ID != third {
		t.Errorf("%s resigned, then %q leads, want %s", second, by.ID, third)
	}
	for _, j := range []*Job{b, c} {
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestFailedWorkHoldsNoJob checks that a single member whose work always fails does not hold the
// job during the pauses.
func TestFailedWorkHoldsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		j, err := OpenJob(t.Context(), table.Store("a"), "job", JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		runs := 0
		go func() {
			_ = j.WhileLeader(ctx, func(context.Context, leader.Term) error {
				runs++
				return errors.New("it fails")
			})
		}()
		held := 0
		for ctx.Err() == nil {
			if j.IsLeader() {
				held++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if runs < 10 || held > 60 {
			t.Errorf("%d runs, and led in %d of 6000 looks, want 10 or more, and next to none", runs, held)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
