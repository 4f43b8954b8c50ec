// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/athena-go/athena/member"
)

func entry(port uint16, store byte, s member.Status) member.Member {
	return member.Member{
		Identity: member.Identity{
			Address:     member.Address{Host: "n", Port: port},
			StoreID:     member.StoreID{store},
			Incarnation: 1,
		},
		Status: s,
	}
}

// A roster stays sorted, with one entry per address, whatever changes are made, and
// changing one roster does not affect another.
func TestRosterIsASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r member.Roster
		model := make(map[uint16]member.Member)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			before := slices.Clone(r)
			shared := r
			port := rapid.Uint16Range(1, 8).Draw(t, "port")
			if rapid.Bool().Draw(t, "with") {
				s := statuses[rapid.IntRange(0, 5).Draw(t, "status")]
				m := entry(port, rapid.Byte().Draw(t, "store"), s)
				r, model[port] = r.With(m), m
			} else {
				delete(model, port)
				r = r.Without(entry(port, 0, member.None).Address)
			}
			if !slices.Equal(shared, before) {
				t.Fatalf("a change of the next roster changed the last: got %v, want %v", shared, before)
			}
			compare(t, r, model)
		}
	})
}

func compare(t *rapid.T, r member.Roster, model map[uint16]member.Member) {
	t.Helper()
	if len(r) != len(model) || !r.IsSorted() {
		t.Fatalf("got %d entries, sorted %v, want %d sorted: %v", len(r), r.IsSorted(), len(model), r)
	}
	voters, active, rank := 0, 0, 0
	for port := uint16(1); port <= 8; port++ {
		want, has := model[port]
		addr := entry(port, 0, member.None).Address
		got, ok := r.Find(addr)
		if ok != has || got != want {
			t.Fatalf("Find(%v): got %+v, %v, want %+v, %v", addr, got, ok, want, has)
		}
		if !has {
			if got := r.Rank(addr); got != len(r) {
				t.Fatalf("Rank(%v) of a stranger: got %d, want %d", addr, got, len(r))
			}
			continue
		}
		if got := r.Rank(addr); got != rank {
			t.Fatalf("Rank(%v): got %d, want %d", addr, got, rank)
		}
		rank++
		if want.IsVoter() {
			voters++
		}
		if want.Status == member.Active {
			active++
		}
	}
	if r.Voters() != voters || r.Count(member.Active) != active {
		t.Fatalf("%v: got %d voters and %d active, want %d and %d",
			r, r.Voters(), r.Count(member.Active), voters, active)
	}
}

// Shown keeps the order of the entries and does not modify the roster itself.
func TestShownRosterSharesWhatIsTheSame(t *testing.T) {
	r := member.Roster{
		entry(1, 1, member.Active), entry(2, 2, member.Leaving), entry(3, 3, member.Leaving),
	}
	if got := r.Shown(); &got[0] != &r[0] || len(got) != len(r) {
		t.Errorf("nothing is shown in another way: got %v, want the roster itself", got)
	}
	if got := member.Roster(nil).Shown(); got != nil {
		t.Errorf("of no roster: got %v, want nil", got)
	}
	r[1].Gone, r[2].Gone = true, true
	before, want := slices.Clone(r), slices.Clone(r)
	want[1].Status, want[2].Status = member.Removed, member.Removed
	if got := r.Shown(); !slices.Equal(got, want) || !slices.Equal(r, before) {
		t.Errorf("got %v, and the roster is %v; want %v and %v", got, r, want, before)
	}
}

func TestVoterIsAddressAndStore(t *testing.T) {
	r := member.Roster{entry(1, 1, member.Active), entry(2, 2, member.Joining)}
	again := r[0].Identity
	again.Incarnation++
	for _, tc := range []struct {
		name        string
		id          member.Identity
		voter, here bool
	}{
		{"itself", r[0].Identity, true, true},
		{"another run", again, true, false},
		{"another store", entry(1, 9, member.Active).Identity, false, false},
		{"joining", r[1].Identity, false, true},
		{"stranger", entry(3, 1, member.Active).Identity, false, false},
	} {
		if got := r.IsVoter(tc.id.Voter()); got != tc.voter {
			t.Errorf("%s: IsVoter: got %v, want %v", tc.name, got, tc.voter)
		}
		if got := r.Has(tc.id); got != tc.here {
			t.Errorf("%s: Has: got %v, want %v", tc.name, got, tc.here)
		}
	}
}

func TestIsSortedRefusesDoublesAndDisorder(t *testing.T) {
	a, b := entry(1, 1, member.Active), entry(2, 2, member.Active)
	for _, tc := range []struct {
		r    member.Roster
		want bool
	}{
		{nil, true}, {member.Roster{a}, true}, {member.Roster{a, b}, true},
		{member.Roster{b, a}, false}, {member.Roster{a, a}, false},
	} {
		if got := tc.r.IsSorted(); got != tc.want {
			t.Errorf("IsSorted(%v): got %v, want %v", tc.r, got, tc.want)
		}
	}
}

// M is N/2+1 (protocol.md section 1), so any two sets of M voters from neighboring rosters
// intersect (section 3). The test checks all pairs of sets for every N up to 7. Two neighboring
// rosters have the same voters, or one of them lacks a single voter of the other.
func TestQuorumsOfNeighbouringRostersMeet(t *testing.T) {
	for n := 1; n <= 7; n++ {
		m := member.Quorum(n)
		now := uint(1)<<n - 1
		for _, next := range []uint{now, now >> 1} {
			for a := range now + 1 {
				for b := range next + 1 {
					if bits.OnesCount(a) >= m && bits.OnesCount(b) >= m && a&b == 0 {
						t.Fatalf("N=%d M=%d: sets %b and %b do not meet", n, m, a, b)
					}
				}
			}
		}
		if less := m - 1; 2*less > n {
			t.Errorf("N=%d: sets of %d meet too, M=%d is more than is needed", n, less, m)
		}
	}
}
