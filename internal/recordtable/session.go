// SPDX-License-Identifier: Apache-2.0

package recordtable

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// session implements record.Session. Its records end when the node leaves or its next run joins.
// They also end after the node has been silent for LeaderTimeout + LeaseTimeout or for TTLTimeout,
// whichever is shorter.
type session struct {
	table *Table
	id    uint64
	lost  record.LostFunc // may be nil
}

// Session implements record.Store.
func (t *Table) Session(lost record.LostFunc) record.Session {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return &session{table: t, id: binary.BigEndian.Uint64(id[:]), lost: lost}
}

// Member implements record.Session.
func (s *session) Member() string { return s.table.cfg.Self }

// Owns implements record.Session.
func (s *session) Owns(r member.Record) bool {
	return r.Session == s.id && r.Owner == s.table.cfg.Node.View().Self
}

// Hold implements record.Session. It blocks until the node may act on the record, for at
// most Config.HoldTimeout.
func (s *session) Hold(
	ctx context.Context, key string, token member.Token,
) (*leader.Lease, error) {
	t := s.table
	ctx, cancel := context.WithTimeoutCause(ctx, t.cfg.HoldTimeout, record.ErrNotHeld)
	defer cancel()
	for {
		var l *leader.Lease
		var owned bool
		var updated <-chan struct{}
		err := t.cfg.Node.Do(ctx, func(
			now time.Time, m *statemachine.Machine,
		) (out statemachine.Output, err error) {
			owned = m.Owns(key) == token
			l, updated, err = t.leases.find(now, m, s, key, token)
			return out, err
		})
		switch {
		case err != nil || l != nil:
			return l, err
		case !owned:
			return nil, fmt.Errorf("%w: %q by %v", record.ErrNotHeld, key, token)
		}
		if err := t.waitChange(ctx, updated); err != nil {
			return nil, fmt.Errorf("%w: %q by %v: %w", record.ErrNotHeld, key, token, err)
		}
	}
}
