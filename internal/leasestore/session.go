// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// maxChanges is the limit of a Write, because etcd accepts 128 conditions by default. Each
// key of a commit may need one condition for its record and one for the lease of that
// record. The commit needs one more for its own lease.
const (
	maxChanges = 127
	maxKeys    = (maxChanges - 1) / 2
)

// session is a session of a Store.
type session struct {
	*Store
	id   uint64
	lost record.LostFunc
}

func (s session) Member() string { return s.cfg.Member }

func (s session) Owns(r member.Record) bool { return r.Session == s.id }

// Commit implements record.Session. It first tries a write with the condition that the records are
// the same as in the table. It refuses a commit only after it has read the records from the
// service.
func (s session) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	keys, err := keysOf(ops)
	if err == nil {
		err = context.Cause(s.life)
	}
	if err != nil {
		return member.Token{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })()
	revision, err := s.commitOps(ctx, keys, ops)
	if err != nil && s.life.Err() != nil && !errors.Is(err, record.ErrUnknownOutcome) {
		err = context.Cause(s.life)
	}
	return member.Token{Revision: revision}, err
}

func (s session) commitOps(ctx context.Context, keys []string, ops []record.Op) (uint64, error) {
	for fromTable := true; ; fromTable = false {
		if over := context.Cause(ctx); over != nil {
			return 0, fmt.Errorf("%w: %w", record.ErrNoQuorum, over)
		}
		cells := s.cellsFromTable(keys)
		if !fromTable { // read first, because the lease may be renewed during the read
			var err error
			if cells, err = s.readCells(ctx, keys); err != nil {
				return 0, err
			}
		}
		l, err := s.confirmedLease(ctx)
		if err != nil {
			return 0, err
		}
		changes, err := s.planWrite(l, cells, ops)
		switch {
		case err != nil && fromTable:
			continue
		case err != nil:
			return 0, err
		}
		revision, err := s.writeOnce(ctx, l, changes, ops)
		switch {
		case err == nil:
			s.awaitShown(ctx, revision, changes)
			return revision, nil
		case !errors.Is(err, record.ErrConflict) && !errors.Is(err, record.ErrNoQuorum):
			return 0, err
		case !fromTable: // another writer was faster
			_ = pauseFor(ctx, retryInterval)
		}
	}
}

// writeOnce makes one attempt at a commit under a lease. When the write is sent, the trust in the
// records that it changes ends. If the write succeeds, the records that it has set are trusted
// again.
func (s session) writeOnce(
	ctx context.Context, l lease, changes []Change, ops []record.Op,
) (uint64, error) {
	asked, err := s.endOld(l, changes, ops)
	if err != nil {
		return 0, err
	}
	revision, err := s.backend.Write(ctx, changes...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, record.ErrUnknownOutcome) {
		s.lease.unsure = max(s.lease.unsure, l.revision)
	}
	for key, o := range asked {
		switch {
		case s.trust[key] != o: // changed again meanwhile, or lost
		case err == nil:
			o.token = revision
			s.checkKey(key)
		default:
			delete(s.trust, key)
		}
	}
	return revision, err
}

// endOld ends the leases of the records that the changes may replace. It returns the records that
// this Store will own. A record stays trusted if the changes expect an older entry or none: the
// write fails while the record exists.
func (s session) endOld(
	l lease, changes []Change, ops []record.Op,
) (map[string]*ownRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.id != l.id {
		return nil, fmt.Errorf("%w: the lease was lost", record.ErrConflict)
	}
	asked := map[string]*ownRecord{}
	for _, op := range ops {
		expected := func(c Change) bool {
			return c.Name == records+op.Key && c.Revision >= s.trust[op.Key].token
		}
		if !op.IsChange() || s.trust[op.Key] != nil && s.trust[op.Key].token != 0 &&
			!slices.ContainsFunc(changes, expected) {
			continue
		}
		s.trust.releaseKey(op.Key, record.ErrReleased)
		if op.Kind == record.SetOwned {
			o := &ownRecord{session: s.id, lost: s.lost}
			asked[op.Key], s.trust[op.Key] = o, o
		}
	}
	return asked, nil
}

// awaitShown blocks until the table shows the write, so that the caller of Commit sees it,
// or until a timeout.
func (s session) awaitShown(ctx context.Context, revision uint64, changes []Change) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.LeaseTimeout/3)
	defer stop()
	_ = s.waitUntil(ctx, func() bool {
		return !slices.ContainsFunc(changes, func(c Change) bool {
			r := s.table.records[strings.TrimPrefix(c.Name, records)]
			return c.Kind == Put && r.revision < revision ||
				c.Kind == Delete && r.revision == c.Revision
		})
	})
}

// Hold implements record.Session.
func (s session) Hold(
	ctx context.Context, key string, token member.Token,
) (*leader.Lease, error) {
	l, err := s.leaseOf(key, token)
	if errors.Is(err, leader.ErrLeaseEnded) { // the service may be available again
		_ = s.renewLease(ctx)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		return s.leaseOf(key, token)
	}
	return l, err
}

// keysOf returns the distinct keys of ops.
func keysOf(ops []record.Op) (keys []string, err error) {
	for _, op := range ops {
		if !member.IsKey(op.Key) || len(op.Value) > member.MaxValueBytes {
			return nil, fmt.Errorf("%w: record %.300q with a value of %d bytes", record.ErrTooLarge,
				op.Key, len(op.Value))
		}
		if !slices.Contains(keys, op.Key) {
			keys = append(keys, op.Key)
		}
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("%w: %d records in one commit, want at most %d", record.ErrTooLarge,
			len(keys), maxKeys)
	}
	return keys, nil
}
