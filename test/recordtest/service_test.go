// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	leases "github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
)

// In tests with a service, a lease expires after leaseTimeout. Its owner trusts it for leaseTrust.
const (
	leaseTimeout = 10 * time.Second
	leaseTrust   = leaseTimeout * 9 / 10
)

// service is the service behind a Backend, within one bubble.
type service struct {
	mu       sync.Mutex
	revision uint64
	entries  map[string]leases.Entry
	changed  chan struct{} // closed at each write
}

// client is a Backend that uses the service and can have faults.
type client struct {
	*service
	mu sync.Mutex
	// cut makes the service unavailable to this client.
	cut bool
	// delay is the time between a write and its answer.
	delay time.Duration
	// late holds back writes, except renewals, until deliver is called. Such writes have an unknown
	// outcome. If silent is set, they return only when the caller gives up.
	late, silent bool
	kept         [][]leases.Change
	// hides is the prefix of the entries that this client does not see; deaf hides all changes from
	// it until the next Follow.
	hides string
	deaf  bool
	// sees, if set, observes the client's writes.
	sees func([]leases.Change)
}

func (c *client) set(change func(*client)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *client) faults() (cut, late bool, delay time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut, c.late, c.delay
}

// deliver makes the writes that were held back.
func (c *client) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, changes := range c.kept {
		_, _ = c.write(changes)
	}
	c.kept = nil
}

func (c *client) Read(_ context.Context, names ...string) (found []leases.Entry, err error) {
	if cut, _, _ := c.faults(); cut {
		return nil, record.ErrNoQuorum
	}
	c.service.mu.Lock()
	defer c.service.mu.Unlock()
	for _, name := range names {
		if e, ok := c.entries[name]; ok {
			found = append(found, e)
		}
	}
	return found, nil
}

func (c *client) Write(ctx context.Context, changes ...leases.Change) (uint64, error) {
	cut, late, delay := c.faults()
	if cut {
		return 0, record.ErrNoQuorum
	}
	c.set(func(c *client) {
		if c.sees != nil {
			c.sees(changes)
		}
	})
	if len(changes) > 127 {
		return 0, fmt.Errorf("%d changes are more than any service need take", len(changes))
	}
	if late && len(changes) > 1 {
		var silent bool
		c.set(func(c *client) { c.kept, silent = append(c.kept, changes), c.silent })
		if silent {
			<-ctx.Done()
		}
		return 0, record.ErrUnknownOutcome
	}
	revision, err := c.write(changes)
	select {
	case <-time.After(delay):
		return revision, err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", record.ErrUnknownOutcome, ctx.Err())
	}
}

func (s *service) write(changes []leases.Change) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		e, exists := s.entries[c.Name]
		if c.Kind == leases.Exists && !exists || c.Kind != leases.Exists && e.Revision != c.Revision ||
			c.Kind == leases.Delete && !exists {
			return 0, fmt.Errorf("%w: %+v at %d", record.ErrConflict, c, e.Revision)
		}
	}
	s.revision++
	for _, c := range changes {
		switch c.Kind {
		case leases.Put:
			s.entries[c.Name] = leases.Entry{Name: c.Name, Value: c.Value, Revision: s.revision}
		case leases.Delete:
			delete(s.entries, c.Name)
		case leases.Check, leases.Exists:
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return s.revision, nil
}

func (c *client) Follow(ctx context.Context, see func(bool, []leases.Entry)) error {
	c.set(func(c *client) { c.deaf, c.hides = false, "" })
	for {
		c.service.mu.Lock()
		changed := c.changed
		var all []leases.Entry
		for _, e := range c.entries {
			all = append(all, e)
		}
		c.service.mu.Unlock()
		if cut, _, _ := c.faults(); cut {
			return record.ErrNoQuorum
		}
		c.set(func(c *client) {
			if c.hides != "" {
				all = slices.DeleteFunc(all, func(e leases.Entry) bool {
					return strings.HasPrefix(e.Name, c.hides)
				})
			}
			if !c.deaf {
				see(true, all)
			}
		})
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inService runs a test with members of one service. Afterwards it removes the faults of the
// members and closes them.
func inService(t *testing.T, size int, test func(*testing.T, []*client, []*leases.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all := &service{entries: map[string]leases.Entry{}, changed: make(chan struct{})}
		var clients []*client
		var stores []*leases.Store
		for i := range size {
			c := &client{service: all}
			cfg := leases.Config{Member: fmt.Sprint("n", i), LeaseTimeout: leaseTimeout}
			s, err := leases.Open(t.Context(), c, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				c.set(func(c *client) { c.cut, c.late, c.delay = false, false, 0 })
				if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			clients, stores = append(clients, c), append(stores, s)
		}
		synctest.Wait() // wait until all members see one another
		test(t, clients, stores)
	})
}

// named returns the revisions of the entries whose names begin with the prefix.
func (s *service) named(prefix string) (names []string, revisions []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.entries {
		if strings.HasPrefix(name, prefix) {
			names, revisions = append(names, name), append(revisions, e.Revision)
		}
	}
	return names, revisions
}

// left returns the number of entries left in the service.
func (s *service) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

func TestL32Lease(t *testing.T) {
	Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		inService(t, Members, func(t *testing.T, _ []*client, stores []*leases.Store) {
			var all []record.Store
			for _, s := range stores {
				all = append(all, s)
			}
			test(t, all)
		})
	})
}
