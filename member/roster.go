// SPDX-License-Identifier: Apache-2.0

package member

import "slices"

// Roster is the list of members that a leader keeps, sorted by address, one
// entry an address. A Roster is never changed in place: With and Without
// return a new one, so that values may be shared freely.
type Roster []Member

// MaxMembers is the largest Size of a cluster: its states fit into a frame.
const MaxMembers = 255

// Quorum is M for a cluster of size members: the votes that decide anything.
func Quorum(size int) int { return size/2 + 1 }

// Find returns the entry at addr.
func (r Roster) Find(addr Address) (Member, bool) {
	i, ok := r.index(addr)
	if !ok {
		return Member{}, false
	}
	return r[i], true
}

func (r Roster) index(addr Address) (int, bool) {
	return slices.BinarySearchFunc(r, addr, func(m Member, a Address) int {
		return m.Address.Compare(a)
	})
}

// Rank is the position of addr among the entries; len(r) when it has none.
func (r Roster) Rank(addr Address) int {
	i, ok := r.index(addr)
	if !ok {
		return len(r)
	}
	return i
}

// IsVoter reports whether v has a vote in this roster.
func (r Roster) IsVoter(v Voter) bool {
	m, ok := r.Find(v.Address)
	return ok && m.StoreID == v.StoreID && m.IsVoter()
}

// Has reports whether the roster names exactly this run of this node.
func (r Roster) Has(id Identity) bool {
	m, ok := r.Find(id.Address)
	return ok && m.Identity == id
}

// Voters counts the entries that have a vote.
func (r Roster) Voters() int {
	n := 0
	for _, m := range r {
		if m.IsVoter() {
			n++
		}
	}
	return n
}

// Count counts the entries of one status.
func (r Roster) Count(s Status) int {
	n := 0
	for _, m := range r {
		if m.Status == s {
			n++
		}
	}
	return n
}

// With returns the roster with m in the place of the entry of its address.
func (r Roster) With(m Member) Roster {
	i, ok := r.index(m.Address)
	if ok {
		out := slices.Clone(r)
		out[i] = m
		return out
	}
	out := make(Roster, 0, len(r)+1)
	out = append(out, r[:i]...)
	out = append(out, m)
	return append(out, r[i:]...)
}

// Without returns the roster without the entry of addr.
func (r Roster) Without(addr Address) Roster {
	i, ok := r.index(addr)
	if !ok {
		return r
	}
	out := make(Roster, 0, len(r)-1)
	out = append(out, r[:i]...)
	return append(out, r[i+1:]...)
}

// Shown is the roster with each status as a view shows it. It is r itself where that
// changes nothing.
func (r Roster) Shown() Roster {
	out := r
	for i := range r {
		status := r[i].Shown()
		if status == r[i].Status {
			continue
		}
		if &out[0] == &r[0] {
			out = slices.Clone(r)
		}
		out[i].Status = status
	}
	return out
}

// IsSorted reports whether the entries are in strict order of their addresses,
// which every method relies on and every decoder must check.
func (r Roster) IsSorted() bool {
	for i := 1; i < len(r); i++ {
		if r[i-1].Address.Compare(r[i].Address) >= 0 {
			return false
		}
	}
	return true
}
