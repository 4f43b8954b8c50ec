// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

// table is the state of the service as the Store last saw it.
type table struct {
	keys    []string // keys of the records, sorted
	records map[string]storedRecord
	leases  map[string]leaseEntry
	// watchers holds a channel for each Watch, by prefix. Each channel has a buffer of one
	// hint.
	watchers map[chan struct{}]string
}

func newTable() table {
	return table{
		records: map[string]storedRecord{}, leases: map[string]leaseEntry{},
		watchers: map[chan struct{}]string{},
	}
}

// isLive reports whether the record exists: it has no owner, or its lease exists.
func (t *table) isLive(r storedRecord) bool {
	_, ok := t.leases[r.Lease]
	return r.revision != 0 && (ok || r.Lease == "")
}

// recordsWithin returns the existing records whose keys begin with prefix.
func (t *table) recordsWithin(prefix string) (in []member.Record) {
	i, _ := slices.BinarySearch(t.keys, prefix)
	for _, key := range t.keys[i:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if r := t.records[key]; t.isLive(r) {
			in = append(in, r.recordUnder(key))
		}
	}
	return in
}

// applyEntries applies entries, either changed ones or all there are, and returns the keys of the
// records that changed.
func (t *table) applyEntries(now time.Time, all bool, entries []Entry) (changed []string) {
	if all {
		entries = append(entries, t.missingEntries(entries)...)
	}
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name, leases); ok {
			changed = append(changed, t.seeLease(now, id, e)...)
		} else if key, ok := strings.CutPrefix(e.Name, records); ok && member.IsKey(key) {
			if t.seeRecord(key, e) {
				changed = append(changed, key)
			}
		}
	}
	return changed
}

// missingEntries returns a deletion for each entry of the table that is not among the given ones.
func (t *table) missingEntries(entries []Entry) (gone []Entry) {
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name] = true
	}
	for _, key := range t.keys {
		gone = append(gone, Entry{Name: records + key})
	}
	for id := range t.leases {
		gone = append(gone, Entry{Name: leases + id})
	}
	return slices.DeleteFunc(gone, func(e Entry) bool { return names[e.Name] })
}

func (t *table) seeLease(now time.Time, id string, e Entry) (changed []string) {
	was, known := t.leases[id]
	switch {
	case e.Revision == 0:
		delete(t.leases, id)
	case was.revision != e.Revision:
		t.leases[id] = leaseEntryOf(e, now)
	}
	if known == (e.Revision != 0) {
		return nil
	}
	for key, r := range t.records {
		if r.Lease == id {
			changed = append(changed, key)
		}
	}
	return changed
}

func (t *table) seeRecord(key string, e Entry) (changed bool) {
	was, known := t.records[key]
	i, _ := slices.BinarySearch(t.keys, key)
	switch {
	case e.Revision == 0 && known:
		delete(t.records, key)
		t.keys = slices.Delete(t.keys, i, i+1)
	case e.Revision != 0:
		t.records[key] = recordOf(e)
		if !known {
			t.keys = slices.Insert(t.keys, i, key)
		}
	}
	return was.revision != e.Revision
}

// hintWatchers sends a hint to the watchers of these keys.
func (t *table) hintWatchers(keys []string) {
	for w, prefix := range t.watchers {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, prefix) }) {
			select {
			case w <- struct{}{}:
			default:
			}
		}
	}
}

// listMembers returns the members that have a lease.
func (t *table) listMembers() []string {
	ids := map[string]bool{}
	for _, c := range t.leases {
		ids[c.Member] = true
	}
	return slices.Collect(maps.Keys(ids))
}
