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

// keepLease renews the lease until the Store is closed, or its backend is.
func (s *Store) keepLease() {
	var last uint64 // the revision of the renewal before
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
		if time.Since(shown) > s.cfg.LeaseTimeout { // what follows it is stuck
			s.refollow()
			shown = time.Now()
		}
		s.mu.Unlock()
	}
}

// renewLease writes the lease anew, or a first time. Its own time limit leaves some for others
// before the trust ends. A conflict says that the lease is gone or was written after all:
// then it tries once more.
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
	value := encodeJSON(claim{Member: s.cfg.Member, Timeout: s.cfg.LeaseTimeout})
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
			s.loseLease(l.id) // or it might be made once more when it has ended
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

// learnLease takes in what was read of a lease of this Store: it may be gone, or written since
// by a renewal of unknown outcome.
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

// firmLease returns the lease when a write under it comes after all those before.
func (s *Store) firmLease(ctx context.Context) (lease, error) {
	for {
		if l := s.currentLease(); l.isFirm() {
			return l, nil
		}
		if err := retry(ctx, s.renewLease); err != nil {
			return lease{}, err
		}
	}
}

// followTable keeps the table fresh. It looks at everything again from time to time, also when
// nothing says that it missed anything.
func (s *Store) followTable() {
	for s.life.Err() == nil {
		ctx, stop := context.WithTimeout(s.life, 10*s.cfg.LeaseTimeout)
		s.mu.Lock()
		s.refollow = stop
		s.mu.Unlock()
		_ = s.backend.Follow(ctx, s.takeIn) // and again, whatever it was
		if ctx.Err() == nil {
			_ = pauseFor(s.life, retryInterval)
		}
		stop()
	}
}

// takeIn takes in what the service has. When it returns, contexts have ended under what is
// not held any more.
func (s *Store) takeIn(all bool, entries []Entry) {
	s.mu.Lock()
	id := s.lease.id
	_, had := s.table.leases[id]
	changed := s.table.takeIn(time.Now(), all, entries)
	_, has := s.table.leases[id]
	for _, key := range changed {
		s.judgeKey(key)
		if r := s.table.records[key]; r.Lease == id && r.Revoked != 0 {
			select {
			case s.untidy <- struct{}{}:
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

// tidyUp drops what is over: own records that were revoked, leases that were not renewed,
// and what they have left behind. All members do; the first one succeeds.
func (s *Store) tidyUp() {
	for s.life.Err() == nil {
		for _, chore := range s.dueWrites(time.Now()) {
			ctx, stop := context.WithTimeout(s.life, s.cfg.LeaseTimeout/3)
			_, _ = s.backend.Write(ctx, chore...) // what failed is a chore again
			stop()
		}
		tick := time.NewTimer(s.cfg.LeaseTimeout / 20)
		select {
		case <-s.untidy:
		case <-tick.C:
		case <-s.life.Done():
		}
		tick.Stop()
	}
}

// dueWrites are the writes that are due, as far as the table shows.
func (s *Store) dueWrites(now time.Time) (due [][]Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[string][]Change{} // by the lease that is gone
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
