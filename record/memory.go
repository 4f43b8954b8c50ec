// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Memory is a table of records within one process, for tests and for programs without a cluster.
// The members of a Memory are the ids that were passed to its method Store.
type Memory struct {
	mu       sync.Mutex
	last     member.Token
	sessions uint64
	records  member.Records
	members  map[string]*memoryMember
	watchers map[chan struct{}]string // and their prefixes
	healed   chan struct{}            // closed by Heal
}

// memoryMember is a member of a Memory.
type memoryMember struct {
	cut   bool
	stale member.Records // the records that it sees while cut is true
	// holds maps keys to leases, some of which may have ended.
	holds map[string]memoryHold
}

// memoryHold is a lease of a session.
type memoryHold struct {
	*leader.Lease
	session memorySession
}

// NewMemory returns a table without records or members.
func NewMemory() *Memory {
	return &Memory{
		last:     member.Token{Version: 1},
		members:  map[string]*memoryMember{},
		watchers: map[chan struct{}]string{},
		healed:   make(chan struct{}),
	}
}

// Store returns the table as the given member sees it.
func (m *Memory) Store(member string) Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.members[member] == nil {
		m.members[member] = &memoryMember{holds: map[string]memoryHold{}}
	}
	return memoryStore{m, member}
}

// Expire ends the leases of a member with leader.ErrLeaseEnded and drops its records, as if the
// member had been silent for too long. The member may set new records afterwards.
func (m *Memory) Expire(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireMember(member)
}

// Cut expires a member and disconnects it until Heal. Meanwhile the commits of the member wait, the
// member sees the records as they were before the cut, and the other members do not list it.
func (m *Memory) Cut(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cut := m.members[member]
	cut.cut, cut.stale = true, m.records
	m.expireMember(member)
}

// Heal undoes Cut.
func (m *Memory) Heal(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[member].cut = false
	close(m.healed)
	m.healed = make(chan struct{})
	for w := range m.watchers {
		sendHint(w)
	}
}

func (m *Memory) expireMember(id string) {
	expired := m.members[id]
	for _, h := range expired.holds {
		h.End(leader.ErrLeaseEnded)
	}
	clear(expired.holds)
	kept := m.records
	for r := range m.records.All() {
		if r.Owner.Address.Host == id {
			kept = kept.Drop(r.Key)
		}
	}
	m.replaceRecords(kept)
}

func (m *Memory) replaceRecords(records member.Records) {
	for before, after := range records.Changes(m.records) {
		for w, prefix := range m.watchers {
			if strings.HasPrefix(cmp.Or(before.Key, after.Key), prefix) {
				sendHint(w)
			}
		}
	}
	m.records = records
}

func sendHint(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// memoryStore is the Store of one member.
type memoryStore struct {
	*Memory
	id string
}

func (m memoryStore) Members() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, o := range m.members {
		if !o.cut {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m memoryStore) List(_ context.Context, prefix string) ([]member.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := m.records
	if self := m.members[m.id]; self.cut {
		records = self.stale
	}
	return slices.Collect(records.Under(prefix)), nil
}

func (m memoryStore) Watch(ctx context.Context, prefix string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers[changed] = prefix
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, changed)
		close(changed)
	})
	return changed
}

func (m memoryStore) Session(lost LostFunc) Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	return memorySession{m, m.sessions, lost}
}

// memorySession is a session of one member.
type memorySession struct {
	memoryStore
	session uint64
	lost    LostFunc
}

func (s memorySession) Member() string { return s.id }

func (s memorySession) Owns(r member.Record) bool { return r.Session == s.session }

func (s memorySession) Commit(ctx context.Context, ops ...Op) (member.Token, error) {
	for {
		s.mu.Lock()
		if err := context.Cause(ctx); err != nil || !s.members[s.id].cut {
			defer s.mu.Unlock()
			if err != nil {
				return member.Token{}, fmt.Errorf("%w: %w", ErrNoQuorum, err)
			}
			return s.applyOps(ops)
		}
		healed := s.healed
		s.mu.Unlock()
		select {
		case <-healed:
		case <-ctx.Done():
		}
	}
}

// applyOps makes all changes in ops or none. s.mu must be held.
func (s memorySession) applyOps(ops []Op) (member.Token, error) {
	if err := s.checkOps(ops); err != nil {
		return member.Token{}, err
	}
	s.last.Revision++
	next := s.last
	records := s.records
	for _, op := range ops {
		r := member.Record{Key: op.Key, Value: op.Value, Token: next}
		switch op.Kind {
		case SetOwned:
			r.Owner.Address.Host, r.Session = s.id, s.session
			records = records.Put(r)
		case Set:
			records = records.Put(r)
		case Drop:
			records = records.Drop(op.Key)
		case Absent, Held:
		}
	}
	for _, op := range ops {
		if op.IsChange() {
			s.endHolds(op.Key, records)
		}
	}
	s.replaceRecords(records)
	return next, nil
}

// checkOps returns the reason why ops are refused, or nil if they can be applied.
func (s memorySession) checkOps(ops []Op) error {
	for _, op := range ops {
		r, ok := s.records.Find(op.Key)
		switch {
		case !member.IsKey(op.Key) || len(op.Value) > member.MaxValueBytes:
			return ErrTooLarge
		case op.Kind == Absent && ok, op.Kind == Held && (!ok || r.Token != op.Token):
			return ErrConflict
		case (op.Kind == Set || op.Kind == SetOwned) && ok && r.IsOwned() &&
			r.Owner.Address.Host != s.id:
			return ErrOwned
		}
	}
	return nil
}

// endHolds ends the leases under a key before another session may set it.
func (s memorySession) endHolds(key string, now member.Records) {
	for id, m := range s.members {
		h, ok := m.holds[key]
		switch {
		case !ok:
			continue
		case id == s.id:
			h.End(ErrReleased)
		case h.session.lost != nil:
			h.End(cmp.Or(h.session.lost(key, slices.Collect(now.All())), ErrNotHeld))
		default:
			h.End(ErrNotHeld)
		}
		delete(m.holds, key)
	}
}

func (s memorySession) Hold(
	_ context.Context, key string, token member.Token,
) (*leader.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	self := s.members[s.id]
	if r, ok := s.records.Find(key); !ok || r.Token != token || !s.Owns(r) || self.cut {
		return nil, ErrNotHeld
	}
	if h, ok := self.holds[key]; ok && !h.Ended() {
		return h.Lease, nil
	}
	lease := leader.NewLease(leader.LeaseConfig{
		Holder: leader.Holder{ID: s.id, Token: token}, Own: true,
	})
	self.holds[key] = memoryHold{lease, s}
	return lease, nil
}
