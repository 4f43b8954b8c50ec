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

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const (
	// shardSettle is how long a worker waits after a cold start, so that the other workers can start.
	shardSettle = time.Second
	// shardStuck is how long other shards wait for a shard that moves. If its work has not returned
	// by then, the shard is stuck.
	shardStuck = 5 * time.Second
	// shardProven is how long a term of a shard lasts before the shard counts as healthy again after
	// its work has failed on any worker.
	shardProven = 30 * time.Second
	// shardRetry is the first pause after a commit for a shard was refused. Each further pause is
	// twice as long, up to LookInterval.
	shardRetry = 20 * time.Millisecond
	// After each decision a worker pauses pausePart times as long as the decision took, but at most
	// maxPause. Otherwise a hundred workers on a busy machine, which all decide again after each
	// change of a record, would leave it no time for their heartbeats.
	pausePart = 10
	maxPause  = 250 * time.Millisecond
	// maxMovingPart is the part of all shards that may move for balance at the same time.
	maxMovingPart = 32
)

// shardRun is a call of Run. One goroutine runs balance, which decides from the records. Each shard
// of this worker has a goroutine that acquires, holds and drops its record.
type shardRun struct {
	*Shards
	session record.Session
	slot    *holding.Slot // the record of this worker
	shards  []*ownShard
	end     context.CancelCauseFunc
	wake    chan struct{} // buffered; signals that a shard has changed
	joined  time.Time     // when the record of this worker was first seen

	// The owner of the record turn gives up shards. The others wait, so that the limit applies to all
	// workers together.
	turn *holding.Slot
}

// ownShard is the state of this worker as a candidate for one shard.
type ownShard struct {
	*jobSource
	candidate *leader.Candidate

	// These are used by balance only.
	token member.Token // of the record of the shard; zero without a record
	since time.Time    // when token was first seen
	ended time.Time    // when the term of this worker was first seen to have ended, or zero
	// stuck is set if the term ended shardStuck ago and the work has still not returned.
	stuck   bool
	pause   time.Duration // the rest of the pause after failed work; not positive if it is over
	suspect bool          // some worker could not take it, and no term lasted shardProven since
	// spared is set if the shard is suspect while this worker leads it. This worker gives up a spared
	// shard last, because the shard would return to the worker on which it failed.
	spared bool

	// These are guarded by jobSource.mu.
	active     bool          // the goroutine of the shard runs
	leaving    bool          // the goroutine gives up the shard
	dropped    member.Token  // the token of the last record that the goroutine gave up
	retryAt    time.Time     // the end of the pause after a refused commit
	retryPause time.Duration // that pause
}

