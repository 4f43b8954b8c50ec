// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// shardSettle is how long a worker waits after a cold start, so that the other workers can start.
const shardSettle = time.Second

// shardRun is a call of Run. One goroutine runs balance, which decides from the records. Each shard
// of this worker has a goroutine that acquires, holds and drops its record.
type shardRun struct {
	*Shards
	session record.Session
	slot    *jobrecord.Slot // the record of this worker
	shards  []*ownShard
	end     context.CancelCauseFunc
	wake    chan struct{} // buffered; signals that a shard has changed

	joined time.Time // when the record of this worker was first seen
}

// ownShard is the state of this worker as a candidate for one shard.
type ownShard struct {
	*jobSource
	candidate *leader.Candidate
	// spared is set if the work of the shard failed on another worker while this worker leads the
	// shard. This worker gives up a spared shard last, because the shard would return to the worker on
	// which it failed.
	spared bool

	// These are guarded by jobSource.mu.
	active  bool         // the goroutine of the shard runs
	leaving bool         // the goroutine gives up the shard
	dropped member.Token // the token of the last record that the goroutine gave up
}

// newRun returns an error if another worker uses a different number of shards.
func (s *Shards) newRun(end context.CancelCauseFunc) (*shardRun, error) {
	records, err := s.store.List(context.Background(), s.prefix+"worker/")
	if err != nil {
		return nil, fmt.Errorf("election: shards %q: %w", s.name, err)
	}
	session := s.store.Session(nil)
	if _, err := jobrecord.DisabledKey(s.name, session.Member()); err != nil { // the longest key
		return nil, fmt.Errorf("election: shards: %w", err)
	}
	key := s.prefix + "worker/" + session.Member()
	for _, r := range records {
		if count, _ := parseWorker(r.Value); count != len(s.keys) && r.Key != key {
			return nil, fmt.Errorf("election: shards %q: this member has %d shards, but a worker (%s) has "+
				"%d: use the same number on all members", s.name, len(s.keys), r.Key, count)
		}
	}
	r := &shardRun{
		Shards: s, session: session, end: end, wake: make(chan struct{}, 1),
		slot: &jobrecord.Slot{Store: s.store, Session: session, Key: key},
	}
	for _, key := range s.keys {
		source := newSource(s.store, session, s.prefix, key)
		r.shards = append(r.shards, &ownShard{
			jobSource: source,
			candidate: leader.New(context.Background(), source, leader.Options{}),
		})
	}
	return r, nil
}

// balance takes and gives up shards as the records require. It returns how long to wait before the
// next call if nothing changes.
func (r *shardRun) balance(ctx context.Context) time.Duration {
	records, err := r.store.List(ctx, r.prefix)
	if errors.Is(err, leader.ErrClosed) {
		r.end(fmt.Errorf("election: the store of shards %q: %w", r.name, err))
	}
	if err != nil {
		return jobrecord.LookInterval
	}
	own, again := r.updateWorker(ctx, records)
	if own.Token.IsZero() {
		r.joined = time.Time{}
		return again
	}
	if r.joined.IsZero() {
		r.joined = time.Now()
	}
	p := r.readPlan(records)
	worker := p.indexOf(r.session.Member(), own.Session)
	kept, leaving := r.resumeOwn(records, p, worker)
	give := len(kept) // if this worker is disabled
	if worker >= 0 {
		give = p.surplus(worker) - leaving
	}
	settle := shardSettle - time.Since(r.joined)
	if p.free == len(r.keys) && settle > 0 {
		return min(again, settle)
	}
	free := p.allotFree()
	for shard, w := range free {
		if one := r.shards[shard]; w == worker && one.pauseLeft() <= 0 {
			r.leadShard(one, member.Record{})
		}
	}
	// Limit the number of shards that have no owner because they are moving.
	give = min(give, max(1, len(r.keys)/32)-leaving-len(free))
	for _, shard := range kept {
		if give > 0 && (worker < 0 || p.hasTaker(shard, worker)) {
			r.shards[shard].giveUp(worker < 0)
			give--
		}
	}
	return again
}

