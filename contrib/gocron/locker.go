// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"sync"
	"time"

	scheduler "github.com/go-co-op/gocron/v2"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/record"
)

// lockTimeout limits how long the start of a job waits for a store without a majority.
const lockTimeout = 5 * time.Second

// Locker implements gocron.Locker: of the schedulers that start a job at the same time, one runs
// it. Its methods may be called concurrently.
type Locker struct {
	store   record.Store
	minHold time.Duration

	mu   sync.Mutex
	held map[string]*heldLock // by name of the job
}

// NewLocker returns a Locker. It holds each lock for at least minHold, even if the job takes less,
// so that a scheduler whose clock is behind does not run the job again. minHold must exceed the
// difference between the clocks and be shorter than the interval of each job.
func NewLocker(s record.Store, minHold time.Duration) *Locker {
	return &Locker{store: s, minHold: minHold, held: make(map[string]*heldLock)}
}

// heldLock implements gocron.Lock.
type heldLock struct {
	*holding.Held
	locker *Locker
	name   string
	since  time.Time
}

// Lock implements gocron.Locker. If another scheduler holds the lock, Lock returns an error without
// waiting, and that scheduler runs the job. The name of the job must be printable and at most 200
// bytes long.
func (l *Locker) Lock(ctx context.Context, name string) (scheduler.Lock, error) {
	key, err := lock.Key("gocron/" + name)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, lockTimeout)
	defer stop()
	h, err := holding.TryHeld(ctx, l.store, key)
	if err != nil {
		return nil, err
	}
	held := &heldLock{h, l, name, began}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = held
	return held, nil
}

// Unlock implements gocron.Lock. It waits until minHold is over or ctx is done.
func (h *heldLock) Unlock(ctx context.Context) error {
	_ = holding.Pause(ctx, h.Term().Done(), h.locker.minHold-time.Since(h.since))
	h.locker.mu.Lock()
	if h.locker.held[h.name] == h {
		delete(h.locker.held, h.name)
	}
	h.locker.mu.Unlock()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer stop()
	return h.Release(ctx)
}

// Do runs fn under the lock of the job that calls it. The context of fn ends with ctx, or before
// another scheduler can hold the lock. If the lock is not held, the error is leader.ErrNotLeader or
// the reason why the lock was lost.
func (l *Locker) Do(
	ctx context.Context, name string, fn func(ctx context.Context, term leader.Term) error,
) error {
	l.mu.Lock()
	h := l.held[name]
	l.mu.Unlock()
	if h == nil {
		return leader.ErrNotLeader
	}
	return h.Term().Do(ctx, func(ctx context.Context) error { return fn(ctx, h.Term()) })
}
