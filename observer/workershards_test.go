// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// tape records who runs which shard or job. It fails the test if two run one at the same time, or
// if a token is not greater than the previous one.
type tape struct {
	t *testing.T

	mu     sync.Mutex
	owners map[int]string
	terms  map[int]leader.Term
}

func newTape(t *testing.T) *tape {
	return &tape{t: t, owners: map[int]string{}, terms: map[int]leader.Term{}}
}

// workAs returns the work of a worker, which lasts as long as its context.
func (s *tape) workAs(id string) func(context.Context, int, leader.Term) error {
	return func(ctx context.Context, shard int, term leader.Term) error {
		s.mu.Lock()
		if last := s.terms[shard]; last.Valid() || !last.Token().Less(term.Token()) {
			s.t.Errorf("%s runs %d with token %v; before it %s with %v, valid=%v", id, shard,
				term.Token(), s.owners[shard], last.Token(), last.Valid())
		}
		s.owners[shard], s.terms[shard] = id, term
		s.mu.Unlock()
		<-ctx.Done()
		return nil
	}
}

// countRun returns how many each worker runs.
func (s *tape) countRun() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for shard, owner := range s.owners {
		if s.terms[shard].Valid() {
			n[owner]++
		}
	}
	return n
}

// awaitShares waits until each of the given workers runs between least and most, and no other any.
func (s *tape) awaitShares(limit time.Duration, least, most int, ids ...string) {
	s.t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		n := s.countRun()
		fair := len(n) == len(ids)
		for _, id := range ids {
			fair = fair && least <= n[id] && n[id] <= most
		}
		if fair {
			return
		}
		if time.Since(began) > limit {
			s.t.Fatalf("after %v: %v, want %d to %d of each of %v", limit, n, least, most, ids)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestWorkersShareShards runs 32 shards on five workers and a member. Then a worker ends, a worker
// is killed, and the leader is killed, one after the other.
func TestWorkersShareShards(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := newTape(t)
		var running sync.WaitGroup
		defer running.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		run := func(ctx context.Context, id string, records record.Store) {
			shards, err := election.NewShards(records, "set", 32)
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = shards.Run(ctx, s.workAs(id)) })
		}
		var ids []string
		ends := map[string]context.CancelFunc{}
		for i := range 5 {
			o := w.startObserver(i, addressOf(0), addressOf(1), addressOf(2))
			defer o.Close()
			work, err := o.Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprint("w", i)
			ids = append(ids, id)
			var one context.Context
			one, ends[id] = context.WithCancel(ctx)
			run(one, id, work.Records())
		}
		down := (w.findLeader() + 1) % 3
		run(ctx, "n", w.nodes[down].Records())
		s.awaitShares(5*time.Second, 5, 6, append(ids, "n")...)
		ends["w0"]()
		s.awaitShares(3*time.Second, 6, 7, "w1", "w2", "w3", "w4", "n")
		w.net.Kill(member.Address{Host: "127.0.0.1", Port: 9001})
		s.awaitShares(3*time.Second, 8, 8, "w2", "w3", "w4", "n")
		w.net.Kill(addressOf(w.findLeader()))
		time.Sleep(10 * time.Second)
		s.awaitShares(0, 8, 8, "w2", "w3", "w4", "n")
	})
}

// TestWorkersLeadJobs opens a job on three workers. When the leader ends, another one leads, even
// if the first was killed.
func TestWorkersLeadJobs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		s := newTape(t)
		var running sync.WaitGroup
		defer running.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		end := map[string]func(){}
		for i := range 3 {
			o, work := w.startWorker(i)
			defer o.Close()
			job, err := election.OpenJob(ctx, work.Records(), "report", election.JobOptions{})
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprint("w", i)
			lead := s.workAs(id)
			running.Go(func() {
				_ = job.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
					return lead(ctx, 0, term)
				})
			})
			end[id] = func() { w.net.Kill(member.Address{Host: "127.0.0.1", Port: uint16(9000 + i)}) }
			if i == 0 {
				end[id] = func() { _ = job.Close(ctx) }
			}
			defer func() {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_ = job.Close(ctx) // fails for workers that were killed
			}()
		}
		for len(end) > 0 {
			var leads string
			for began := time.Now(); leads == ""; time.Sleep(time.Millisecond) {
				for id := range s.countRun() {
					leads = id
				}
				if time.Since(began) > 4*time.Second {
					t.Fatalf("no worker of %d leads", len(end))
				}
			}
			if end[leads] == nil {
				t.Fatalf("%s leads after its end", leads)
			}
			end[leads]()
			delete(end, leads)
			for began := time.Now(); s.countRun()[leads] > 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > 4*time.Second {
					t.Fatalf("%s still leads", leads)
				}
			}
		}
	})
}