// newRun returns an error if another worker uses a different number of shards.
func (s *Shards) newRun(end context.CancelCauseFunc) (*shardRun, error) {
	records, err := s.store.List(context.Background(), s.prefix+"worker/")
	if err != nil {
		return nil, fmt.Errorf("election: shards %q: %w", s.name, err)
	}
	session := s.store.Session(nil)
	if _, err := holding.DisabledKey(s.name, session.Member()); err != nil { // the longest key
		return nil, fmt.Errorf("election: shards: %w", err)
	}
	key := s.prefix + "worker/" + session.Member()
	for _, r := range records {
		if count, _, _ := parseWorker(r.Value); count != len(s.keys) && r.Key != key {
			return nil, fmt.Errorf("election: shards %q: this member has %d shards, but a worker (%s) has "+
				"%d: use the same number on all members", s.name, len(s.keys), r.Key, count)
		}
	}
	r := &shardRun{
		Shards: s, session: session, end: end, wake: make(chan struct{}, 1),
		slot: &holding.Slot{Store: s.store, Session: session, Key: key},
		turn: &holding.Slot{Store: s.store, Session: session, Key: s.prefix + "turn"},
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

// balanceSlowly calls balance, and pauses.
func (r *shardRun) balanceSlowly(ctx context.Context) time.Duration {
	began := time.Now()
	again := r.balance(ctx)
	_ = holding.Pause(ctx, nil, min(pausePart*time.Since(began), maxPause))
	return again
}

// balance takes and gives up shards as the records require. It returns how long to wait before the
// next call if nothing changes.
func (r *shardRun) balance(ctx context.Context) time.Duration {
	records, err := r.store.List(ctx, r.prefix)
	r.endIfClosed(err)
	if err != nil {
		return holding.LookInterval
	}
	p := r.readPlan(records)
	r.observeShards(p)
	own, again := r.updateWorker(ctx, records)
	if own.Token.IsZero() {
		r.joined = time.Time{}
		return again
	}
	if r.joined.IsZero() {
		r.joined = time.Now()
	}
	worker := p.indexOf(r.session.Member(), own.Session)
	kept, moving := r.resumeOwn(p, worker)
	if worker < 0 { // this worker is disabled
		for _, shard := range kept {
			r.shards[shard].giveUp(leader.ErrDisabled)
		}
		r.passTurn(ctx, records)
		return again
	}
	settle := shardSettle - time.Since(r.joined)
	if p.free == len(r.keys) && settle > 0 {
		return min(again, settle)
	}
	surplus := p.surplus(worker) - moving
	free := 0 // free shards that a worker will take soon
	for shard, w := range p.allotFree() {
		one := r.shards[shard]
		if w == worker && one.isTakable() {
			r.leadShard(one, member.Record{})
		}
		if time.Since(one.since) < shardStuck {
			free++
		}
	}
	var give []int
	for _, shard := range kept {
		if len(give) < surplus && !p.suspect[shard] && p.hasTaker(shard, worker) {
			give = append(give, shard)
		}
	}
	switch limit := max(1, len(r.keys)/maxMovingPart) - moving - free; {
	case len(give) > 0 && r.takeTurn(ctx, records):
		for _, shard := range give[:min(len(give), max(0, limit))] {
			r.shards[shard].giveUp(leader.ErrResigned)
		}
	case len(give) == 0 && moving == 0:
		r.passTurn(ctx, records)
	}
	return again
}

// endIfClosed ends this run, which drops its records, if the store is closed or its node leaves.
func (r *shardRun) endIfClosed(err error) {
	if errors.Is(err, leader.ErrClosed) {
		r.end(fmt.Errorf("election: the store of shards %q: %w", r.name, err))
	}
}

// observeShards updates what this worker knows about each shard, and adds the suspect shards to the
// plan.
func (r *shardRun) observeShards(p *shardPlan) {
	now := time.Now()
	for shard, one := range r.shards {
		own := &p.records[shard]
		if own.Token != one.token || one.since.IsZero() {
			one.token, one.since = own.Token, now
		}
		one.mu.Lock()
		switch {
		case one.term == nil || !one.term.lease.Ended():
			one.ended = time.Time{}
		case one.ended.IsZero():
			one.ended = now
		}
		one.pause = one.notBefore.Sub(now)
		one.mu.Unlock()
		one.stuck = !one.ended.IsZero() && now.Sub(one.ended) >= shardStuck
		proven := !one.token.IsZero() && now.Sub(one.since) >= shardProven
		one.suspect = p.suspect[shard] || !one.isTakable() || one.suspect && !proven
		if one.suspect {
			p.suspectShard(shard)
		}
	}
}

// takeTurn reports whether this worker has the turn. If no worker has it, takeTurn tries to take
// it.
func (r *shardRun) takeTurn(ctx context.Context, records []member.Record) bool {
	turn, taken := holding.Find(records, r.turn.Key)
	if !taken {
		ctx, stop := r.turn.Attempt(ctx)
		defer stop()
		// Then balance runs again: after the change of the record or, after an error, LookInterval.
		_, _ = r.turn.Set(ctx, record.Op{Kind: record.Absent, Key: r.turn.Key})
	}
	return taken && r.session.Owns(turn) && !turn.Revoked
}

// passTurn drops the turn if this worker has it. After an error, the next attempt follows soon.
func (r *shardRun) passTurn(ctx context.Context, records []member.Record) {
	if turn, taken := holding.Find(records, r.turn.Key); taken && r.session.Owns(turn) {
		_ = r.turn.Drop(ctx, turn.Token)
	}
}

// wakeUp makes balance run soon.
func (r *shardRun) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// updateWorker keeps the record of this worker up to date. It returns the record, or a zero record
// if the record does not exist yet.
func (r *shardRun) updateWorker(
	ctx context.Context, records []member.Record,
) (own member.Record, again time.Duration) {
	var failing []int
	stuck := map[int]bool{}
	again = holding.LookInterval
	for i, one := range r.shards {
		if one.pause > 0 {
			again = min(again, one.pause)
		}
		if !one.isTakable() {
			failing, stuck[i] = append(failing, i), one.stuck
		}
	}
	value := formatWorker(len(r.keys), failing, stuck)
	condition := record.Op{Kind: record.Absent, Key: r.slot.Key}
	if own, ok := holding.Find(records, r.slot.Key); ok {
		switch {
		case !r.session.Owns(own) || own.Revoked: // another Run of this member has the record
			return member.Record{}, again
		case bytes.Equal(own.Value, value):
			return own, again
		}
		condition.Kind, condition.Token = record.Held, own.Token
	}
	ctx, stop := r.slot.Attempt(ctx)
	defer stop()
	_, _ = r.slot.SetValue(ctx, value, condition) // after an error, the next attempt follows soon
	return own, again
}

// resumeOwn adds the shards that this worker is taking to the plan, and leads each shard whose
// record the worker owns. It returns the shards that the worker leads, in the order in which to
// give them up. moving is the number of shards that the worker is giving up, without stuck ones.
func (r *shardRun) resumeOwn(p *shardPlan, worker int) (kept []int, moving int) {
	tokens := map[int]member.Token{}
	for shard, one := range r.shards {
		own := p.records[shard]
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
			if !one.stuck {
				moving++
			}
		case !active:
			r.leadShard(one, own)
		case leads:
			one.spared = one.spared || p.suspect[shard]
			kept, tokens[shard] = append(kept, shard), own.Token
		}
	}
	slices.SortFunc(kept, func(a, b int) int {
		return cmp.Or(tokens[b].Compare(tokens[a]), cmp.Compare(b, a))
	})
	isSpared := func(shard int) bool { return r.shards[shard].spared }
	last := slices.DeleteFunc(slices.Clone(kept), func(shard int) bool { return !isSpared(shard) })
	return append(slices.DeleteFunc(kept, isSpared), last...), moving
}

// leadShard makes this worker lead a shard until the term has ended and its functions have
// returned. The worker leads by its record own or, if own is zero, by a record that it sets. During
// the pause after a refused commit, leadShard does nothing.
func (r *shardRun) leadShard(one *ownShard, own member.Record) {
	one.mu.Lock()
	running := one.active || time.Now().Before(one.retryAt)
	one.active = one.active || !running
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
			s, _ := one.State()
			r.endIfClosed(s.Why)
		} else if gaveUp(led.lease) {
			dropped = led.lease.Term().Token()
			r.endIfClosed(led.lease.Term().Err())
			pause := shardRetry
			for err := led.err; err != nil && one.life.Err() == nil; {
				_ = holding.Pause(one.life, nil, pause)
				pause = min(2*pause, holding.LookInterval)
				err = one.slot.Drop(one.life, dropped)
			}
		}
		time.AfterFunc(one.endRun(led != nil, dropped), r.wakeUp)
	})
}

// endRun marks the goroutine of the shard as ended. It returns the pause before the next attempt,
// which is 0 if this worker has led.
func (o *ownShard) endRun(led bool, dropped member.Token) (pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.active, o.leaving, o.dropped = false, false, dropped
	if led {
		return 0
	}
	if time.Since(o.retryAt) > holding.LookInterval { // the last refusal was long ago
		o.retryPause = shardRetry / 2
	}
	o.retryPause = min(2*o.retryPause, holding.LookInterval)
	o.retryAt = time.Now().Add(o.retryPause)
	return o.retryPause
}

// isTakable reports whether this worker can take the shard: its work has not just failed, and is
// not stuck.
func (o *ownShard) isTakable() bool { return o.pause <= 0 && !o.stuck }

// giveUp ends the term. The goroutine of the shard then drops the record.
func (o *ownShard) giveUp(why error) {
	o.mu.Lock()
	o.leaving = o.term != nil
	o.mu.Unlock()
	o.endTerm(why)
}
