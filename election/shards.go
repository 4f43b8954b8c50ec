// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

const (
	// maxShards is half the number of records that a cluster can hold.
	maxShards = 1024
	// shardCloseTimeout bounds how long Run waits for the commits that drop its records.
	shardCloseTimeout = 5 * time.Second
)

// Shards is a set of shards that its workers share. The workers are the members, and the workers of
// package observer, that call Run. Each shard has at most one owner, and the numbers of shards of
// any two workers differ by at most one.
//
// Its methods may be called concurrently. Members that do not run shards can still call Owner.
type Shards struct {
	store  record.Store
	name   string
	prefix string // of the keys of all records of the set
	keys   []string
	terms  []atomic.Pointer[leader.Term] // the last term of each shard in this member
}

// NewShards returns a set of count shards with the numbers 0 to count-1. The maximum count is
// 1,024. The name is the name of a job, so that Jobs and EnableJob apply to the set. Shard 7 is the
// lock "7" of the job. All members must use the same count. NewShards returns an error if name or
// count is invalid. It does not block.
func NewShards(s record.Store, name string, count int) (*Shards, error) {
	prefix, err := holding.JobPrefix(name)
	if err != nil {
		return nil, fmt.Errorf("election: shards: %w", err)
	}
	if count < 1 || count > maxShards {
		return nil, fmt.Errorf("election: shards %q: the count is %d, want 1 to %d", name, count,
			maxShards)
	}
	set := &Shards{
		store: s, name: name, prefix: prefix, terms: make([]atomic.Pointer[leader.Term], count),
	}
	for i := range count {
		key, err := holding.LockKey(name, fmt.Sprint(i))
		if err != nil {
			return nil, fmt.Errorf("election: shards: %w", err)
		}
		set.keys = append(set.keys, key)
	}
	return set, nil
}

// Owner returns the shard of a key and the owner of that shard as this member sees it. It returns
// false if the shard has no known owner. It does not block. The owner may have changed since, so
// storage must compare tokens.
//
// The shard is the first 8 bytes of the SHA-256 of the key, as a big-endian number, modulo the
// number of shards. It never changes.
func (s *Shards) Owner(key string) (shard int, owner leader.Holder, ok bool) {
	shard = s.shardOf(key)
	r, err := record.Get(context.Background(), s.store, s.keys[shard])
	if err != nil || r.Revoked {
		return shard, leader.Holder{}, false
	}
	return shard, leader.Holder{ID: string(r.Value), Token: r.Token}, true
}

func (s *Shards) shardOf(key string) int {
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(len(s.keys)))
}

// ownTerm returns the last term in which this member ran the shard of a key, or the zero Term.
func (s *Shards) ownTerm(key string) leader.Term {
	if term := s.terms[s.shardOf(key)].Load(); term != nil {
		return *term
	}
	return leader.Term{}
}

// Run makes this member a worker, and calls work for each shard that it owns, in a goroutine of its
// own, until ctx is done. It returns the cause of ctx, or an error that wraps leader.ErrClosed if
// the store is closed. It also returns an error if another worker uses a different count.
//
// work has the contract of the function of leader.Candidate.WhileLeader. Its context ends before
// another worker can own the shard. The token of its term is greater than the tokens of all earlier
// owners. Tokens of different shards cannot be compared.
//
// If workers come or go, each worker computes the same shares from the records. Free shards are
// taken immediately. A worker with more than its share gives up shards, beginning with those that
// it took last. All workers together give up at most 1 in 32 shards at a time, but at least one.
// The worker ends the context, waits until work has returned, and only then lets another worker
// take the shard. If work does not return within 5 s, the shard is stuck: it stays with the worker
// until work returns, the others no longer wait for it, and Jobs lists it as Stuck. After a cold
// start, a worker waits for a second before it takes shards, so that the first worker does not take
// all of them.
//
// If work returns an error, or ends its goroutine, the worker gives up the shard. It takes the
// shard again after a pause, unless another worker has taken it. No other shard moves because of
// it: until a term has lasted 30 s, the shard does not count. A worker that is disabled in the job
// gives up all shards immediately.
//
// When ctx is done, Run waits until work has returned, drops the records, and returns. If it cannot
// drop them within 5 s because there is no majority, it returns an error and continues in the
// background. While Run is active, a second Run of the set on the same member owns no shards.
func (s *Shards) Run(
	ctx context.Context, work func(ctx context.Context, shard int, term leader.Term) error,
) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r, err := s.newRun(end)
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	for i, one := range r.shards {
		working.Go(func() {
			_ = one.candidate.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
				s.terms[i].Store(&term)
				return callWork(func() error { return work(ctx, i, term) })
			})
		})
	}
	holding.Watch(ctx, s.store, s.prefix, r.wake, r.balanceSlowly)
	return errors.Join(context.Cause(ctx), r.close(context.WithoutCancel(ctx), &working))
}

// errExited is the error of work that ended its goroutine, as runtime.Goexit does.
var errExited = errors.New("election: the work of a shard ended its goroutine")

// callWork calls work in a goroutine of its own, so that one that ends its goroutine counts as
// failed, and does not end the loop that leads the shard.
func callWork(work func() error) error {
	err := errExited
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = work()
	}()
	<-done
	return err
}

// close waits until the work has returned, and drops the records of this worker.
func (r *shardRun) close(ctx context.Context, working *sync.WaitGroup) error {
	// The record of the worker first, so that Run takes no shards.
	closers := []func(context.Context) error{r.slot.Close, r.turn.Close}
	for _, one := range r.shards {
		closers = append(closers, one.candidate.Close)
	}
	closed := make(chan error, len(closers))
	for _, closeOne := range closers {
		go func() { closed <- closeOne(ctx) }()
	}
	working.Wait()
	timeout := time.After(shardCloseTimeout)
	var failed error
	for range closers {
		select {
		case err := <-closed:
			failed = errors.Join(failed, err)
		case <-timeout:
			return fmt.Errorf("election: shards %q: the records are not dropped yet: %w", r.name,
				record.ErrNoQuorum)
		}
	}
	return failed
}
