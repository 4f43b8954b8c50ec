// SPDX-License-Identifier: Apache-2.0

// Package lock provides named mutexes that the members of a cluster share, on any Store (package
// record).
//
//	l, err := lock.New(node.Records(), "backup")
//	err = l.Do(ctx, func(ctx context.Context, term leader.Term) error { ... })
//
// The context of the function ends before another member can hold the lock. Storage that compares
// the token of the term refuses late writes from a former holder.
//
// The callers of Lock.Do do not queue: any of them may get the lock next. A member that takes the
// lock repeatedly may get it several times before another member gets it. After each release, Do
// gives the others a short time to take the lock, but waiting times are not bounded. If order
// matters, use a Semaphore, which is a fair mutex if it has one permit.
package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// defaultJob is the job of a lock whose name has no slash.
const defaultJob = "lock"

// Lock is the handle of one member for a mutex that all members share. Its methods may be called
// concurrently. A function that holds the lock must not call Do or Close of the Lock: both wait for
// the function.
type Lock struct {
	*calls
	name string
	slot *jobrecord.Slot
	turn chan struct{} // semaphore of the calls of Do
}

// New returns the lock with the given name, which the members of a Store share. As for athena lock,
// the name has the form "JOB/NAME"; "NAME" stands for "lock/NAME". JOB has no slash, and both have
// printable characters only. New returns an error if the name is invalid. It does not block.
func New(s record.Store, name string) (*Lock, error) {
	key, err := Key(name)
	if err != nil {
		return nil, err
	}
	return &Lock{
		calls: newCalls(), name: name,
		slot: &jobrecord.Slot{Store: s, Session: s.Session(nil), Key: key},
		turn: make(chan struct{}, 1),
	}, nil
}

// Key returns the key of the record that the holder of a lock owns, or an error if the name is
// invalid.
func Key(name string) (string, error) {
	key, err := jobrecord.LockKey(splitName(name))
	if err != nil {
		return "", fmt.Errorf("lock: invalid name %.300q: %w", name, err)
	}
	return key, nil
}

// splitName returns the job of a lock, and its name in the job.
func splitName(name string) (job, rest string) {
	job, rest, found := strings.Cut(name, "/")
	if !found {
		return defaultJob, name
	}
	return job, rest
}

// Do waits until this member holds the lock, runs fn, releases the lock, and returns the error of
// fn. The context of fn ends with ctx, with Close, or before another member can hold the lock. The
// cause of the context is the reason. Calls of Do on one Lock run one after the other. Waiting
// members do not queue: see the package comment.
//
// If fn did not run, the error is leader.ErrClosed, the error with which the store refused the
// record, or the cause of ctx. The cause of ctx comes with record.ErrNoQuorum or
// record.ErrUnknownOutcome if one of them is the reason. If the lock cannot be released before ctx
// is done, Do returns and the release continues.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, term leader.Term) error) error {
	if err := l.beginCall(); err != nil {
		return err
	}
	defer l.running.Done()
	ctx, stop := jobrecord.WithStop(ctx, l.life)
	defer stop()
	select { // run one call at a time, because all calls share one session
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var token member.Token
	defer func() { l.releaseLock(ctx, token) }()
	for {
		var err error
		if token, err = l.slot.Acquire(ctx); err != nil {
			return fmt.Errorf("lock: %q: %w", l.name, err)
		}
		lease, err := l.slot.Session.Hold(ctx, l.slot.Key, token)
		if errors.Is(err, record.ErrNotHeld) {
			continue // the record was lost before it could be used
		} else if err != nil { // the node is leaving, for example
			return fmt.Errorf("lock: %q: %w", l.name, err)
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

// releaseLock drops the record and admits the next call of Do. If ctx is done first, it returns and
// the release continues in the background. If the Lock is closed first, Close drops the record.
func (l *Lock) releaseLock(ctx context.Context, token member.Token) {
	done := make(chan struct{})
	l.running.Go(func() {
		defer func() { <-l.turn }()
		began := time.Now()
		for {
			err := l.slot.Drop(l.life, token)
			// The records of a closed store end without being dropped.
			if err == nil || errors.Is(err, leader.ErrClosed) ||
				jobrecord.Pause(l.life, nil, jobrecord.LookInterval) != nil {
				break
			}
			began = time.Now()
		}
		took := time.Since(began)
		close(done)
		// Other members see the release later than this member. Without a pause they would never get the
		// lock. LookInterval is long enough, because waiting members read the records that often.
		_ = jobrecord.Pause(l.life, nil, min(2*took, jobrecord.LookInterval))
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close ends the context of the function that holds the lock with leader.ErrClosed, waits for the
// function, and drops the record. If ctx is done first, Close returns an error with its cause, and
// may be called again. Without a majority the record cannot be dropped: pass a ctx with a timeout,
// and let the node leave afterwards, which drops its records.
func (l *Lock) Close(ctx context.Context) error {
	if err := l.closeCalls(ctx); err != nil {
		return fmt.Errorf("lock: close %q: a function is still running: %w", l.name, err)
	}
	if err := l.slot.Close(ctx); err != nil {
		return fmt.Errorf("lock: close %q: %w", l.name, err)
	}
	return nil
}
