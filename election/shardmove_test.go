// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// idle returns the shards that had a worker before, but whose last context has ended.
func (s *shardTape) idle() (shards []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, ctx := range s.contexts {
		if ctx != nil && ctx.Err() != nil {
			shards = append(shards, shard)
		}
	}
	return shards
}

// hangFirst returns the work of a worker, and a function that ends the work that hangs. The first
// work whose context ends does not return until then.
func (s *shardTape) hangFirst(id string) (work shardWork, end func()) {
	var hung atomic.Bool
	ended := make(chan struct{})
	return func(ctx context.Context, shard int, term leader.Term) error {
		s.beginWork(ctx, id, shard, term.Token())
		<-ctx.Done()
		if !hung.Swap(true) {
			<-ended
		}
		return nil
	}, func() { close(ended) }
}

// stuckOf returns the stuck shards of a worker, as Jobs lists them.
func stuckOf(t *testing.T, s record.Store, id string) (names []string) {
	t.Helper()
	records, err := s.List(t.Context(), JobPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Jobs(records)[0].Locks {
		if l.Stuck && l.Holder.ID == id {
			names = append(names, l.Name)
		}
	}
	return names
}

// TestStuckShard checks that a shard whose work does not return keeps no other shard from moving,
// neither to a worker that joins, nor from a worker that is disabled. Jobs lists the shard. The
// shard itself moves when its work returns.
func TestStuckShard(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table, tape := record.NewMemory(), newTape(t, 12)
			work, end := tape.hangFirst("a")
			defer runShards(t, table.Store("a"), 12, work)()
			defer runShards(t, table.Store("b"), 12, tape.workOn("b"))()
			tape.await("a", "b")
			rest := map[string]int{"a": 4, "b": 4, "c": 4}
			if disabled {
				rest = map[string]int{"b": 6, "c": 6}
				if err := EnableJob(t.Context(), table.Store("b"), "set", "a", false); err != nil {
					t.Fatal(err)
				}
			}
			defer runShards(t, table.Store("c"), 12, tape.workOn("c"))()
			time.Sleep(20 * time.Second)
			counts, _ := tape.counts()
			stuck := tape.idle()
			if len(stuck) != 1 || len(counts) != len(rest) {
				t.Fatalf("disabled %v: shards %v are idle, counts %v", disabled, stuck, counts)
			}
			for id, n := range counts {
				if n != rest[id] && n != rest[id]-1 {
					t.Errorf("disabled %v: %s has %d shards, want %d or 1 less", disabled, id, n, rest[id])
				}
			}
			got, want := stuckOf(t, table.Store("b"), "a"), []string{fmt.Sprint(stuck[0])}
			if !slices.Equal(got, want) {
				t.Errorf("disabled %v: stuck shards %v, want %v", disabled, got, want)
			}
			end()
			time.Sleep(shardProven + 5*time.Second)
			if counts, _ := tape.counts(); fmt.Sprint(counts) != fmt.Sprint(rest) {
				t.Errorf("disabled %v: counts %v afterwards, want %v", disabled, counts, rest)
			}
			if got := stuckOf(t, table.Store("b"), "a"); got != nil {
				t.Errorf("disabled %v: %v are still stuck", disabled, got)
			}
		})
	}
}

// TestDisabledWorkerGivesUpAllShards checks that a worker that is disabled ends all its terms in
// one step, although balance may move only one shard at a time.
func TestDisabledWorkerGivesUpAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, tape := record.NewMemory(), newTape(t, 12)
		defer runShards(t, table.Store("a"), 12, tape.workOn("a"))()
		defer runShards(t, table.Store("b"), 12, tape.workOn("b"))()
		tape.await("a", "b")
		if err := EnableJob(t.Context(), table.Store("b"), "set", "a", false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if idle := tape.idle(); len(idle) != 6 {
			t.Errorf("shards %v are moving, want 6", idle)
		}
		tape.await("b")
	})
}

