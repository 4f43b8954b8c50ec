// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"testing"

	"github.com/athena-go/athena/member"
)

func state() member.State {
	return member.State{
		Number: member.Number{Version: 3, Revision: 7},
		Leader: member.Address{Host: "n", Port: 2},
		Roster: member.Roster{entry(1, 1, member.Active), entry(2, 2, member.Active)},
	}
}

// States are ordered by version, then by revision (protocol.md section 1).
func TestNumberOrder(t *testing.T) {
	sorted := []member.Number{{}, {Revision: 1}, {Version: 1}, {Version: 1, Revision: 9}, {Version: 2}}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := sign(a.Compare(b)), sign(i-j); got != want {
				t.Errorf("%v.Compare(%v): got %d, want %d", a, b, got, want)
			}
			if got, want := a.Less(b), i < j; got != want {
				t.Errorf("%v.Less(%v): got %v, want %v", a, b, got, want)
			}
		}
	}
	if got := sorted[3].String(); got != "1.9" {
		t.Errorf("String: got %q, want %q", got, "1.9")
	}
	if !sorted[0].IsZero() || sorted[1].IsZero() {
		t.Error("IsZero: want it of the zero number alone")
	}
}

func TestStateNamesItsLeadersRun(t *testing.T) {
	s := state()
	if got, want := s.LeaderIdentity(), s.Roster[1].Identity; got != want {
		t.Errorf("LeaderIdentity: got %v, want %v", got, want)
	}
	want := member.Claim{Chosen: true, Version: 3, Leader: s.Leader}
	if got := s.Claim(); got != want {
		t.Errorf("Claim: got %v, want %v", got, want)
	}
}

func TestNextIsOneRevisionLater(t *testing.T) {
	s := state()
	next := s.Next(s.Roster[:1])
	if got, want := next.Number, (member.Number{Version: 3, Revision: 8}); got != want {
		t.Errorf("Next: got %v, want %v", got, want)
	}
	if len(next.Roster) != 1 || len(s.Roster) != 2 || s.Revision != 7 {
		t.Errorf("Next: got %v after %v, want the first unchanged", next, s)
	}
}

// Two states that differ in any field have different digests.
func TestDigestCoversEveryField(t *testing.T) {
	changes := map[string]func(*member.State){
		"version":     func(s *member.State) { s.Version++ },
		"revision":    func(s *member.State) { s.Revision++ },
		"leader host": func(s *member.State) { s.Leader.Host = "m" },
		"leader port": func(s *member.State) { s.Leader.Port++ },
		"length":      func(s *member.State) { s.Roster = s.Roster[:1] },
		"host":        func(s *member.State) { s.Roster[0].Address.Host = "m" },
		"port":        func(s *member.State) { s.Roster[0].Address.Port = 9 },
		"store":       func(s *member.State) { s.Roster[0].StoreID[15] = 1 },
		"incarnation": func(s *member.State) { s.Roster[0].Incarnation++ },
		"name":        func(s *member.State) { s.Roster[0].Name = "x" },
		"seed":        func(s *member.State) { s.Roster[0].Seed = true },
		"status":      func(s *member.State) { s.Roster[0].Status = member.Leaving },
		"gone":        func(s *member.State) { s.Roster[0].Gone = true },
		"resigned":    func(s *member.State) { s.Roster[0].Resigned = true },
	}
	seen := map[uint64]string{state().Digest(): "none"}
	for name, change := range changes {
		s := state()
		change(&s)
		if same, ok := seen[s.Digest()]; ok {
			t.Errorf("changes %q and %q: got one digest", name, same)
		}
		seen[s.Digest()] = name
	}
	if got, want := state().Digest(), state().Digest(); got != want {
		t.Errorf("digest of equal states: got %x and %x", got, want)
	}
}

func TestViewShowsAMember(t *testing.T) {
	v := member.View{Members: state().Roster}
	if got, ok := v.Member(member.Address{Host: "n", Port: 1}); !ok || got.Status != member.Active {
		t.Errorf("Member: got %+v, %v, want the active entry", got, ok)
	}
	if got, ok := v.Member(member.Address{Host: "n", Port: 3}); ok {
		t.Errorf("Member of a stranger: got %+v, want none", got)
	}
}
