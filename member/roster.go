// SPDX-License-Identifier: Apache-2.0

package member

import "slices"

// Roster is the list of members that a leader replicates, sorted by address, with one entry
// per address. It is never modified in place: With and Without return a new Roster.
type Roster []Member

// MaxMembers is the maximum size of a cluster. It ensures that a State fits into one frame.
const MaxMembers = 255

// Quorum returns M, the number of votes needed in a cluster of the given size: size/2 + 1.
func Quorum(size int) int { return size/2 + 1 }

// Find returns the entry of addr, or false if there is no entry.
func (r Roster) Find(addr Address) (Member, bool) {
	i, ok := r.index(addr)
	if !ok {
		return Member{}, false
	}
	return r[i], true
}

// index returns the position of addr, or the position at which it would be inserted. It is called
// for the sender of each event, and slices.BinarySearchFunc would copy every member that it
// compares.
func (r Roster) index(addr Address) (at int, found bool) {
	end := len(r)
	for at < end {
		middle := (at + end) / 2
		switch order := r[middle].Address.Compare(addr); {
		case order == 0:
			return middle, true
		case order < 0:
			at = middle + 1
		default:
			end = middle
		}
	}
	return at, false
}

// Rank returns the position of addr, or len(r) if it has no entry.
func (r Roster) Rank(addr Address) int {
	i, ok := r.index(addr)
	if !ok {
		return len(r)
	}
	return i
}

// IsVoter reports whether v has a vote.
func (r Roster) IsVoter(v Voter) bool {
	m, ok := r.Find(v.Address)
	return ok && m.StoreID == v.StoreID && m.IsVoter()
}

// Has reports whether the roster contains this run of the node.
func (r Roster) Has(id Identity) bool {
	m, ok := r.Find(id.Address)
	return ok && m.Identity == id
}

// Voters returns the number of entries with a vote.
func (r Roster) Voters() int {
	n := 0
	for _, m := range r {
		if m.IsVoter() {
			n++
		}
	}
	return n
}

// Count returns the number of entries with status s.
func (r Roster) Count(s Status) int {
	n := 0
	for _, m := range r {
		if m.Status == s {
			n++
		}
	}
	return n
}

// With returns a roster in which m is added, or replaces the entry with the same address.
func (r Roster) With(m Member) Roster {
	i, ok := r.index(m.Address)
	if ok {
		out := slices.Clone(r)
		out[i] = m
		return out
	}
	return slices.Concat(r[:i], Roster{m}, r[i:])
}

// Without returns a roster without the entry of addr.
func (r Roster) Without(addr Address) Roster {
	i, ok := r.index(addr)
	if !ok {
		return r
	}
	return slices.Concat(r[:i], r[i+1:])
}

// Shown returns a roster in which each entry has the status that a View shows, or r itself
// if no status differs.
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

// IsSorted reports whether the addresses are in strictly ascending order. The other methods
// require it, and every decoder must check it.
func (r Roster) IsSorted() bool {
	for i := 1; i < len(r); i++ {
		if r[i-1].Address.Compare(r[i].Address) >= 0 {
			return false
		}
	}
	return true
}
