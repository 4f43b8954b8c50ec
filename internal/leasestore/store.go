// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const (
	defaultTimeout = 10 * time.Second
	// minTimeout leaves time for another renewal after a late answer.
	minTimeout = time.Second
	// retryInterval is the pause before another call to the service.
	retryInterval = 200 * time.Millisecond
)

// Config configures a Store.
type Config struct {
	// Member is the id of this member, printable and at most 256 bytes. No two running processes may
	// have the same id, because Enable would apply to both.
	Member string
	// LeaseTimeout is how long other members wait for a silent member before they take
	// over. The member trusts its records for nine tenths of that time. 0 means 10 s; the
	// minimum is 1 s.
	LeaseTimeout time.Duration
}

// Store is the table of records in a service, as one member sees it. It implements record.Store.
type Store struct {
	backend Backend
	cfg     Config

	life     context.Context // done when the Store ends; its cause is the reason
	end      context.CancelCauseFunc
	running  sync.WaitGroup
	clock    clock
	renewing chan struct{} // semaphore for renewals of the lease
	revoked  chan struct{} // buffered; signals that a record of this Store was revoked

	mu       sync.Mutex
	table    table
	seen     chan struct{}      // closed at the next change of the table
	refollow context.CancelFunc // restarts Follow
	trust    trust
	lease    lease
	closed   bool
}

// lease is the lease of a Store.
type lease struct {
	id       string
	revision uint64 // latest known revision; 0 before the first write
	// unsure is the greatest revision that was the condition of a write of unknown outcome.
	unsure uint64
	until  time.Time // when the trust in the lease ends
}

func newLease() lease { return lease{id: rand.Text()} }

// isConfirmed reports whether the lease is trusted and no earlier write can still take effect.
func (l lease) isConfirmed() bool { return l.isTrusted() && l.revision != l.unsure }

func (l lease) isTrusted() bool { return time.Until(l.until) > 0 }

// Open makes this process a member. It blocks until the service shows the member, or until ctx
// is done; see Backend for errors. The backend must outlive the Store.
func Open(ctx context.Context, b Backend, cfg Config) (*Store, error) {
	if cfg.LeaseTimeout == 0 {
		cfg.LeaseTimeout = defaultTimeout
	}
	if !member.IsKey(cfg.Member) || cfg.LeaseTimeout < minTimeout {
		return nil,
			fmt.Errorf("leasestore: Member is %q, LeaseTimeout is %v: want a printable id of 1 to "+
				"%d bytes and at least %v", cfg.Member, cfg.LeaseTimeout, member.MaxKeyBytes, minTimeout)
	}
	s := &Store{
		backend: b, cfg: cfg, renewing: make(chan struct{}, 1), revoked: make(chan struct{}, 1),
		table: newTable(), seen: make(chan struct{}), lease: newLease(),
	}
	s.trust, s.clock = trust{}, clock{time.Now()}
	s.life, s.end = context.WithCancelCause(context.Background())
	if _, err := s.confirmedLease(ctx); err != nil {
		s.end(leader.ErrClosed)
		return nil, fmt.Errorf("leasestore: open: %w", err)
	}
	s.running.Go(s.keepLease)
	s.running.Go(s.followTable)
	s.running.Go(s.removeExpired)
	isMember := func() bool { return s.table.leases[s.lease.id].revision != 0 }
	if err := s.waitUntil(ctx, isMember); err != nil {
		return nil, errors.Join(fmt.Errorf("leasestore: open: %w", err), s.Close(ctx))
	}
	return s, nil
}

// Close ends all contexts with leader.ErrClosed, and removes the lease so that others take over
// immediately. If ctx is done first, others take over after LeaseTimeout, and Close returns an
// error.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.end(leader.ErrClosed)
	s.trust.endAll(leader.ErrClosed)
	for w := range s.table.watchers {
		s.removeWatcher(w)
	}
	s.mu.Unlock()
	s.running.Wait()
	if closed {
		return nil
	}
	if err := retryCall(ctx, s.removeLease); err != nil {
		return fmt.Errorf("leasestore: close: %w", err)
	}
	return nil
}

// removeLease removes the lease of this Store.
func (s *Store) removeLease(ctx context.Context) error {
	l := s.currentLease()
	_, err := s.backend.Write(ctx, Change{Kind: Delete, Name: leases + l.id, Revision: l.revision})
	if !errors.Is(err, record.ErrConflict) {
		return err
	}
	entries, err := s.backend.Read(ctx, leases+l.id)
	if err != nil || len(entries) == 0 {
		return err
	}
	s.learnLease(l.id, entries)
	return record.ErrNoQuorum // renewed meanwhile: try again
}

// Members implements record.Store.
func (s *Store) Members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.listMembers()
}

// List implements record.Store. It reads the table and does not block.
func (s *Store) List(_ context.Context, prefix string) ([]member.Record, error) {
	if err := context.Cause(s.life); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.recordsWithin(prefix), nil
}

// Watch implements record.Store. If the service is unavailable, the channel receives hints of
// changes when it is available again.
func (s *Store) Watch(ctx context.Context, prefix string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.watchers[changed] = prefix
	if s.life.Err() != nil {
		s.removeWatcher(changed)
	}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removeWatcher(changed)
	})
	return changed
}

func (s *Store) removeWatcher(w chan struct{}) {
	if _, ok := s.table.watchers[w]; ok {
		delete(s.table.watchers, w)
		close(w)
	}
}

// Session implements record.Store.
func (s *Store) Session(lost record.LostFunc) record.Session {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return session{s, binary.BigEndian.Uint64(b[:]), lost}
}

// waitUntil blocks until the function shown returns true. It calls shown with mu held. It returns
// an error if ctx is done or the Store has ended.
func (s *Store) waitUntil(ctx context.Context, shown func() bool) error {
	for {
		s.mu.Lock()
		ok, seen := shown(), s.seen
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-seen:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.life.Done():
			return context.Cause(s.life)
		}
	}
}

// retryCall repeats a call while the service is unavailable, until ctx is done.
func retryCall(ctx context.Context, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if !errors.Is(err, record.ErrNoQuorum) && !errors.Is(err, record.ErrUnknownOutcome) {
			return err
		}
		if over := pauseFor(ctx, retryInterval); over != nil {
			// The outcome is irrelevant because such a call changes only the Store's own
			// lease.
			return fmt.Errorf("%w: %w: %s", record.ErrNoQuorum, over, err.Error())
		}
	}
}

// pauseFor blocks for d. If ctx is done, it returns the cause.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
