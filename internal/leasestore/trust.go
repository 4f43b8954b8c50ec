// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// trust is what a Store may act on while its lease is trusted.
type trust struct {
	lapse   *time.Timer // ends the tenures when that ends; nil where it has
	own     map[string]*own
	tenures []*tenure
}

// own is a record that this Store has set.
type own struct {
	token   uint64 // 0 until it is known
	session uint64
	lost    record.LostFunc
	// shown is the greatest revision under the key that the table has shown since the
	// record was asked for, also before the token was known.
	shown uint64
}

// tenure is one run of a function of Hold.
type tenure struct {
	key string
	end context.CancelCauseFunc
}

func newTrust() trust { return trust{own: map[string]*own{}} }

// releaseKey ends the tenures under a key, and the trust in what is there.
func (t *trust) releaseKey(key string, why error) {
	delete(t.own, key)
	t.tenures = slices.DeleteFunc(t.tenures, func(n *tenure) bool {
		if n.key == key {
			n.end(why)
		}
		return n.key == key
	})
}

// endAll ends all tenures. What they rest on may be trusted again once the lease is
// renewed.
func (t *trust) endAll(why error) {
	for _, n := range t.tenures {
		n.end(why)
	}
	t.tenures = nil
}

// judgeKey ends the trust in a record that the table shows as revoked, replaced or gone. It
// may show yet what was before the record. The caller holds mu.
func (s *Store) judgeKey(key string) {
	o, now := s.trust.own[key], s.table.records[key].revision
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

// beginTenure begins a tenure where the record that was set by token may be acted on.
func (s session) beginTenure(t *tenure, token member.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.trust.own[t.key]
	switch {
	case s.life.Err() != nil:
		return context.Cause(s.life)
	case o == nil || o.token == 0 || o.session != s.id,
		token != member.Token{Revision: o.token}:
		return fmt.Errorf("%w: %q by %v", record.ErrNotHeld, t.key, token)
	case !s.lease.isTrusted():
		return fmt.Errorf("%w: %q by %v: %w", record.ErrNotHeld, t.key, token, record.ErrLeaseEnded)
	}
	s.trust.tenures = append(s.trust.tenures, t)
	return nil
}

func (s session) endTenure(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trust.tenures = slices.DeleteFunc(s.trust.tenures, func(n *tenure) bool { return n == t })
}

// extendTrust extends the trust: the lease was written by a request that was sent at sent.
func (s *Store) extendTrust(id string, revision uint64, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.id != id {
		return
	}
	s.lease.revision = revision
	s.lease.until = sent.Add(s.cfg.LeaseTimeout / 10 * 9)
	if s.trust.lapse == nil {
		s.trust.lapse = time.AfterFunc(time.Until(s.lease.until), s.lapseTrust)
	}
}

// lapseTrust ends all tenures when the trust has ended, and comes back when it has not.
func (s *Store) lapseTrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.lease.until); left > 0 {
		s.trust.lapse.Reset(left)
		return
	}
	s.trust.lapse = nil
	s.trust.endAll(record.ErrLeaseEnded)
}

// loseLease begins another lease where that of the id is gone, and all its records with it.
func (s *Store) loseLease(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.id != id {
		return
	}
	s.lease = newLease()
	s.trust.endAll(record.ErrLeaseEnded)
	clear(s.trust.own)
}
