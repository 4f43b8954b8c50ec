// SPDX-License-Identifier: Apache-2.0

// Package lock has mutexes of all members of a cluster, by name, on its records (package
// record).
//
//	l, err := lock.New(node.Records(), "backup")
//	err = l.Do(ctx, func(ctx context.Context, term leader.Term) error { ... })
//
// The context of the function ends before another member can hold the lock. Storage that
// compares the token of the term refuses what a former holder still writes.
package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// defaultJob is the job of locks whose name has none.
const defaultJob = "lock"

// Lock is a mutex of all members, as one of them sees it. Its methods may be called from any
// goroutine, but a function that holds the lock must call neither Do nor Close, which would
// wait for it.
type Lock struct {
	name string
	slot *jobrecord.Slot

	life    context.Context // ends with Close
	end     context.CancelCauseFunc
	running sync.WaitGroup
	idle    chan struct{} // closed when nothing of a closed Lock runs
	turn    chan struct{} // has an entry while a call of Do wants or has the lock

	mu     sync.Mutex
	closed bool
}

// New returns a lock of the members of a Store. The name is that of athena lock: "JOB/NAME",
// or "NAME" for one of the job "lock". New asks no other member.
func New(s record.Store, name string) (*Lock, error) {
	key, err := Key(name)
	if err != nil {
		return nil, err
	}
	l := &Lock{
		name: name, slot: &jobrecord.Slot{Store: s, Session: s.Session(nil), Key: key},
		idle: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l, nil
}

// Key returns the key of the record that the holder of a lock owns. The error says that no
// lock can have the name.
func Key(name string) (string, error) {
	job, rest, found := strings.Cut(name, "/")
	if !found {
		job, rest = defaultJob, name
	}
	key, err := jobrecord.Lock(job, rest)
	if err != nil {
		return "", fmt.Errorf("lock: %w", err)
	}
	return key, nil
}

// Do waits until this member holds the lock, runs fn, releases the lock, and returns what fn
// returns. The context of fn ends with ctx, with Close, or before another member can hold
// the lock; its cause says why. Members that wait do not queue: Do leaves the others the
// time of two commits to ask for the lock.
//
// If fn did not run, the error is the cause of ctx, with record.ErrNoQuorum or
// record.ErrUnknownOutcome if that is why, leader.ErrClosed, or why the store refuses the
// record. If the lock cannot be released before ctx ends, Do returns and the release
// continues.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, term leader.Term) error) error {
	if err := l.beginCall(); err != nil {
		return err
	}
	defer l.running.Done()
	ctx, stop := jobrecord.Until(ctx, l.life)
	defer stop()
	select { // the session cannot tell two calls apart
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var token member.Token
	defer func() { l.release(ctx, token) }()
	for {
		var err error
		if token, err = l.acquireRecord(ctx); err != nil {
			return fmt.Errorf("lock: %q: %w", l.name, err)
		}
		lease, err := l.slot.Session.Hold(ctx, l.slot.Key, token)
		if err != nil {
			continue // lost before it was held
		}
		ran, term := false, lease.Term()
		err = term.Do(ctx, func(ctx context.Context) error {
			ran = true
			return fn(ctx, term)
		})
		if ran {
			return err
		}
	}
}

// acquireRecord sets the record as soon as there is none. All members that see it absent try, and
// one succeeds.
func (l *Lock) acquireRecord(ctx context.Context) (member.Token, error) {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	changed := l.slot.Store.Watch(watched, l.slot.Key)
	for {
		select {
		case _, open := <-changed: // before the look: what comes later is news
			if !open {
				changed = nil // until the next look
			}
		default:
		}
		token, refused := l.trySet(ctx)
		if refused == nil && !token.IsZero() ||
			refused != nil && !jobrecord.MayPass(refused) {
			return token, refused
		}
		if err := jobrecord.Pause(ctx, changed, jobrecord.LookInterval); err != nil {
			if errors.Is(refused, record.ErrUnknownOutcome) {
				err = fmt.Errorf("%w: %w", refused, err)
			}
			return member.Token{}, err
		}
		if changed == nil {
			changed = l.slot.Store.Watch(watched, l.slot.Key)
		}
	}
}

// trySet sets the record unless another has it: then the token is zero. The session may have
// it already, by a request of unknown outcome.
func (l *Lock) trySet(ctx context.Context) (member.Token, error) {
	r, err := record.Get(ctx, l.slot.Store, l.slot.Key)
	switch {
	case errors.Is(err, record.ErrAbsent):
		return l.slot.Set(ctx, record.Op{Kind: record.Absent, Key: l.slot.Key})
	case err != nil:
		return member.Token{}, err
	case l.slot.Session.Owns(r) && !r.Revoked:
		return l.slot.Set(ctx, record.Op{Kind: record.Held, Key: l.slot.Key, Token: r.Token})
	default:
		return member.Token{}, nil
	}
}

// release drops the record, and lets the next call of Do in. It blocks until then or until
// ctx ends, and continues when it has. If the Lock is closed first, Close drops the record.
func (l *Lock) release(ctx context.Context, token member.Token) {
	done := make(chan struct{})
	l.running.Go(func() {
		defer func() { <-l.turn }()
		began := time.Now()
		for l.slot.Drop(l.life, token) != nil &&
			jobrecord.Pause(l.life, nil, jobrecord.LookInterval) == nil {
			began = time.Now()
		}
		took := time.Since(began)
		close(done)
		// The others learn of it a moment later, and would never be in time.
		_ = jobrecord.Pause(l.life, nil, 2*took)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close ends the context of the function that holds the lock with leader.ErrClosed, waits
// for it, and drops the record. If ctx ends first, the error says so, and another Close
// waits again. Without a majority nothing can be dropped: bound it, and let the node leave
// then, which ends its records too.
func (l *Lock) Close(ctx context.Context) error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		l.end(leader.ErrClosed)
		go func() {
			l.running.Wait()
			close(l.idle)
		}()
	}
	select {
	case <-l.idle:
	case <-ctx.Done():
		return fmt.Errorf("lock: close %q: a function still runs: %w", l.name, context.Cause(ctx))
	}
	for {
		err := l.slot.Settle(ctx)
		switch {
		case err == nil || errors.Is(err, leader.ErrClosed):
			return nil // the records of a closed store end by themselves
		case !jobrecord.MayPass(err) || ctx.Err() != nil:
			return fmt.Errorf("lock: close %q: %w", l.name, err)
		}
		_ = jobrecord.Pause(ctx, nil, jobrecord.LookInterval)
	}
}

// beginCall lets something run, which calls running.Done when it returns.
func (l *Lock) beginCall() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return leader.ErrClosed
	}
	l.running.Add(1)
	return nil
}
