// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// shardTape records which worker runs which shard. It fails the test if two contexts of a shard are
// alive at the same time, or if a token is not greater than the previous token.
type shardTape struct {
	t *testing.T

	mu       sync.Mutex
	owners   []string // the last owner of each shard
	tokens   []member.Token
	contexts []context.Context
	moves    int // changes of owner
}

func newTape(t *testing.T, count int) *shardTape {
	return &shardTape{
		t: t, owners: make([]string, count), tokens: make([]member.Token, count),
		contexts: make([]context.Context, count),
	}
}

// workOn returns the work of a worker. The work returns some time after its context has ended.
func (s *shardTape) workOn(id string) shardWork {
	return func(ctx context.Context, shard int, term leader.Term) error {
		s.beginWork(ctx, id, shard, term.Token())
		<-ctx.Done()
		time.Sleep(rand.N(100 * time.Millisecond))
		return nil
	}
}

type shardWork = func(context.Context, int, leader.Term) error

func (s *shardTape) beginWork(ctx context.Context, id string, shard int, token member.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.contexts[shard]; old != nil && old.Err() == nil {
		s.t.Errorf("%s and %s run shard %d", s.owners[shard], id, shard)
	}
	if !s.tokens[shard].Less(token) && s.owners[shard] != id {
		s.t.Errorf("shard %d: token %v after %v", shard, token, s.tokens[shard])
	}
	if s.owners[shard] != "" && s.owners[shard] != id {
		s.moves++
	}
	s.owners[shard], s.tokens[shard], s.contexts[shard] = id, token, ctx
}

// counts returns the number of shards that each worker runs, and the number of moves so far.
func (s *shardTape) counts() (counts map[string]int, moves int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts = map[string]int{}
	for shard, ctx := range s.contexts {
		if ctx != nil && ctx.Err() == nil {
			counts[s.owners[shard]]++
		}
	}
	return counts, s.moves
}

// await waits until only the given workers run shards, and each of them runs its share.
func (s *shardTape) await(ids ...string) {
	s.t.Helper()
	least, most := len(s.owners)/len(ids), (len(s.owners)+len(ids)-1)/len(ids)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		counts, _ := s.counts()
		sum, fair := 0, true
		for _, id := range ids {
			n := counts[id]
			sum, fair = sum+n, fair && least <= n && n <= most
		}
		if fair && sum == len(s.owners) {
			return
		}
		if time.Since(began) > 10*time.Second {
			s.t.Fatalf("shards of %v after 10 s: %v", ids, counts)
		}
	}
}

// needed returns the least number of moves after which only the given workers own shards, and each
// of them owns its share. It includes the moves of shards whose owners are gone.
func (s *shardTape) needed(ids ...string) (n int) {
	counts, _ := s.counts()
	var all []int
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ctx := range s.contexts {
		if ctx != nil { // a shard that never had an owner does not move
			n++
		}
	}
	for _, id := range ids {
		all = append(all, counts[id])
		n -= counts[id]
	}
	return n + leastMoves(all, len(s.owners))
}

// moveTo waits until the given workers share the shards, and checks that no shard moves needlessly
// until then or soon after.
func (s *shardTape) moveTo(what string, ids ...string) {
	s.t.Helper()
	_, before := s.counts()
	needed := s.needed(ids...)
	s.await(ids...)
	time.Sleep(3 * time.Second)
	if _, after := s.counts(); after-before != needed {
		s.t.Errorf("%s: %d moves, want %d", what, after-before, needed)
	}
	s.await(ids...)
}

// runShards runs a worker. The function that it returns stops the worker.
func runShards(t *testing.T, s record.Store, count int, work shardWork) (stop func()) {
	t.Helper()
	shards, err := NewShards(s, "set", count)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- shards.Run(ctx, work) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestShardWorkEndsItsGoroutine checks that work that ends its goroutine counts as failed.
func TestShardWorkEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, tape := record.NewMemory(), newTape(t, 1)
		var exits atomic.Int64
		defer runShards(t, table.Store("a"), 1, func(context.Context, int, leader.Term) error {
			exits.Add(1)
			runtime.Goexit()
			return nil
		})()
		time.Sleep(time.Minute)
		if n := exits.Load(); n < 2 {
			t.Errorf("worked %d times alone in a minute, want more", n)
		}
		defer runShards(t, table.Store("b"), 1, tape.workOn("b"))()
		tape.await("b")
	})
}

// TestShardsMoveOnlyAsNeeded checks the moves while workers join, leave and are disabled.
func TestShardsMoveOnlyAsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 14
		table, tape := record.NewMemory(), newTape(t, count)
		stops := map[string]func(){}
		for i, id := range []string{"a", "b", "c", "d"} {
			stops[id] = runShards(t, table.Store(id), count, tape.workOn(id))
			tape.moveTo(id+" joins", []string{"a", "b", "c", "d"}[:i+1]...)
		}
		stops["a"]()
		tape.moveTo("a leaves", "b", "c", "d")
		for _, on := range []bool{false, true} {
			if err := EnableJob(t.Context(), table.Store("d"), "set", "b", on); err != nil {
				t.Fatal(err)
			}
			if on {
				tape.moveTo("b is enabled", "b", "c", "d")
			} else {
				tape.await("c", "d")
			}
		}
		for _, id := range []string{"b", "c", "d"} {
			stops[id]()
		}
	})
}

