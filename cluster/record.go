// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/athena-go/athena/member"
)

// Get returns the record under key as this node last learned that it is committed. It
// asks nobody and does not block: another node may have changed the record since. The
// error is ErrAbsent. The caller must not change the value.
func (n *Node) Get(key string) (member.Record, error) {
	if r, ok := n.table.records().Find(key); ok {
		return r, nil
	}
	return member.Record{}, fmt.Errorf("%w: %q", ErrAbsent, key)
}

// Records lists the records whose keys begin with prefix, sorted by key. See Get.
func (n *Node) Records(prefix string) []member.Record {
	return slices.Clone(under(n.table.records(), prefix))
}

// WatchRecords yields the records whose keys begin with prefix, sorted by key, as they
// are, and again whenever one of them was set, revoked or dropped, until ctx ends or the
// node closes. A slow reader misses tables in between, never the last. Nobody waits for
// it.
func (n *Node) WatchRecords(ctx context.Context, prefix string) iter.Seq[[]member.Record] {
	return func(yield func([]member.Record) bool) {
		w := n.table.watch(prefix)
		defer n.table.forget(w)
		for yield(n.Records(prefix)) {
			if n.wait(ctx, w.changed) != nil {
				return
			}
		}
	}
}

// under is the part of a table whose keys begin with prefix.
func under(r member.Records, prefix string) member.Records {
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