// updateWorker keeps the record of this worker up to date. It returns the record, or a zero record
// if the record does not exist yet.
func (r *shardRun) updateWorker(
	ctx context.Context, records []member.Record,
) (own member.Record, again time.Duration) {
	var failing []int
	again = jobrecord.LookInterval
	for i, one := range r.shards {
		if left := one.pauseLeft(); left > 0 {
			failing = append(failing, i)
			again = min(again, left)
		}
	}
	value := formatWorker(len(r.keys), failing)
	condition := record.Op{Kind: record.Absent, Key: r.slot.Key}
	if own, ok := jobrecord.Find(records, r.slot.Key); ok {
		switch {
		case !r.session.Owns(own) || own.Revoked: // another Run of this member has the record
			return member.Record{}, again
		case bytes.Equal(own.Value, value):
			return own, again
		}
		condition.Kind, condition.Token = record.Held, own.Token
	}
	ctx, stop := context.WithTimeout(ctx, jobrecord.LookInterval)
	defer stop()
	_, _ = r.slot.SetValue(ctx, value, condition) // after an error, the next attempt follows soon
	return own, again
}

// resumeOwn adds the shards that this worker is taking to the plan, and leads each shard whose
// record the worker owns. It returns the shards that the worker leads, in the order in which to
// give them up. leaving is the number of shards that the worker is giving up.
func (r *shardRun) resumeOwn(
	records []member.Record, p *shardPlan, worker int,
) (kept []int, leaving int) {
	tokens := map[int]member.Token{}
	for shard, one := range r.shards {
		own, _ := jobrecord.Find(records, one.slot.Key)
		one.mu.Lock()
		active, leads := one.active, one.term != nil && !one.term.lease.Ended()
		takes := active && !one.leaving && (one.term == nil || leads)
		leaves := one.leaving || own.Token == one.dropped
		one.mu.Unlock()
		switch {
		case own.Token.IsZero() && takes && worker >= 0:
			p.free--
			p.setOwner(shard, p.workers[worker].id, p.workers[worker].session)
		case own.Token.IsZero() || own.Revoked || !r.session.Owns(own):
		case leaves: // the commit that drops this record may be newer than records
			leaving++
		case !active:
			r.leadShard(one, own)
		case leads:
			one.spared = one.spared || p.isFailing(shard)
			kept, tokens[shard] = append(kept, shard), own.Token
		}
	}
	slices.SortFunc(kept, func(a, b int) int {
		return cmp.Or(tokens[b].Compare(tokens[a]), cmp.Compare(b, a))
	})
	isSpared := func(shard int) bool { return r.shards[shard].spared }
	last := slices.DeleteFunc(slices.Clone(kept), func(shard int) bool { return !isSpared(shard) })
	return append(slices.DeleteFunc(kept, isSpared), last...), leaving
}

// leadShard makes this worker lead a shard until the term has ended and its functions have
// returned. The worker leads by its record own or, if own is zero, by a record that it sets.
func (r *shardRun) leadShard(one *ownShard, own member.Record) {
	one.mu.Lock()
	running := one.active
	one.active = true
	one.mu.Unlock()
	if running {
		return
	}
	one.spared = false
	one.running.Go(func() {
		condition := record.Op{Kind: record.Absent, Key: one.slot.Key}
		var led *jobTerm
		if !own.Token.IsZero() {
			condition.Kind, condition.Token = record.Held, own.Token
			led = one.leadByRecord(own.Token)
		}
		if led == nil {
			led = one.acquireRecord(condition)
		}
		var dropped member.Token
		if led == nil {
			_ = jobrecord.Pause(one.life, nil, jobrecord.LookInterval)
		} else if gaveUp(led.lease) {
			dropped = led.lease.Term().Token()
			for err := led.err; err != nil && one.life.Err() == nil; {
				_ = jobrecord.Pause(one.life, nil, jobrecord.LookInterval)
				err = one.slot.Drop(one.life, dropped)
			}
		}
		one.mu.Lock()
		one.active, one.leaving, one.dropped = false, false, dropped
		one.mu.Unlock()
		select {
		case r.wake <- struct{}{}:
		default:
		}
	})
}

// pauseLeft returns the rest of the pause after failed work. It is not positive if the pause is
// over.
func (o *ownShard) pauseLeft() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Until(o.notBefore)
}

// giveUp ends the term. The goroutine of the shard then drops the record.
func (o *ownShard) giveUp(disabled bool) {
	o.mu.Lock()
	o.leaving = o.term != nil
	o.mu.Unlock()
	why := leader.ErrResigned
	if disabled {
		why = leader.ErrDisabled
	}
	o.endTerm(why)
}