// TestShardsColdStart checks that workers that start together share the shards without a move.
func TestShardsColdStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, tape := record.NewMemory(), newTape(t, 256)
		ids := []string{"a", "b", "c", "d", "e"}
		for _, id := range ids {
			defer runShards(t, table.Store(id), 256, tape.workOn(id))()
			time.Sleep(100 * time.Millisecond)
		}
		tape.await(ids...)
		if _, moves := tape.counts(); moves != 0 {
			t.Errorf("%d moves, want 0", moves)
		}
	})
}

// TestShardThatFails checks that a shard moves to another worker if its work fails on some workers
// immediately. If the work fails on all workers, it is retried after pauses. No other shard moves
// because of it, also if the work fails after some time.
func TestShardThatFails(t *testing.T) {
	for failing := 1; failing <= 3; failing++ {
		for _, after := range []time.Duration{0, 3 * time.Second, 20 * time.Second} {
			synctest.Test(t, func(t *testing.T) { failShard(t, failing, after) })
		}
	}
}

// failShard makes the work of a shard fail on a number of workers after the given time.
func failShard(t *testing.T, failing int, after time.Duration) {
	const count, bad = 9, 4
	table, tape := record.NewMemory(), newTape(t, count)
	ids := []string{"a", "b", "c"}
	fails, runs := map[string]bool{}, 0
	work := func(id string) shardWork {
		return func(ctx context.Context, shard int, term leader.Term) error {
			tape.mu.Lock()
			fail := shard == bad && fails[id]
			if fail {
				runs++
			}
			tape.mu.Unlock()
			if fail {
				_ = holding.Pause(ctx, nil, after)
				return errors.New("it fails")
			}
			return tape.workOn(id)(ctx, shard, term)
		}
	}
	for _, id := range ids {
		defer runShards(t, table.Store(id), count, work(id))()
	}
	tape.await(ids...)
	tape.mu.Lock()
	first := tape.owners[bad]
	for i := range failing {
		fails[ids[(slices.Index(ids, first)+i)%len(ids)]] = true
	}
	tape.mu.Unlock()
	table.Expire(first) // its shards become free, and the work of shard bad begins to fail
	time.Sleep(time.Minute)
	tape.mu.Lock()
	owners, since := slices.Clone(tape.owners), runs
	tape.mu.Unlock()
	time.Sleep(time.Minute)
	tape.mu.Lock()
	defer tape.mu.Unlock()
	healthy := map[string]int{}
	for shard, owner := range tape.owners {
		if shard == bad {
			continue
		}
		if healthy[owner]++; owner != owners[shard] {
			t.Errorf("%d workers fail: shard %d moved from %s to %s", failing, shard, owners[shard], owner)
		}
	}
	for _, id := range ids {
		if n := healthy[id]; failing == 3 && (n < 2 || n > 3) {
			t.Errorf("%d workers fail: %s has %d of 8 healthy shards, want 2 or 3", failing, id, n)
		}
	}
	again, runsBad := runs-since, tape.contexts[bad].Err() == nil
	least := int(time.Minute / (after + 5*time.Second))
	settled := failing < 3 && after == 0
	if settled && (!runsBad || again > 0) || failing == 3 && (again < least || again > 36) {
		t.Errorf("%d workers fail after %v: %d runs in a minute, and shard %d has a worker: %v", failing,
			after, again, bad, runsBad)
	}
	t.Logf("%d workers fail: %d runs in a minute", failing, again)
}

// TestShardsAndLocks checks that a lock keeps a shard from all workers, and that members without
// shards find the owner of a key.
func TestShardsAndLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, tape := record.NewMemory(), newTape(t, 8)
		key, err := holding.LockKey("set", "3")
		if err != nil {
			t.Fatal(err)
		}
		session := table.Store("x").Session(nil)
		change := func(kind record.Kind) {
			if _, err := session.Commit(t.Context(), record.Op{Kind: kind, Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		change(record.SetOwned)
		defer runShards(t, table.Store("a"), 8, tape.workOn("a"))()
		time.Sleep(time.Minute)
		if counts, _ := tape.counts(); counts["a"] != 7 {
			t.Errorf("the worker has %d shards while one is locked, want 7", counts["a"])
		}
		change(record.Drop)
		tape.await("a")
		s, err := NewShards(table.Store("x"), "set", 8)
		if err != nil {
			t.Fatal(err)
		}
		shard, owner, ok := s.Owner("alice")
		tape.mu.Lock()
		want := leader.Holder{ID: "a", Token: tape.tokens[7]}
		tape.mu.Unlock()
		if shard != 7 || owner != want || !ok {
			t.Errorf("Owner: %d, %v, %v, want 7, %v, true", shard, owner, ok, want)
		}
	})
}

