// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// ErrLocked means that another session holds the lock.
var ErrLocked = errors.New("athena: the lock is held")

// Held is a lock for libraries that lock and unlock in separate calls. If one function call can
// hold the lock, use package lock.
type Held struct {
	slot  *Slot
	lease *leader.Lease
}

// AcquireHeld waits until this process holds the lock with this key.
func AcquireHeld(ctx context.Context, s record.Store, key string) (*Held, error) {
	return takeHeld(ctx, s, key, (*Slot).Acquire)
}

// TryHeld is AcquireHeld without waiting: it returns ErrLocked if another session holds the lock.
func TryHeld(ctx context.Context, s record.Store, key string) (*Held, error) {
	return takeHeld(ctx, s, key, func(l *Slot, ctx context.Context) (member.Token, error) {
		token, err := l.TrySet(ctx)
		if err == nil && token.IsZero() || errors.Is(err, record.ErrConflict) {
			return token, ErrLocked
		}
		return token, err
	})
}

func takeHeld(
	ctx context.Context, s record.Store, key string,
	set func(*Slot, context.Context) (member.Token, error),
) (*Held, error) {
	slot := &Slot{Store: s, Session: s.Session(nil), Key: key}
	for {
		token, err := set(slot, ctx)
		if err == nil {
			var lease *leader.Lease
			if lease, err = slot.Session.Hold(ctx, key, token); err == nil {
				return &Held{slot, lease}, nil
			}
			if errors.Is(err, record.ErrNotHeld) {
				continue // the record was lost before it could be used
			}
		}
		// The caller gives up, but this session may own the record, now or later.
		go func() { _ = slot.Close(context.WithoutCancel(ctx)) }()
		return nil, err
	}
}

// Term returns the term of the lock. It ends before another session can hold the lock.
func (h *Held) Term() leader.Term { return h.lease.Term() }

// Release ends the term, waits for the functions that run under it, and drops the record. If the
// lock was lost before, Release returns the reason. If ctx is done first, Release returns, and the
// release continues.
func (h *Held) Release(ctx context.Context) error {
	var lost error
	if err := h.Term().Err(); err != nil {
		lost = fmt.Errorf("athena: the lock was lost: %w", err)
	}
	h.lease.End(leader.ErrResigned)
	done := make(chan error, 1)
	go func() {
		_ = h.lease.Wait(context.Background()) // for functions that still run under the term
		done <- h.slot.Close(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-done:
		return errors.Join(lost, err)
	case <-ctx.Done():
		return errors.Join(lost, context.Cause(ctx))
	}
}
