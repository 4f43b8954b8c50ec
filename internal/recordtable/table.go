// SPDX-License-Identifier: Apache-2.0

package recordtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Node has the methods that a Table needs of its node.
type Node interface {
	// Do calls verb in the event loop and applies the Output. It returns the error of verb, the cause
	// of ctx, or the reason why the node has stopped.
	Do(ctx context.Context, verb Verb) error
	// View returns the node's view. Its members must not be changed.
	View() member.View
	// WaitLeader blocks until a leader has authority. Commit returns its errors.
	WaitLeader(ctx context.Context) error
}

// Verb is an operation on the machine of a node.
type Verb func(now time.Time, m *statemachine.Machine) (statemachine.Output, error)

// Config configures a Table. All fields are required.
type Config struct {
	Node  Node
	Self  string          // the id of this member
	Life  context.Context // done when the node stops; its cause is the reason
	Clock func() time.Time
	// HoldTimeout is the maximum time that Hold waits.
	HoldTimeout time.Duration
	// The term of a record ends earlier than its lease, by Guard.
	Guard time.Duration
	// ReportLate is called once for each lease whose work has not returned some time after its end.
	ReportLate func(key string, ended time.Duration)
}

// Table is the record.Store of one node.
type Table struct {
	cfg Config

	// slots has an entry for each request in flight.
	slots chan struct{}
	// lastRequest and pending are used by the event loop only.
	lastRequest uint64
	pending     map[uint64]chan<- message.RecordResponse

	leases leases

	mu      sync.Mutex
	records member.Records
	// watchers maps each channel of Watch to its prefix. It is nil once the node has stopped.
	watchers map[chan struct{}]string
}

// New returns a Table without records.
func New(cfg Config) *Table {
	t := &Table{
		cfg:   cfg,
		slots: make(chan struct{}, MaxCommits),
		// If ids started at 1, the late answer to a request of this node's previous run could match a
		// request of this run.
		lastRequest: rand.Uint64N(member.MaxCount / 2),
		pending:     map[uint64]chan<- message.RecordResponse{},
		watchers:    map[chan struct{}]string{},
	}
	context.AfterFunc(cfg.Life, t.closeWatchers)
	return t
}

// Members implements record.Store. The ids are the addresses of active members.
func (t *Table) Members() (ids []string) {
	for _, m := range t.cfg.Node.View().Members {
		if m.Status == member.Active {
			ids = append(ids, m.Address.String())
		}
	}
	return ids
}

// List implements record.Store. It does not contact other members. When the node has stopped for
// any reason, the error wraps leader.ErrClosed.
func (t *Table) List(_ context.Context, prefix string) ([]member.Record, error) {
	if err := context.Cause(t.cfg.Life); err != nil {
		return nil, closedError(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(t.records.Under(prefix)), nil
}

// closedError returns an error that wraps both ErrClosed and the reason that the node stopped.
func closedError(cause error) error {
	if errors.Is(cause, leader.ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", leader.ErrClosed, cause)
}

// Watch implements record.Store.
func (t *Table) Watch(ctx context.Context, prefix string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers == nil {
		close(changed)
		return changed
	}
	t.watchers[changed] = prefix
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if _, open := t.watchers[changed]; open {
			delete(t.watchers, changed)
			close(changed)
		}
	})
	return changed
}

func (t *Table) closeWatchers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for changed := range t.watchers {
		close(changed)
	}
	t.watchers = nil
}

// Update updates the table after a turn of the machine; changed reports whether records may have
// changed. When it returns, the lost leases have ended and their contexts are canceled.
func (t *Table) Update(now time.Time, m *statemachine.Machine, changed bool) {
	for _, w := range t.leases.updateAll(now, m, changed) {
		t.cfg.ReportLate(w.key, now.Sub(w.ended))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for before, after := range m.Records().Changes(t.records) {
		if before.Token == after.Token && before.Revoked == after.Revoked {
			continue // the record has not changed
		}
		for changed, prefix := range t.watchers {
			if strings.HasPrefix(cmp.Or(before.Key, after.Key), prefix) {
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		}
	}
	t.records = m.Records()
}

// waitChange blocks until the channel is closed, the node stops, or ctx is done. If the node has
// stopped, it returns the reason. Otherwise it returns the cause of ctx, or nil if ctx is not done.
func (t *Table) waitChange(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-ctx.Done():
	case <-t.cfg.Life.Done():
	}
	return cmp.Or(context.Cause(t.cfg.Life), context.Cause(ctx))
}
