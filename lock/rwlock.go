// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

const (
	// maxReaders leaves room for the other conditions of a commit (message.MaxConditions).
	maxReaders = 48
	// reader begins the names of the places of readers. Names of other places are upper-case.
	reader = "r"
)

// RWLock is the handle of one member for a lock that all members share: one writer or up to 48
// readers at a time hold it. Its methods may be called concurrently. A function that holds the lock
// must not call Close of the RWLock, which waits for the function, nor DoRead or DoWrite: its
// caller may wait for a writer that waits for the function.
type RWLock struct{ read, write *Semaphore }

// NewRWLock returns the lock with the given name, which the members of a Store share. Writers hold
// the lock of this name (see New), and readers permits of it; members must not use a Lock or a
// Semaphore with this name. NewRWLock returns an error if the name is invalid. It does not block.
func NewRWLock(s record.Store, name string) (*RWLock, error) {
	read, err := NewSemaphore(s, name, maxReaders)
	if err != nil {
		return nil, err
	}
	write, err := NewSemaphore(s, name, 1)
	if err != nil {
		return nil, err
	}
	read.kind, read.shunned, write.shunned = reader, write.permits, read.permits
	return &RWLock{read, write}, nil
}

// DoRead waits until no function of DoWrite runs on any member, and runs fn as Semaphore.Do does.
// The token of the term is greater than those of all earlier writers. Readers and writers queue
// together, so a reader waits for the writers that came before it.
func (l *RWLock) DoRead(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	return l.read.Do(ctx, fn)
}

// DoWrite waits until no function of DoRead or another DoWrite runs on any member, and runs fn as
// Semaphore.Do does. The token of the term is greater than those of all earlier readers and
// writers.
func (l *RWLock) DoWrite(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	return l.write.Do(ctx, fn)
}

// Close closes both as Semaphore.Close does.
func (l *RWLock) Close(ctx context.Context) error {
	return errors.Join(l.read.Close(ctx), l.write.Close(ctx))
}
