// SPDX-License-Identifier: Apache-2.0

package jobrecord

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// LookInterval is how often a waiting caller looks at the records without a hint that they
// changed, how long it waits after a refusal, and the limit of one attempt to drop a record.
const LookInterval = time.Second

// Slot is the record of a session under one key. It remembers whether the session may have
// one: after a commit of unknown outcome that is not known.
type Slot struct {
	Store   record.Store
	Session record.Session
	Key     string

	mu     sync.Mutex
	unsure bool // the session may have a record
}

// Set sets the record under conditions.
func (s *Slot) Set(ctx context.Context, conditions ...record.Op) (member.Token, error) {
	ops := append(conditions, record.Op{
		Kind: record.SetOwned, Key: s.Key, Value: []byte(s.Session.Member()),
	})
	token, err := s.Session.Commit(ctx, ops...)
	if err == nil || errors.Is(err, record.ErrUnknownOutcome) {
		s.mark(true)
	}
	return token, err
}

// Settle drops whatever record the session may have. After nil the session has none, and no
// earlier request will make one.
func (s *Slot) Settle(ctx context.Context) error {
	if !s.mayExist() {
		return nil
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.mark(false)
	return nil
}

// Drop makes one attempt, of LookInterval at most, to drop the record by its token, or to
// Settle if token is zero.
func (s *Slot) Drop(ctx context.Context, token member.Token) error {
	ctx, stop := context.WithTimeout(ctx, LookInterval)
	defer stop()
	switch {
	case token.IsZero():
		return s.Settle(ctx)
	case !s.mayExist():
		return nil
	}
	_, err := s.Session.Commit(ctx, record.Op{Kind: record.Held, Key: s.Key, Token: token},
		record.Op{Kind: record.Drop, Key: s.Key})
	if err != nil && !errors.Is(err, record.ErrConflict) {
		return err
	}
	s.mark(false)
	return nil
}

func (s *Slot) mayExist() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure
}

func (s *Slot) mark(unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = unsure
}

// settle drops the record if it is of this session. It commits a condition in any case:
// requests of a session are taken in order, so no earlier one is taken after this one.
func (s *Slot) settle(ctx context.Context) error {
	r, err := record.Get(ctx, s.Store, s.Key)
	ops := []record.Op{{Kind: record.Absent, Key: s.Key}}
	switch {
	case errors.Is(err, record.ErrAbsent):
	case err != nil:
		return err
	default:
		ops[0] = record.Op{Kind: record.Held, Key: s.Key, Token: r.Token}
		if s.Session.Owns(r) {
			ops = append(ops, record.Op{Kind: record.Drop, Key: s.Key})
		}
	}
	_, err = s.Session.Commit(ctx, ops...)
	return err
}

// MayPass reports whether the reason by which a commit was refused may be over soon. A
// member that was cut off is active again once its leader has heard it; one that leaves is
// closed soon.
func MayPass(err error) bool {
	return errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrUnknownOutcome) ||
		errors.Is(err, record.ErrBusy) || errors.Is(err, record.ErrNotActive)
}

// Pause blocks for d, or until changed is closed or has a value, or ctx ends, whose cause is
// the error.
func Pause(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Until returns a context that ends with ctx or with other, and the function that ends it.
func Until(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
