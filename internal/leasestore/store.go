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
	// minTimeout leaves a renewal that was answered late some time for the next.
	minTimeout = time.Second
	// retryInterval is how long to wait before the service is asked again.
	retryInterval = 200 * time.Millisecond
)

// Config says who opens a Store.
type Config struct {
	// Member is the id of this member, matched whole. No two processes have the same one
	// at a time: Enable would mean both.
	Member string
	// LeaseTimeout is how long others wait for a member that is silent before they take
	// over; it trusts itself for nine tenths of that. 10 s where zero, and at least 1 s.
	LeaseTimeout time.Duration
}

// Store is the table of records that a service keeps, as one member sees it. It
// implements record.Store.
type Store struct {
	backend Backend
	cfg     Config

	life     context.Context // ends with the Store; its cause is why
	end      context.CancelCauseFunc
	running  sync.WaitGroup
	clock    clock
	renewing chan struct{} // has room for one: who renews the lease
	untidy   chan struct{} // has room for one: a record of this Store was revoked

	mu       sync.Mutex
	table    table
	seen     chan struct{}      // closed when the table is seen next
	refollow context.CancelFunc // ends the Follow that runs, for another
	trust    trust
	lease    lease
	closed   bool
}

// lease is that of a Store.
type lease struct {
	id       string
	revision uint64 // as last written, as far as is known; 0: not yet
	// unsure is the greatest revision that a write of unknown outcome wanted.
	unsure uint64
	until  time.Time // when the trust in it ends
}

func newLease() lease { return lease{id: rand.Text()} }

// isFirm reports whether the lease is trusted, and a write under it comes after all those
// before.
func (l lease) isFirm() bool { return l.isTrusted() && l.revision != l.unsure }

func (l lease) isTrusted() bool { return time.Until(l.until) > 0 }

// Open makes this process a member, and blocks until it is one that others see, or ctx
// ends; see Backend for errors. The backend must outlive the Store.
func Open(ctx context.Context, b Backend, cfg Config) (*Store, error) {
	if cfg.LeaseTimeout == 0 {
		cfg.LeaseTimeout = defaultTimeout
	}
	if !member.IsKey(cfg.Member) || cfg.LeaseTimeout < minTimeout {
		return nil, fmt.Errorf("leasestore: Member %q, LeaseTimeout %v: want an id that is printable "+
			"and of at most %d bytes, and at least %v",
			cfg.Member, cfg.LeaseTimeout, member.MaxKeyBytes, minTimeout)
	}
	s := &Store{
		backend: b, cfg: cfg, renewing: make(chan struct{}, 1), untidy: make(chan struct{}, 1),
		table: newTable(), seen: make(chan struct{}), lease: newLease(),
	}
	s.trust, s.clock = trust{}, clock{time.Now()}
	s.life, s.end = context.WithCancelCause(context.Background())
	if _, err := s.firmLease(ctx); err != nil {
		s.end(leader.ErrClosed)
		return nil, fmt.Errorf("leasestore: open: %w", err)
	}
	s.running.Go(s.keepLease)
	s.running.Go(s.followTable)
	s.running.Go(s.tidyUp)
	isMember := func() bool { return s.table.leases[s.lease.id].revision != 0 }
	if err := s.waitUntil(ctx, isMember); err != nil {
		return nil, errors.Join(fmt.Errorf("leasestore: open: %w", err), s.Close(ctx))
	}
	return s, nil
}

// Close ends all contexts with leader.ErrClosed, and lets others take over at once.
// Where ctx ends first they do so after LeaseTimeout, and the error says why.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.end(leader.ErrClosed)
	s.trust.endAll(leader.ErrClosed)
	for w := range s.table.watchers {
		s.unwatch(w)
	}
	s.mu.Unlock()
	s.running.Wait()
	if closed {
		return nil
	}
	if err := retry(ctx, s.removeLease); err != nil {
		return fmt.Errorf("leasestore: close: %w", err)
	}
	return nil
}

// removeLease removes the lease.
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
	return record.ErrNoQuorum // not yet
}

// Members implements record.Store.
func (s *Store) Members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.listMembers()
}

// List implements record.Store. It asks nobody and does not block.
func (s *Store) List(_ context.Context, prefix string) ([]member.Record, error) {
	if err := context.Cause(s.life); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.recordsWithin(prefix), nil
}

// Watch implements record.Store. It misses nothing: what changed while the service could
// not be followed is told when it can.
func (s *Store) Watch(ctx context.Context, prefix string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.watchers[changed] = prefix
	if s.life.Err() != nil {
		s.unwatch(changed)
	}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unwatch(changed)
	})
	return changed
}

func (s *Store) unwatch(w chan struct{}) {
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

// waitUntil blocks until the table shows something; the end of ctx or of the Store is an
// error. The caller of shown holds mu.
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

// retry repeats what may be repeated, until the service has answered or ctx ends.
func retry(ctx context.Context, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if !errors.Is(err, record.ErrNoQuorum) && !errors.Is(err, record.ErrUnknownOutcome) {
			return err
		}
		if over := pauseFor(ctx, retryInterval); over != nil {
			// Of unknown outcome or not: nothing was asked for that matters.
			return fmt.Errorf("%w: %w: %s", record.ErrNoQuorum, over, err.Error())
		}
	}
}

// pauseFor blocks for d or until ctx ends, whose cause is the error.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
