// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// trust contains the records that a Store has set, by key. The Store may rely on them while its
// lease is trusted.
type trust map[string]*ownRecord

// ownRecord is a record that this Store has set.
type ownRecord struct {
	token   uint64 // 0 until the token is known
	session uint64
	lost    record.LostFunc
	held    *leader.Lease // the lease that Hold returned last, or nil
	// shown is the greatest revision that the table has had for the key since the write was sent. It
	// is also kept while the token is unknown.
	shown uint64
}

// releaseKey ends the lease of a key and the trust in its record.
func (t trust) releaseKey(key string, why error) {
	if o := t[key]; o != nil && o.held != nil {
		o.held.End(why)
	}
	delete(t, key)
}

// endAll ends the leases of all records. The records may be trusted again once the lease of
// the Store is renewed.
func (t trust) endAll(why error) {
	for _, o := range t {
		if o.held != nil {
			o.held.End(why)
		}
	}
}

// checkKey ends the trust in a record that the table shows as revoked, replaced or gone. The table
// may still show the state from before the record was set. s.mu must be held.
func (s *Store) checkKey(key string) {
	o, now := s.trust[key], s.table.records[key].revision
	if o == nil {
		return
	}
	o.shown = max(o.shown, now)
	if o.token != 0 && o.shown >= o.token && now != o.token {
		why := record.ErrNotHeld
		if o.lost != nil {
			why = cmp.Or(o.lost(key, s.table.recordsWithin("")), why)
		}
		s.trust.releaseKey(key, why)
	}
}

// leaseOf returns the lease of the record with this token, if the record is trusted.
func (s session) leaseOf(key string, token member.Token) (*leader.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.trust[key]
	switch {
	case s.life.Err() != nil:
		return nil, context.Cause(s.life)
	case o == nil || o.token == 0 || o.session != s.id,
		token != member.Token{Revision: o.token}:
		return nil, fmt.Errorf("%w: %q by %v", record.ErrNotHeld, key, token)
	case !s.lease.isTrusted():
		return nil, fmt.Errorf("%w: %q by %v: %w",
			record.ErrNotHeld, key, token, leader.ErrLeaseEnded)
	case o.held == nil || o.held.Ended():
		o.held = leader.NewLease(leader.LeaseConfig{
			Holder: leader.Holder{ID: s.cfg.Member, Token: token}, Own: true,
			Until: s.clock.onClock(s.lease.until), Clock: s.clock.readNow,
		})
	}
	return o.held, nil
}

// clock converts times to the monotonic clock of a Store, so that a step of the wall clock extends
// no lease.
type clock struct{ start time.Time }

func (c clock) readNow() time.Time { return c.onClock(time.Now()) }

func (c clock) onClock(t time.Time) time.Time { return c.start.Add(t.Sub(c.start)) }

// extendTrust extends the trust after a renewal that was sent at the given time.
func (s *Store) extendTrust(id string, revision uint64, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.id != id {
		return
	}
	s.lease.revision = revision
	s.lease.until = sent.Add(s.cfg.LeaseTimeout / 10 * 9)
	for _, o := range s.trust {
		if o.held != nil && !o.held.Ended() {
			o.held.Extend(s.clock.onClock(s.lease.until))
		}
	}
}

// loseLease replaces the lease with this id. The lease and its records no longer exist.
func (s *Store) loseLease(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.id != id {
		return
	}
	s.lease = newLease()
	s.trust.endAll(leader.ErrLeaseEnded)
	clear(s.trust)
}
