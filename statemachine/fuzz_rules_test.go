// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"reflect"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// checkSaved checks what must be durable (protocol.md 6): saved values only grow, every change is
// in Persist, and only a node with a memory store forgets.
func (p *pair) checkSaved(what string, before paxos.Durable, out statemachine.Output) {
	p.t.Helper()
	now := p.one.Durable()
	if out.Persist == nil && !reflect.DeepEqual(before, now) ||
		out.Persist != nil && !reflect.DeepEqual(*out.Persist, now) {
		p.t.Fatalf("%s: not saved: before\n%+v\nnow\n%+v\nto save\n%+v", what, before, now, out.Persist)
	}
	p.saved = now
	if now.StoreID != before.StoreID {
		if !p.cfg.Volatile || !now.Held.IsZero() || !now.Promised.IsZero() || !now.Accepted.IsZero() ||
			now.Incarnation <= before.Incarnation {
			p.t.Fatalf("%s: another store: before\n%+v\nnow\n%+v", what, before, now)
		}
		clear(p.leaders)
		p.token = 0
		return
	}
	self := member.Voter{Address: p.cfg.Address, StoreID: now.StoreID}
	switch most := uint64(member.MaxVersion); {
	case now.Held.Version > most || now.Promised.Version > most || now.Accepted.ID.Version > most:
		p.t.Fatalf("%s: holds %v, promised %v, accepted %v, want no version above %d",
			what, now.Held.Number, now.Promised, now.Accepted.ID, most)
	case now.Accepted.ID != before.Accepted.ID && !before.Held.IsZero() && !now.Accepted.IsZero() &&
		!now.Accepted.State.Roster.IsVoter(self): // a node that holds nothing votes in foundings only
		p.t.Fatalf("%s: accepted\n%+v\nwithout a vote in it", what, now.Accepted)
	case now.Incarnation < before.Incarnation:
		p.t.Fatalf("%s: run %d after %d", what, now.Incarnation, before.Incarnation)
	case now.Held.Number.Less(before.Held.Number),
		now.Held.Number == before.Held.Number && now.Held.Digest() != before.Held.Digest():
		p.t.Fatalf("%s: holds\n%+v\nafter\n%+v", what, now.Held, before.Held)
	case now.Promised.Compare(before.Promised) < 0 && before.Promised.Version > now.Held.Version:
		p.t.Fatalf("%s: promised %v after %v, holding %v",
			what, now.Promised, before.Promised, now.Held.Number)
	case now.Accepted.ID.Compare(before.Accepted.ID) < 0 &&
		before.Accepted.ID.Version > now.Held.Version:
		p.t.Fatalf("%s: accepted %v after %v, holding %v",
			what, now.Accepted.ID, before.Accepted.ID, now.Held.Number)
	case now.Accepted.ID == before.Accepted.ID && !reflect.DeepEqual(now.Accepted, before.Accepted):
		p.t.Fatalf("%s: accepted\n%+v\nas\n%+v", what, now.Accepted, before.Accepted)
	case before.Bound() > 0 && now.Held.Version != before.Held.Version &&
		now.Held.Version < before.Bound():
		p.t.Fatalf("%s: bound to %d, it took %v", what, before.Bound(), now.Held.Number)
	}
}

// A standing is what a node holds and shows.
type standing struct {
	paxos.Durable
	view member.View
}

func (p *pair) standing() standing { return standing{p.one.Durable(), p.one.View(p.now)} }

// trusts reports whether the node may act on the word of a process (protocol.md 3). The result is
// true for everybody unless the node leads, or follows the chosen leader of the state that it
// holds.
func (s standing) trusts(from member.Identity) bool {
	chosen := s.view.Role == member.Leading || s.view.Role == member.Following
	if !chosen || s.view.Version != s.Held.Version || s.view.Leader != s.Held.Leader {
		return true
	}
	e, ok := s.Held.Roster.Find(from.Address)
	return ok && e.IsVoter() && e.StoreID == from.StoreID
}

// checkUnmoved checks that a message of a process that the node does not trust deposed no leader,
// and made the node take no state, vote or raise its version. A leader may have given the process
// a place, but no vote.
func (p *pair) checkUnmoved(in message.Message, before standing) {
	p.t.Helper()
	now := p.standing()
	same := now.view.Role == before.view.Role && now.view.Leader == before.view.Leader &&
		now.Held.Version == before.Held.Version && now.Promised == before.Promised &&
		now.Accepted.ID == before.Accepted.ID && !p.one.Deadline().IsZero()
	if before.view.Role == member.Following {
		same = same && now.Held.Number == before.Held.Number
	}
	if !same {
		p.t.Fatalf("%+v, which is not trusted, changed\n%+v\nto\n%+v", in, before, now)
	}
}

// checkSent checks that an output has few messages, that each is addressed to another node and sent
// by this run, and that it is consistent with the saved state.
func (p *pair) checkSent(what string, before paxos.Durable, out statemachine.Output) {
	p.t.Helper()
	// Each waiting joiner, member and asker may cause one message to all nodes; few other messages
	// are sent.
	everybody := p.cfg.Size + len(p.cfg.Seeds) + 1
	if most := 4 * everybody * everybody; len(out.Send) > most || len(out.Trace) > most {
		p.t.Fatalf("%s: %d messages and %d traces", what, len(out.Send), len(out.Trace))
	}
	saved := p.one.Durable()
	self := member.Identity{
		Address: p.cfg.Address, StoreID: saved.StoreID, Incarnation: saved.Incarnation,
	}
	for _, msg := range out.Send {
		mine := msg.From == self || msg.From.Incarnation == before.Incarnation &&
			msg.From.Voter() == self.Voter()
		if !mine || msg.To == self.Address || msg.To.IsZero() {
			p.t.Fatalf("%s: %v sends %+v", what, self, msg)
		}
		if !isBacked(before, saved, msg) {
			p.t.Fatalf("%s: sends\n%+v\nand saves\n%+v", what, msg, saved)
		}
	}
}

// isBacked reports whether a message is consistent with the saved values. A vote must not be below
// an earlier promise.
func isBacked(before, saved paxos.Durable, msg message.Message) bool {
	promised := func(id paxos.ID) bool {
		return id.Compare(saved.Promised) <= 0 || id.Version <= saved.Held.Version
	}
	holds := func(n member.Number) bool { return n.Compare(saved.Held.Number) <= 0 }
	switch b := msg.Body.(type) {
	case message.Vote:
		if !b.Granted {
			return holds(b.Held)
		}
		accepted := b.Stage == message.Pre || b.ID.Compare(saved.Accepted.ID) <= 0 ||
			b.ID.Version <= saved.Held.Version
		return promised(b.ID) && accepted && holds(b.Held) &&
			b.ID.Version > before.Held.Version && b.ID.Compare(before.Promised) >= 0
	case message.LeaderQuery:
		return holds(b.Held.Number)
	case message.Proposal:
		return promised(b.ID) && holds(b.Held)
	case message.LeaderElected:
		return holds(b.State.Number)
	case message.ClusterAlignment:
		return !msg.Claim.Chosen || holds(b.State.Number)
	case message.MemberStatusUpdate:
		return !msg.Claim.Chosen || holds(b.Number)
	case message.LeaderKeepAlive:
		return !msg.Claim.Chosen || holds(b.Number) && b.Bound <= max(saved.Bound(), before.Bound())
	}
	return true
}
