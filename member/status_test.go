// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"testing"

	"github.com/athena-go/athena/member"
)

var statuses = []member.Status{
	member.None, member.Joining, member.Active, member.Unreachable, member.Leaving, member.Removed,
}

// TestStatusesMoveAlongTheTable checks the table of protocol.md section 3. Each row is a current
// status and each column a next status.
func TestStatusesMoveAlongTheTable(t *testing.T) {
	table := map[member.Status]string{
		//                    N J A U L R
		member.None:        "x x . . . .",
		member.Joining:     "x x x . . x",
		member.Active:      ". . x x x .",
		member.Unreachable: ". . x x x .",
		member.Leaving:     "x . x . x x",
		member.Removed:     "x x . . . x",
	}
	for _, from := range statuses {
		for j, to := range statuses {
			want := table[from][2*j] == 'x'
			if got := member.CanMove(from, to); got != want {
				t.Errorf("CanMove(%v, %v): got %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestStatusText(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range statuses {
		text, err := s.MarshalText()
		var got member.Status
		if err == nil {
			err = got.UnmarshalText(text)
		}
		if err != nil || got != s {
			t.Errorf("%v as text %q: got %v, %v, want it back", s, text, got, err)
		}
		if seen[string(text)] {
			t.Errorf("%q names two statuses", text)
		}
		seen[string(text)] = true
	}
	if got := member.Status(99).String(); got != "status(99)" {
		t.Errorf("String of 99: got %q, want %q", got, "status(99)")
	}
	var s member.Status
	if err := s.UnmarshalText([]byte("dead")); err == nil {
		t.Errorf("UnmarshalText(dead): got %v and no error", s)
	}
}

// A voter is a member whose status is active, unreachable or leaving (protocol.md section 1).
func TestVotersByStatus(t *testing.T) {
	for s, want := range map[member.Status]bool{
		member.None: false, member.Joining: false, member.Active: true,
		member.Unreachable: true, member.Leaving: true, member.Removed: false,
	} {
		if got := (member.Member{Status: s}).IsVoter(); got != want {
			t.Errorf("IsVoter of %v: got %v, want %v", s, got, want)
		}
	}
}

// A View shows a member as Removed after its departure is committed, and as Joining if it then
// rejoins (protocol.md section 3).
func TestRemovedIsShownOfAKeptSeat(t *testing.T) {
	for _, tc := range []struct {
		entry member.Member
		want  member.Status
	}{
		{member.Member{Status: member.Active}, member.Active},
		{member.Member{Status: member.Leaving}, member.Leaving},
		{member.Member{Status: member.Leaving, Gone: true}, member.Removed},
		{member.Member{Status: member.Active, Gone: true}, member.Joining},
		{member.Member{Status: member.Unreachable, Gone: true}, member.Removed},
		// The entry already has the status that a View shows.
		{member.Member{Status: member.Removed, Gone: true}, member.Removed},
		// Another store took the seat. If it is lost too, the seat remains without a store.
		{member.Member{
			Identity: member.Identity{StoreID: member.StoreID{1}}, Status: member.Joining, Gone: true,
		}, member.Joining},
		{member.Member{Status: member.Joining, Gone: true}, member.Removed},
	} {
		if got := tc.entry.Shown(); got != tc.want {
			t.Errorf("Shown of %+v: got %v, want %v", tc.entry, got, tc.want)
		}
	}
}

func TestRoleNames(t *testing.T) {
	for r, want := range map[member.Role]string{
		member.Seeking: "joining", member.Following: "follower",
		member.Provisional: "provisional", member.Leading: "leader",
	} {
		if got := r.String(); got != want {
			t.Errorf("role %d: got %q, want %q", r, got, want)
		}
	}
}
