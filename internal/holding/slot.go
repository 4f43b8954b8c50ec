// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// LookInterval is how often a waiting caller reads the records even if no change was reported. It
// is also how long a caller waits after a refusal, and the first timeout of an attempt.
const LookInterval = time.Second

// maxDoublings bounds the timeout of an attempt.
const maxDoublings = 4

// Slot is the record of a session under one key. It remembers whether the session may own the
// record. This is uncertain after a commit of unknown outcome.
type Slot struct {
	Store   record.Store
	Session record.Session
	Key     string

	unsure  atomic.Bool  // the session may own the record
	unknown atomic.Int32 // unknown outcomes since the last fast success
}

// Attempt returns ctx with the timeout of one attempt to change the record. The timeout doubles
// after each unknown outcome: if commits took longer than it, no outcome would ever be known,
// because each attempt can void the one before.
func (s *Slot) Attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, LookInterval<<min(s.unknown.Load(), maxDoublings))
}

// commit commits, and counts the unknown outcomes since the last fast success.
func (s *Slot) commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	began := time.Now()
	token, err := s.Session.Commit(ctx, ops...)
	switch {
	case errors.Is(err, record.ErrUnknownOutcome):
		s.unknown.Add(1)
	case err == nil && time.Since(began) < LookInterval:
		s.unknown.Store(0)
	}
	return token, err
}

// Set sets the record, with this member as its value, if the conditions hold.
func (s *Slot) Set(ctx context.Context, conditions ...record.Op) (member.Token, error) {
	return s.SetValue(ctx, []byte(s.Session.Member()), conditions...)
}

// SetValue sets the record if the conditions hold.
func (s *Slot) SetValue(
	ctx context.Context, value []byte, conditions ...record.Op,
) (member.Token, error) {
	ops := append(conditions, record.Op{Kind: record.SetOwned, Key: s.Key, Value: value})
	token, err := s.commit(ctx, ops...)
	if err == nil || errors.Is(err, record.ErrUnknownOutcome) {
		s.unsure.Store(true)
	}
	return token, err
}

// Acquire waits until no session owns the record, and then sets it. All waiting members try, and
// one succeeds.
func (s *Slot) Acquire(ctx context.Context) (member.Token, error) {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	changed := s.Store.Watch(watched, s.Key)
	for {
		select {
		case _, open := <-changed: // drained before the attempt, so that no later change is missed
			if !open {
				changed = nil // do not read it again before the next attempt
			}
		default:
		}
		token, refused := s.TrySet(ctx)
		if refused == nil && !token.IsZero() || refused != nil && !IsTransient(refused) {
			return token, refused
		}
		if err := Pause(ctx, changed, LookInterval); err != nil {
			if errors.Is(refused, record.ErrUnknownOutcome) {
				err = fmt.Errorf("%w: %w", refused, err)
			}
			return member.Token{}, err
		}
		if changed == nil {
			changed = s.Store.Watch(watched, s.Key)
		}
	}
}

// TrySet sets the record, and returns the zero token if another session owns it. After a commit
// with an unknown outcome, this session may already own the record.
func (s *Slot) TrySet(ctx context.Context) (member.Token, error) {
	r, err := record.Get(ctx, s.Store, s.Key)
	switch {
	case errors.Is(err, record.ErrAbsent):
		return s.Set(ctx, record.Op{Kind: record.Absent, Key: s.Key})
	case err != nil:
		return member.Token{}, err
	case s.Session.Owns(r) && !r.Revoked:
		return s.Set(ctx, record.Op{Kind: record.Held, Key: s.Key, Token: r.Token})
	default:
		return member.Token{}, nil
	}
}

// Close drops any record that the session may own. It retries after transient errors until ctx is
// done. If it succeeds, the session owns no record, and no earlier commit will create one.
func (s *Slot) Close(ctx context.Context) error {
	if !s.unsure.Load() {
		return nil
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	changed := s.Store.Watch(watched, s.Key) // closing the store closes changed, and so ends a pause
	for {
		err := s.SettleRecord(ctx)
		switch {
		case err == nil || errors.Is(err, leader.ErrClosed):
			return nil // the records of a closed store end without being dropped
		case !IsTransient(err) || ctx.Err() != nil:
			return err
		}
		select {
		case _, open := <-changed:
			if !open {
				changed = nil // a closed channel would end every pause
			}
		case <-time.After(LookInterval):
		case <-ctx.Done():
		}
	}
}

// Drop makes one attempt to drop the record with this token, or any record of the session if token
// is zero.
func (s *Slot) Drop(ctx context.Context, token member.Token) error {
	ctx, stop := s.Attempt(ctx)
	defer stop()
	switch {
	case token.IsZero():
		return s.SettleRecord(ctx)
	case !s.unsure.Load():
		return nil
	}
	_, err := s.commit(ctx, record.Op{Kind: record.Held, Key: s.Key, Token: token},
		record.Op{Kind: record.Drop, Key: s.Key})
	if err != nil && !errors.Is(err, record.ErrConflict) {
		return err
	}
	s.unsure.Store(false)
	return nil
}

// SettleRecord drops the record if the session owns it. Otherwise it still commits a condition. The
// commits of a session are ordered, so no earlier commit can take effect afterwards.
func (s *Slot) SettleRecord(ctx context.Context) error {
	if !s.unsure.Load() {
		return nil
	}
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
	if _, err = s.commit(ctx, ops...); err == nil {
		s.unsure.Store(false)
	}
	return err
}

// IsTransient reports whether a refused commit may soon succeed. This includes ErrNotActive: a
// member that was cut off becomes active again on the next contact with its leader, and one that
// leaves is soon closed.
func IsTransient(err error) bool {
	return errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrUnknownOutcome) ||
		errors.Is(err, record.ErrBusy) || errors.Is(err, record.ErrNotActive)
}

// Pause blocks for d, but at most until the channel is closed or receives a value, or ctx is done.
// If ctx is done, it returns the cause.
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

// Watch calls look initially, after a change of a record whose key begins with prefix, after a
// value from wake, and when the duration that look returned has passed. It returns when ctx is
// done.
func Watch(
	ctx context.Context, s record.Store, prefix string, wake <-chan struct{},
	look func(context.Context) time.Duration,
) {
	for ctx.Err() == nil {
		watched, stop := context.WithCancel(ctx)
		changed := s.Watch(watched, prefix)
		again := LookInterval
		for lost := false; !lost && ctx.Err() == nil; {
			var open bool
			timer := time.NewTimer(again)
			select {
			case _, open = <-changed:
				lost = !open
			case <-wake:
			case <-timer.C:
			case <-ctx.Done():
			}
			if timer.Stop(); ctx.Err() == nil {
				again = look(watched)
			}
		}
		stop()
		for range changed { // wait until the watch has stopped
		}
		_ = Pause(ctx, nil, LookInterval)
	}
}

// WithStop returns a context that is done when either of the two contexts is done, and a function
// that releases it.
func WithStop(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