// delayedStore is a Store whose commits take effect after a pause.
type delayedStore struct{ record.Store }

// delayedSession is a session of a delayedStore.
type delayedSession struct{ record.Session }

func (s delayedStore) Session(lost record.LostFunc) record.Session {
	return delayedSession{s.Store.Session(lost)}
}

func (s delayedSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Session.Commit(ctx, ops...)
}

// TestFewShardsMoveTogether checks that at most 1 in 32 shards, but at least one, have no worker
// because they move, while workers join and return.
func TestFewShardsMoveTogether(t *testing.T) {
	for _, count := range []int{12, 96} {
		synctest.Test(t, func(t *testing.T) {
			table, tape := record.NewMemory(), newTape(t, count)
			ids := []string{"a", "b", "c", "d", "e"}
			most := 0
			for i, id := range ids {
				defer runShards(t, delayedStore{table.Store(id)}, count, tape.workOn(id))()
				if i < 2 {
					tape.await(ids[:i+1]...)
				}
				for range 500 + rand.IntN(5000) { // the next worker may join before the shards are equal
					synctest.Wait()
					most = max(most, len(tape.idle()))
					time.Sleep(time.Millisecond)
				}
			}
			tape.await(ids...)
			if limit := max(1, count/maxMovingPart); most != limit {
				t.Errorf("%d of %d shards moved together, want %d", most, count, limit)
			}
		})
	}
}

// forgetfulStore is a Store whose sessions do not learn the outcome of each second commit of a key.
// Some of these commits succeed.
type forgetfulStore struct {
	record.Store
	mu    *sync.Mutex
	calls map[string]int // by key
}

// forgetfulSession is a session of a forgetfulStore.
type forgetfulSession struct {
	record.Session
	store forgetfulStore
}

func (s forgetfulStore) Session(lost record.LostFunc) record.Session {
	return forgetfulSession{s.Store.Session(lost), s}
}

func (s forgetfulSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	s.store.mu.Lock()
	key := ops[len(ops)-1].Key // the key that changes
	s.store.calls[key]++
	forget, succeed := s.store.calls[key]%2 == 1, rand.IntN(2) == 0
	s.store.mu.Unlock()
	if forget && !succeed {
		return member.Token{}, record.ErrUnknownOutcome
	}
	token, err := s.Session.Commit(ctx, ops...)
	if err == nil && forget {
		return member.Token{}, record.ErrUnknownOutcome
	}
	return token, err
}

// TestShardIsTakenWhenReleased checks that a shard that moves has a worker again soon after the
// work of the former worker has returned, although outcomes of commits are unknown.
func TestShardIsTakenWhenReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, tape := record.NewMemory(), newTape(t, 16)
		released, longest := make([]time.Time, 16), time.Duration(0)
		store := func(id string) record.Store {
			return forgetfulStore{table.Store(id), &sync.Mutex{}, map[string]int{}}
		}
		workOn := func(id string) shardWork {
			return func(ctx context.Context, shard int, term leader.Term) error {
				tape.beginWork(ctx, id, shard, term.Token())
				tape.mu.Lock()
				if at := released[shard]; !at.IsZero() {
					longest = max(longest, time.Since(at))
				}
				tape.mu.Unlock()
				<-ctx.Done()
				tape.mu.Lock()
				released[shard] = time.Now()
				tape.mu.Unlock()
				return nil
			}
		}
		ids := []string{"a", "b", "c", "d"}
		for i, id := range ids {
			defer runShards(t, store(id), 16, workOn(id))()
			tape.await(ids[:i+1]...)
		}
		if err := EnableJob(t.Context(), table.Store("a"), "set", "d", false); err != nil {
			t.Fatal(err)
		}
		tape.await(ids[:3]...)
		if longest == 0 || longest > 200*time.Millisecond {
			t.Errorf("a shard had no worker for %v, want at most 200 ms", longest)
		}
	})
}
