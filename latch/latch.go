// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Do runs fn while this member holds a latch of the job, a mutex of all members by name,
// and blocks until it could and the latch is released. The context of fn ends with ctx,
// with the job, or before anybody else can hold the latch; the cause is why, as with
// WhileLeader. Nobody queues: who had the latch leaves the others the time of two commits
// to ask for it. It returns what fn does, or why fn did not run: the cause of ctx, with
// record.ErrNoQuorum or record.ErrUnknownOutcome where that is so, ErrClosed, or what
// the store refuses the latch by. Whether the member is disabled is nothing to a latch.
//
// Where the latch cannot be released before ctx ends, that goes on, and Do returns.
func (j *Job) Do(
	ctx context.Context, latch string, fn func(ctx context.Context, token member.Token) error,
) error {
	key, err := j.keys.latch(latch)
	if err != nil {
		return err
	}
	if err := j.begin(); err != nil {
		return err
	}
	defer j.running.Done()
	ctx, stop := until(ctx, j.life)
	defer stop()
	if err := j.lock(ctx, key); err != nil {
		return err
	}
	var token member.Token
	defer func() { j.giveBack(ctx, key, token) }()
	for ran := false; ; {
		if token, err = j.take(ctx, key); err != nil {
			return fmt.Errorf("latch: %q of %q: %w", latch, j.name, err)
		}
		err = j.hold(ctx, key, token, func(ctx context.Context) error {
			ran = true
			return fn(ctx, token)
		})
		if ran {
			return err
		}
	}
}

// take sets the record of a latch as soon as there is none. Nobody queues: all that see
// it absent try, and one succeeds.
func (j *Job) take(ctx context.Context, key string) (member.Token, error) {
	set := record.Op{Kind: record.SetOwned, Key: key, Value: []byte(j.session.Member())}
	for {
		s, changed := j.look()
		r, taken := find(s.records, key)
		condition := record.Op{Kind: record.Absent, Key: key}
		if taken { // as where a request of unknown outcome was taken
			condition = record.Op{Kind: record.Held, Key: key, Token: r.Token}
		}
		var refused error
		if !taken || j.session.Owns(r) && !r.Revoked {
			token, err := j.set(ctx, condition, set)
			if err == nil || !passes(err) {
				return token, err
			}
			refused = err
		}
		if over := j.wait(ctx, changed); over != nil {
			if errors.Is(refused, record.ErrUnknownOutcome) {
				over = fmt.Errorf("%w: %w", refused, over)
			}
			return member.Token{}, over
		}
	}
}

// lock lets one caller of this job go for a latch at a time: the session cannot tell two.
func (j *Job) lock(ctx context.Context, key string) error {
	for {
		j.mu.Lock()
		free, taken := j.locks[key]
		if !taken {
			j.locks[key] = make(chan struct{})
		}
		j.mu.Unlock()
		if !taken {
			return nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (j *Job) unlock(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.locks[key])
	delete(j.locks, key)
}

// set commits ops, the last of which sets an owned record, and notes that there may be one.
func (j *Job) set(ctx context.Context, ops ...record.Op) (member.Token, error) {
	token, err := j.session.Commit(ctx, ops...)
	if err == nil || errors.Is(err, record.ErrUnknownOutcome) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.unsure[ops[len(ops)-1].Key] = true
	}
	return token, err
}

// giveBack drops the record that this session has under key, by token, or by whatever it
// may come to have where that is zero, and unlocks the key. It blocks until then or until
// ctx ends, and goes on when it has. When the job ends first, that is left to Close.
func (j *Job) giveBack(ctx context.Context, key string, token member.Token) {
	done := make(chan struct{})
	j.running.Go(func() {
		defer j.unlock(key)
		began := time.Now()
		for j.drop(key, token) != nil && pause(j.life, nil, lookInterval) == nil {
			began = time.Now()
		}
		took := time.Since(began)
		close(done)
		// The others learn of it a moment later, and were never in time.
		_ = pause(j.life, nil, 2*took)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// drop is one attempt to drop what this session has under key.
func (j *Job) drop(key string, token member.Token) error {
	j.mu.Lock()
	unsure := j.unsure[key]
	j.mu.Unlock()
	if !unsure {
		return nil
	}
	ctx, stop := context.WithTimeout(j.life, lookInterval)
	defer stop()
	var err error
	if token.IsZero() {
		err = j.settle(ctx, key)
	} else {
		err = j.release(ctx, key, token)
	}
	if err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.unsure, key)
	}
	return err
}

// settle drops the record under key where it is of this session; nil says that there is
// none, and that no request of before will bring one. It asks under the condition of
// what it sees, also where that is another's: requests are taken in order.
func (j *Job) settle(ctx context.Context, key string) error {
	records, err := j.store.List(ctx, key)
	if err != nil {
		return err
	}
	ops := []record.Op{{Kind: record.Absent, Key: key}}
	if r, taken := find(records, key); taken {
		ops[0] = record.Op{Kind: record.Held, Key: key, Token: r.Token}
		if j.session.Owns(r) {
			ops = append(ops, record.Op{Kind: record.Drop, Key: key})
		}
	}
	_, err = j.session.Commit(ctx, ops...)
	return err
}
