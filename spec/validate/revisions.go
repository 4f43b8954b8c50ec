// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// addRevisions adds the revisions of a leader from one state to another. A step may make several
// revisions: it saves the last one and announces each of them.
func (u *turn) addRevisions(from, to member.State) {
	for r := from.Revision + 1; r < to.Revision; r++ {
		if s, ok := u.findAnnounced(from, member.Number{Version: to.Version, Revision: r}); ok {
			u.addRevision(from, s)
			from = s
		}
	}
	u.addRevision(from, to)
}

// findAnnounced returns the state with the given number if the leader announced it in this step.
func (u *turn) findAnnounced(from member.State, number member.Number) (member.State, bool) {
	for _, m := range u.s.Sent {
		switch b := m.Body.(type) {
		case message.ClusterAlignment:
			if b.State.Number == number {
				return b.State, true
			}
		case message.MemberStatusUpdate:
			if b.Number == number {
				roster := slices.Clone(from.Roster)
				roster = slices.DeleteFunc(roster, func(o member.Member) bool {
					return o.Address == b.Member.Address
				})
				roster = append(roster, b.Member)
				slices.SortFunc(roster, func(x, y member.Member) int {
					return x.Address.Compare(y.Address)
				})
				return from.Next(roster), true
			}
		case message.RecordUpdate:
			if b.Number == number {
				s := from
				s.Number = number
				for _, r := range b.Set {
					s.Records = s.Records.Put(r)
				}
				for _, k := range b.Dropped {
					s.Records = s.Records.Drop(k)
				}
				return s, true
			}
		}
	}
	return member.State{}, false
}

func (u *turn) addRevision(from, to member.State) {
	ids := u.requestsOf(from, to)
	u.emitEntry(revise, u.n, u.states.add(u.writeState(to)), u.ids.add(u.writeRequestIDs(ids)))
}

// requestsOf returns the requests that a revision applied: those that the leader answered with the
// number of the revision, and the unanswered requests that explain its changes.
func (u *turn) requestsOf(from, to member.State) (ids []taken) {
	changed := map[string]bool{} // keys that a request explains
	use := func(q *received) {
		q.used = true
		for _, c := range q.r.Changes {
			changed[c.Key] = true
		}
		ids = append(ids, taken{by: q.by, id: q.r.ID})
	}
	open := func(q received) []member.Number {
		return u.outcomes[taken{leader: u.id, by: q.by, id: q.r.ID}]
	}
	for i := range u.received {
		q := &u.received[i]
		if slices.Contains(open(*q), to.Number) && !changesNothing(*q, from) {
			use(q)
		}
	}
	// The roster of the revision ends records without a request (protocol.md section 10), also if an
	// earlier request without an outcome changed nothing.
	from.Records = from.Records.In(to.Roster)
	for i := range u.received {
		q := &u.received[i]
		isExplained := slices.ContainsFunc(q.r.Changes, func(c message.Change) bool {
			return changed[c.Key]
		})
		if !q.used && !isExplained && q.claim == to.Version && len(open(*q)) == 0 &&
			explainsChanges(*q, from, to) {
			use(q)
		}
	}
	return ids
}

// changesNothing reports whether a request only drops records that are absent or revoked. The
// answer to such a request is the current revision, which may have been made for another reason.
func changesNothing(q received, s member.State) bool {
	return !slices.ContainsFunc(q.r.Changes, func(c message.Change) bool {
		old, had := s.Records.Find(c.Key)
		return !c.Drop || had && isDroppedBy(q, old)
	})
}

// isDroppedBy reports whether a request can drop a record. Only the owner of a revoked record can
// drop it.
func isDroppedBy(q received, r member.Record) bool { return !r.Revoked || r.Owner == q.by }

// explainsChanges reports whether all changes of a request are among the changes from one state to
// another.
func explainsChanges(q received, from, to member.State) bool {
	if len(q.r.Changes) == 0 {
		return false
	}
	for _, c := range q.r.Conditions {
		if old, had := from.Records.Find(c.Key); !c.Token.IsZero() &&
			(!had || old.Token != c.Token || old.Revoked) {
			return false
		}
	}
	for _, c := range q.r.Changes {
		old, had := from.Records.Find(c.Key)
		now, has := to.Records.Find(c.Key)
		switch {
		case c.Drop && had && isDroppedBy(q, old) && (!has || now.Revoked && !old.Revoked):
		case !c.Drop && has && now.Token == member.Token(to.Number) && now.Session == c.Session &&
			bytes.Equal(now.Value, c.Value) && (!c.Owned || now.Owner == q.by):
		default:
			return false
		}
	}
	return true
}

func (u *turn) addAnswer(to member.Address, r message.RecordResponse) {
	by := member.Identity{Address: to}
	for _, q := range u.received {
		if q.by.Address == to && q.r.ID == r.ID {
			by = q.by
		}
	}
	u.emitEntry(answer, u.n, u.addRun(by), int64(r.ID), int64(r.Number.Version),
		int64(r.Number.Revision))
}
