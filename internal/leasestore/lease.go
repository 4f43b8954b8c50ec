// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// keepLease renews the lease until the Store or its backend is closed.
func (s *Store) keepLease() {
	var last uint64 // revision of the previous renewal
	shown := time.Now()
	for next := s.cfg.LeaseTimeout / 5; pauseFor(s.life, next) == nil; {
		err := s.renewLease(s.life)
		if errors.Is(err, leader.ErrClosed) {
			s.mu.Lock()
			s.end(fmt.Errorf("leasestore: the backend: %w", err))
			s.trust.endAll(err)
			s.mu.Unlock()
			return
		}
		next = s.cfg.LeaseTimeout / 5
		if err != nil {
			next = retryInterval
			continue
		}
		s.mu.Lock()
		if s.table.leases[s.lease.id].revision >= last {
			shown = time.Now()
		}
		last = s.lease.revision
		if time.Since(shown) > s.cfg.LeaseTimeout { // Follow is stuck
			s.refollow()
			shown = time.Now()
		}
		s.mu.Unlock()
	}
}

// renewLease renews or creates the lease. Its timeout leaves time for further attempts before the
// trust ends. After a conflict it tries once more, because the lease is gone or an earlier write
// took effect.
func (s *Store) renewLease(ctx context.Context) error {
	select {
	case s.renewing <- struct{}{}:
		defer func() { <-s.renewing }()
	case <-s.life.Done():
		return context.Cause(s.life)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", record.ErrNoQuorum, context.Cause(ctx))
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.LeaseTimeout/3)
	defer stop()
	defer context.AfterFunc(s.life, stop)()
	value := encodeJSON(leaseEntry{Member: s.cfg.Member, Timeout: s.cfg.LeaseTimeout})
	for tries := 0; tries < 2 && s.life.Err() == nil; tries++ {
		l := s.currentLease()
		sent := time.Now()
		revision, err := s.backend.Write(ctx,
			Change{Kind: Put, Name: leases + l.id, Revision: l.revision, Value: value})
		switch {
		case err == nil:
			s.extendTrust(l.id, revision, sent)
			return nil
		case l.revision == 0 && errors.Is(err, record.ErrUnknownOutcome):
			s.loseLease(l.id) // the write might recreate the lease after its end
			return err
		case !errors.Is(err, record.ErrConflict):
			return err
		}
		entries, err := s.backend.Read(ctx, leases+l.id)
		if err != nil {
			return err
		}
		s.learnLease(l.id, entries)
	}
	return fmt.Errorf("%w: the lease cannot be written", record.ErrNoQuorum)
}

func (s *Store) currentLease() lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// learnLease updates the lease of this Store after reading it from the service. The lease
// may be gone, or a write of unknown outcome may have renewed it.
func (s *Store) learnLease(id string, read []Entry) {
	for _, e := range read {
		if e.Name == leases+id {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.lease.id == id {
				s.lease.revision = max(s.lease.revision, e.Revision)
			}
			return
		}
	}
	s.loseLease(id)
}

// confirmedLease returns the lease. It first ensures that no earlier write can take effect after
// the next write.
func (s *Store) confirmedLease(ctx context.Context) (lease, error) {
	for {
		if l := s.currentLease(); l.isConfirmed() {
			return l, nil
		}
		if err := retryCall(ctx, s.renewLease); err != nil {
			return lease{}, err
		}
	}
}

// followTable keeps the table up to date. It restarts Follow from time to time, in case a change
// was missed without an error.
func (s *Store) followTable() {
	for s.life.Err() == nil {
		ctx, stop := context.WithTimeout(s.life, 10*s.cfg.LeaseTimeout)
		s.mu.Lock()
		s.refollow = stop
		s.mu.Unlock()
		_ = s.backend.Follow(ctx, s.applyEntries) // repeated after any error
		if ctx.Err() == nil {
			_ = pauseFor(s.life, retryInterval)
		}
		stop()
	}
}

// applyEntries updates the table. When it returns, the contexts of the lost records have
// ended.
func (s *Store) applyEntries(all bool, entries []Entry) {
	s.mu.Lock()
	id := s.lease.id
	_, had := s.table.leases[id]
	changed := s.table.applyEntries(time.Now(), all, entries)
	_, has := s.table.leases[id]
	for _, key := range changed {
		s.checkKey(key)
		if r := s.table.records[key]; r.Lease == id && r.Revoked != 0 {
			select {
			case s.revoked <- struct{}{}:
			default:
			}
		}
	}
	s.table.hintWatchers(changed)
	close(s.seen)
	s.seen = make(chan struct{})
	s.mu.Unlock()
	if had && !has {
		s.loseLease(id)
	}
}

// removeExpired deletes revoked records of this Store, leases that were not renewed, and the
// records of removed leases. All members call it, and the first call succeeds.
func (s *Store) removeExpired() {
	for s.life.Err() == nil {
		for _, chore := range s.dueWrites(time.Now()) {
			ctx, stop := context.WithTimeout(s.life, s.cfg.LeaseTimeout/3)
			_, _ = s.backend.Write(ctx, chore...) // if the deletion fails, it is tried again
			stop()
		}
		tick := time.NewTimer(s.cfg.LeaseTimeout / 20)
		select {
		case <-s.revoked:
		case <-tick.C:
		case <-s.life.Done():
		}
		tick.Stop()
	}
}

// dueWrites returns the writes that are due according to the table.
func (s *Store) dueWrites(now time.Time) (due [][]Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[string][]Change{} // by removed lease
	for id, c := range s.table.leases {
		if id != s.lease.id && now.Sub(c.since) >= c.Timeout {
			due = append(due, []Change{{Kind: Delete, Name: leases + id, Revision: c.revision}})
		}
	}
	for key, r := range s.table.records {
		drop := Change{Kind: Delete, Name: records + key, Revision: r.revision}
		switch {
		case r.Lease == s.lease.id && r.Revoked != 0:
			due = append(due, []Change{drop})
		case !s.table.isLive(r) && r.Lease != s.lease.id:
			left[r.Lease] = append(left[r.Lease], drop)
		}
	}
	for id, all := range left {
		for some := range slices.Chunk(all, maxChanges-1) {
			due = append(due, append(some, Change{Kind: Check, Name: leases + id}))
		}
	}
	return due
}
