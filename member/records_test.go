// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/athena-go/athena/member"
)

// TestRecordsAreAMap changes tables at random. It compares each with a map, and checks that
// all earlier tables are unchanged.
func TestRecordsAreAMap(t *testing.T) {
	owners := []member.Identity{
		{}, {Address: member.Address{Host: "a", Port: 1}}, {Address: member.Address{Host: "b", Port: 1}},
	}
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			table member.Records
			want  map[string]member.Record
		}
		versions := []version{{}}
		keys := rapid.SampledFrom([]int{3, 40, 400}).Draw(t, "keys")
		for n := range rapid.IntRange(0, 600).Draw(t, "changes") {
			last := versions[len(versions)-1]
			key := fmt.Sprintf("k%d", rapid.IntRange(0, keys).Draw(t, "key"))
			next := version{last.table, maps.Clone(last.want)}
			if rapid.IntRange(0, 2).Draw(t, "drop") == 0 {
				delete(next.want, key)
				next.table = next.table.Drop(key)
			} else {
				e := member.Record{
					Key: key, Session: uint64(n), Owner: rapid.SampledFrom(owners).Draw(t, "owner"),
					Revoked: rapid.Bool().Draw(t, "revoked"),
				}
				if next.want == nil {
					next.want = map[string]member.Record{}
				}
				next.want[key] = e
				next.table = next.table.Put(e)
			}
			versions = append(versions, next)
		}
		for _, v := range versions[max(0, len(versions)-8):] {
			checkTable(t, v.table, v.want)
		}
		from := rapid.SampledFrom(versions).Draw(t, "from")
		to := rapid.SampledFrom(versions).Draw(t, "to")
		changed := map[string]bool{}
		for before, after := range to.table.Changes(from.table) {
			key := max(before.Key, after.Key)
			changed[key] = true
			if !same(before, from.want[key]) || !same(after, to.want[key]) || same(before, after) {
				t.Fatalf("%s changed from %+v to %+v", key, before, after)
			}
		}
		for key := range keys + 1 {
			k := fmt.Sprintf("k%d", key)
			if changed[k] == same(from.want[k], to.want[k]) {
				t.Fatalf("%s changed: %v", k, changed[k])
			}
		}
		if to.table.Equal(from.table) != (len(changed) == 0) {
			t.Fatalf("Equal with %d changes", len(changed))
		}
	})
}

func same(a, b member.Record) bool {
	return a.Key == b.Key && a.Session == b.Session && a.Owner == b.Owner && a.Revoked == b.Revoked
}

func checkTable(t *rapid.T, r member.Records, want map[string]member.Record) {
	all := slices.Collect(r.All())
	bytes, owners := 0, map[member.Identity]bool{}
	for _, e := range all {
		bytes += e.Bytes()
		if e.IsOwned() {
			owners[e.Owner] = owners[e.Owner] || e.Revoked
		}
		if found, ok := r.Find(e.Key); !ok || !same(found, e) || !same(e, want[e.Key]) {
			t.Fatalf("%s: found %+v, %v; want %+v", e.Key, found, ok, want[e.Key])
		}
	}
	if len(all) != len(want) || r.Len() != len(want) || r.Bytes() != bytes {
		t.Fatalf("%d records, Len %d, Bytes %d; want %d and %d bytes", len(all), r.Len(), r.Bytes(),
			len(want), bytes)
	}
	got := map[member.Identity]bool{}
	for id, revoked := range r.Owners() {
		got[id] = got[id] || revoked
	}
	if !maps.Equal(got, owners) {
		t.Fatalf("owners %v, want %v", got, owners)
	}
	fresh, err := member.NewRecords(all)
	if err != nil || fresh.Digest() != r.Digest() || !fresh.Equal(r) {
		t.Fatalf("a table of the same records differs: %v", err)
	}
	under := slices.Collect(r.Under("k1"))
	n := 0
	for key := range want {
		if len(key) > 1 && key[1] == '1' {
			n++
		}
	}
	if len(under) != n {
		t.Fatalf("%d records under k1, want %d", len(under), n)
	}
}

func TestNewRecordsRefusesDisorder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}} {
		var list []member.Record
		for _, k := range keys {
			list = append(list, member.Record{Key: k})
		}
		if _, err := member.NewRecords(list); err == nil {
			t.Errorf("NewRecords took the keys %q", keys)
		}
	}
}

func TestUnder(t *testing.T) {
	var r member.Records
	for _, key := range []string{"a", "b/1", "b/2", "c"} {
		r = r.Put(member.Record{Key: key})
	}
	for prefix, want := range map[string]int{"": 4, "b/": 2, "b/2": 1, "bb": 0, "d": 0} {
		if got := slices.Collect(r.Under(prefix)); len(got) != want {
			t.Errorf("prefix %q: got %v, want %d records", prefix, got, want)
		}
	}
}

// BenchmarkPut changes one record of a table and computes the digest of the table.
func BenchmarkPut(b *testing.B) {
	for _, n := range []int{1, 250, member.MaxRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var r member.Records
			for i := range n {
				r = r.Put(member.Record{Key: fmt.Sprintf("jobs/%06d", i), Value: make([]byte, 32)})
			}
			i := 0
			for b.Loop() {
				r = r.Put(member.Record{Key: fmt.Sprintf("jobs/%06d", i%n), Session: uint64(i)})
				_ = r.Digest()
				i++
			}
		})
	}
}
