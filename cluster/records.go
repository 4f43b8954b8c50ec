// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Records returns the records of the cluster as this node sees them. The ids of members are
// their addresses, those of Store.Members the active ones. Reading asks no other node.
func (n *Node) Records() record.Store { return recordStore{n} }

// recordStore implements record.Store.
type recordStore struct{ node *Node }

// Members implements record.Store.
func (s recordStore) Members() (ids []string) {
	for _, m := range s.node.look().view.Members {
		if m.Status == member.Active {
			ids = append(ids, m.Address.String())
		}
	}
	return ids
}

// List implements record.Store. The error is ErrClosed once the node ends, however it ends.
func (s recordStore) List(_ context.Context, prefix string) ([]member.Record, error) {
	if err := s.node.Err(); err != nil {
		return nil, closedError(err)
	}
	return slices.Clone(recordsUnder(s.node.table.records(), prefix)), nil
}

// closedError makes the cause of the end of a node one that wraps ErrClosed.
func closedError(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrClosed, cause)
}

// Watch implements record.Store.
func (s recordStore) Watch(ctx context.Context, prefix string) <-chan struct{} {
	w := s.node.table.watch(prefix)
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	go func() {
		defer close(changed)
		defer s.node.table.forget(w)
		for s.node.wait(ctx, w.changed) == nil {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

// Session implements record.Store.
func (s recordStore) Session(lost record.LostFunc) record.Session {
	return newRecordSession(s.node, lost)
}

// recordsUnder returns the part of a table whose keys begin with prefix.
func recordsUnder(r member.Records, prefix string) member.Records {
	from := sort.Search(len(r), func(i int) bool { return r[i].Key >= prefix })
	n := sort.Search(len(r)-from, func(i int) bool {
		return !strings.HasPrefix(r[from+i].Key, prefix)
	})
	return r[from : from+n : from+n]
}

// table is what readers see of the records.
type table struct {
	mu       sync.Mutex
	now      member.Records
	watchers map[*watcher]struct{}
}

// watcher waits for changes under a prefix.
type watcher struct {
	prefix  string
	changed chan struct{} // has room for one: something is new since it was read
}

func (t *table) records() member.Records {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// set replaces the table and wakes those that watch what is other in it.
func (t *table) set(r member.Records) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Same(t.now) {
		return
	}
	old := t.now
	t.now = r
	if len(t.watchers) == 0 {
		return
	}
	for _, key := range differing(old, r) {
		for w := range t.watchers {
			if strings.HasPrefix(key, w.prefix) {
				select {
				case w.changed <- struct{}{}:
				default:
				}
			}
		}
	}
}

func (t *table) watch(prefix string) *watcher {
	w := &watcher{prefix, make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers == nil {
		t.watchers = map[*watcher]struct{}{}
	}
	t.watchers[w] = struct{}{}
	return w
}

func (t *table) forget(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, w)
}

// differing lists the keys under which two tables are not the same.
func differing(a, b member.Records) (keys []string) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Key < b[0].Key:
			keys = append(keys, a[0].Key)
			a = a[1:]
		case len(a) == 0 || b[0].Key < a[0].Key:
			keys = append(keys, b[0].Key)
			b = b[1:]
		default:
			if a[0].Token != b[0].Token || a[0].Revoked != b[0].Revoked {
				keys = append(keys, a[0].Key)
			}
			a, b = a[1:], b[1:]
		}
	}
	return keys
}
