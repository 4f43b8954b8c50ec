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
// The callers of Lock.Do and Semaphore.Do queue in the cluster, so that no member is served more
// often than another one that also waits. If a member that waits crashes, those behind it wait
// until its records end.
package lock

import (
	"context"
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// defaultJob is the job of a lock whose name has no slash.
const defaultJob = "lock"

// Lock is the handle of one member for a mutex that all members share: a Semaphore with one permit.
// Its methods may be called concurrently. A function that holds the lock must not call Do or Close
// of the Lock: both wait for the function.
type Lock struct{ fair *Semaphore }

// New returns the lock with the given name, which the members of a Store share. As for athena lock,
// the name has the form "JOB/NAME"; "NAME" stands for "lock/NAME". JOB has no slash, and both have
// printable characters only. New returns an error if the name is invalid. It does not block.
func New(s record.Store, name string) (*Lock, error) {
	fair, err := NewSemaphore(s, name, 1)
	if err != nil {
		return nil, err
	}
	return &Lock{fair}, nil
}

// Key returns the key of the record that the holder of a lock owns, or an error if the name is
// invalid.
func Key(name string) (string, error) {
	key, err := holding.LockKey(splitName(name))
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
// fn. See Semaphore.Do for its context, the order of the callers, and the errors.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, term leader.Term) error) error {
	return l.fair.Do(ctx, fn)
}

// Close ends the context of the function that holds the lock with leader.ErrClosed, waits for the
// function, and drops the record. See Semaphore.Close.
func (l *Lock) Close(ctx context.Context) error { return l.fair.Close(ctx) }
