// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// Memory is a table of records within one process, for tests and for programs that have
// no cluster. Its members are those that called Store.
type Memory struct {
	mu       sync.Mutex
	number   member.Token
	sessions uint64
	records  member.Records
	members  map[string]*seat
	watchers map[chan struct{}]string // with their prefixes
	healed   chan struct{}            // closed when a member is cut off no more
}

// seat is a member.
type seat struct {
	cut bool
	// seen is what it reads while it is cut off.
	seen member.Records
	// held are the contexts under its records.
	held []*tenure
}

// tenure is one run of a function of Hold.
type tenure struct {
	key string
	end context.CancelCauseFunc
}

// NewMemory makes a table without records and members.
func NewMemory() *Memory {
	return &Memory{
		number:   member.Token{Version: 1},
		members:  map[string]*seat{},
		watchers: map[chan struct{}]string{},
		healed:   make(chan struct{}),
	}
}

// Store is the table as a member sees it.
func (m *Memory) Store(member string) Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.members[member] == nil {
		m.members[member] = &seat{}
	}
	return memory{m, member}
}

// Expire is a silence of the member that lasted too long: its contexts end with
// cluster.ErrLeaseEnded and its records go. It is a member on, and may set new ones.
func (m *Memory) Expire(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(member)
}

// Cut is Expire of a member that then stays cut off: its commits wait, it reads what it
// saw last, and the others do not list it, until Heal.
func (m *Memory) Cut(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.members[member]
	s.cut, s.seen = true, m.records
	m.expire(member)
}

// Heal undoes Cut.
func (m *Memory) Heal(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[member].cut = false
	close(m.healed)
	m.healed = make(chan struct{})
	for w := range m.watchers {
		hint(w)
	}
}

func (m *Memory) expire(id string) {
	s := m.members[id]
	for _, t := range s.held {
		t.end(cluster.ErrLeaseEnded)
	}
	s.held = nil
	kept := m.records.Clone()
	for _, r := range m.records {
		if r.Owner.Address.Host == id {
			kept.Drop(r.Key)
		}
	}
	m.set(kept)
}

// set replaces the table, which nobody changes in place.
func (m *Memory) set(records member.Records) {
	old := m.records
	m.records = records
	for w, prefix := range m.watchers {
		if !within(old, prefix).Equal(within(records, prefix)) {
			hint(w)
		}
	}
}

func within(records member.Records, prefix string) (in member.Records) {
	for _, r := range records {
		if strings.HasPrefix(r.Key, prefix) {
			in = append(in, r)
		}
	}
	return in
}

func hint(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// memory is the Store of one member.
type memory struct {
	*Memory
	id string
}

func (m memory) Members() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.members {
		if !s.cut {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m memory) Records(_ context.Context, prefix string) ([]member.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := m.records
	if s := m.members[m.id]; s.cut {
		records = s.seen
	}
	return within(records, prefix), nil
}

func (m memory) Watch(ctx context.Context, prefix string) <-chan struct{} {
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

func (m memory) Session() Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	return memorySession{m, m.sessions}
}

// memorySession is a session of one member.
type memorySession struct {
	memory
	session uint64
}

func (s memorySession) Member() string { return s.id }

func (s memorySession) Owns(r member.Record) bool { return r.Session == s.session }

func (s memorySession) Commit(ctx context.Context, ops ...Op) (member.Token, error) {
	for {
		s.mu.Lock()
		if err := context.Cause(ctx); err != nil || !s.members[s.id].cut {
			defer s.mu.Unlock()
			if err != nil {
				return member.Token{}, fmt.Errorf("%w: %w", cluster.ErrNoQuorum, err)
			}
			return s.commit(ops)
		}
		healed := s.healed
		s.mu.Unlock()
		select {
		case <-healed:
		case <-ctx.Done():
		}
	}
}

// commit makes all changes or none. The caller holds mu.
func (s memorySession) commit(ops []Op) (member.Token, error) {
	if err := s.refuses(ops); err != nil {
		return member.Token{}, err
	}
	s.number.Revision++
	next := s.number
	records := s.records.Clone()
	for _, op := range ops {
		r := member.Record{Key: op.Key, Value: op.Value, Token: next}
		switch op.Kind {
		case SetOwned:
			r.Owner.Address.Host, r.Session = s.id, s.session
			records.Put(r)
		case Set:
			records.Put(r)
		case Drop:
			records.Drop(op.Key)
		case Absent, Held:
		}
	}
	for _, op := range ops {
		if op.Kind != Absent && op.Kind != Held {
			s.end(op.Key, records)
		}
	}
	s.set(records)
	return next, nil
}

// refuses is why ops cannot be taken; nil when they can.
func (s memorySession) refuses(ops []Op) error {
	for _, op := range ops {
		r, ok := s.records.Find(op.Key)
		switch {
		case !member.IsKey(op.Key) || len(op.Value) > member.MaxValueBytes:
			return cluster.ErrTooLarge
		case op.Kind == Absent && ok, op.Kind == Held && (!ok || r.Token != op.Token):
			return cluster.ErrConflict
		case (op.Kind == Set || op.Kind == SetOwned) && ok && r.IsOwned() &&
			r.Owner.Address.Host != s.id:
			return cluster.ErrOwned
		}
	}
	return nil
}

// end ends the contexts under a key, before anybody else may set it.
func (s memorySession) end(key string, now member.Records) {
	for id, seat := range s.members {
		why := Lost(key, id, now)
		if id == s.id {
			why = cluster.ErrReleased
		}
		for _, t := range seat.held {
			if t.key == key {
				t.end(why)
			}
		}
	}
}

func (s memorySession) Hold(
	ctx context.Context, key string, token member.Token, fn func(context.Context) error,
) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tenure{key, end}
	if err := s.begin(t, token); err != nil {
		return err
	}
	defer s.done(t)
	return fn(ctx)
}

func (s memorySession) begin(t *tenure, token member.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	seat := s.members[s.id]
	if r, ok := s.records.Find(t.key); !ok || r.Token != token || !s.Owns(r) || seat.cut {
		return cluster.ErrNotHeld
	}
	seat.held = append(seat.held, t)
	return nil
}

func (s memorySession) done(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seat := s.members[s.id]
	seat.held = slices.DeleteFunc(seat.held, func(o *tenure) bool { return o == t })
}