// TestShardsTwice checks that a second Run on a member owns shards only after the first has ended.
func TestShardsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, first, second := record.NewMemory(), newTape(t, 8), newTape(t, 8)
		stop := runShards(t, table.Store("a"), 8, first.workOn("a"))
		first.await("a")
		defer runShards(t, table.Store("a"), 8, second.workOn("a"))()
		time.Sleep(time.Minute)
		if counts, _ := second.counts(); counts["a"] != 0 {
			t.Errorf("the second Run owns %d shards, want 0", counts["a"])
		}
		stop()
		second.await("a")
	})
}

// TestShardsRefused checks the errors for invalid arguments.
func TestShardsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, tape := record.NewMemory(), newTape(t, 8)
		for _, count := range []int{-1, 0, maxShards + 1} {
			if _, err := NewShards(table.Store("a"), "set", count); err == nil {
				t.Errorf("count %d: no error", count)
			}
		}
		if _, err := NewShards(table.Store("a"), "a/b", 8); err == nil {
			t.Error("name a/b: no error")
		}
		defer runShards(t, table.Store("a"), 8, tape.workOn("a"))()
		synctest.Wait()
		s, err := NewShards(table.Store("b"), "set", 9)
		if err == nil {
			err = s.Run(t.Context(), tape.workOn("b"))
		}
		if err == nil || errors.Is(err, leader.ErrClosed) {
			t.Errorf("another count: %v, want an error", err)
		}
	})
}

// TestShardsUnderFaults causes random faults of five members. No shard has two workers at the same
// time. The shares are fair again within 10 s, and no shard moves needlessly.
func TestShardsUnderFaults(t *testing.T) {
	for range 4 {
		inWorld(t, 5, func(t *testing.T, w *world) {
			s := &shardWorld{world: w, tape: newTape(t, 64), stops: make([]func(), len(w.nodes))}
			for i := range w.nodes {
				s.runWorker(i)
			}
			s.tape.await(s.ids()...)
			for range 12 {
				s.playFault([]string{"killed", "cut off", "stopped", "restarted"}[rand.IntN(4)],
					rand.Perm(len(w.nodes))[:1+rand.IntN(3)])
			}
			for i, n := range w.nodes {
				s.stops[i]()
				_ = n.Close()
			}
			s.running.Wait()
		})
	}
}

// shardWorld is a world whose members run shards.
type shardWorld struct {
	*world
	tape    *shardTape
	stops   []func() // stop the workers
	running sync.WaitGroup
}

func (s *shardWorld) runWorker(i int) {
	shards, err := NewShards(s.nodes[i].Records(), "set", len(s.tape.owners))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stops[i] = cancel
	s.running.Go(func() { _ = shards.Run(ctx, s.tape.workOn(address(i).String())) })
}

// ids returns the ids of all members except the given ones.
func (s *shardWorld) ids(but ...int) (ids []string) {
	for i := range s.nodes {
		if !slices.Contains(but, i) {
			ids = append(ids, address(i).String())
		}
	}
	return ids
}

// playFault causes a fault of some members, repairs it, and waits until all members share the
// shards again. Three members are a majority.
func (s *shardWorld) playFault(what string, gone []int) {
	s.t.Log(what, gone)
	rest, few := s.ids(gone...), len(gone) < 3
	await := s.tape.await
	switch what {
	case "stopped":
		for _, i := range gone {
			s.stops[i]()
		}
		synctest.Wait()
		s.tape.moveTo(what, rest...)
	case "killed", "restarted":
		for _, i := range gone {
			_ = s.nodes[i].Close()
		}
		if what == "killed" && few {
			s.tape.moveTo(what, rest...)
		}
		time.Sleep(rand.N(5 * time.Second))
		var starting sync.WaitGroup
		for _, i := range gone {
			starting.Go(func() { s.start(i) })
		}
		starting.Wait()
	case "cut off":
		s.cutBetween(gone, []int{0, 1, 2, 3, 4}, true)
		time.Sleep(3 * time.Second) // until the contexts have ended
		if few {
			await(rest...)
		}
		s.cutBetween(gone, []int{0, 1, 2, 3, 4}, false)
		await(s.ids()...)
		return
	}
	for _, i := range gone {
		s.runWorker(i)
	}
	if what == "stopped" || what == "killed" && few {
		await = func(ids ...string) { s.tape.moveTo("after "+what, ids...) }
	}
	await(s.ids()...)
}

// TestShardsStopWithoutMajority checks that Run returns although it cannot drop its records.
func TestShardsStopWithoutMajority(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		tape := newTape(t, 6)
		s, err := NewShards(w.nodes[0].Records(), "set", 6)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx, tape.workOn(fmt.Sprint(address(0)))) }()
		tape.await(fmt.Sprint(address(0)))
		w.cutBetween([]int{0}, []int{1, 2}, true)
		cancel()
		began := time.Now()
		if err := <-done; !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Run: %v, want %v", err, record.ErrNoQuorum)
		}
		if took := time.Since(began); took > shardCloseTimeout+time.Second {
			t.Errorf("Run took %v to stop", took)
		}
	})
}
