// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/paxos"
)

// header is what every message carries beside its body.
func (c *codec) header(m *message.Message) {
	outer := c.enter()
	c.identity(&m.From)
	if m.From.Address.IsZero() {
		c.fail("the sender is nobody")
	}
	c.address(&m.To)
	c.claim(&m.Claim)
	c.leave(outer)
}

// address is nobody, or what member.ParseAddress accepts.
func (c *codec) address(a *member.Address) {
	c.text(&a.Host, member.MaxHostBytes)
	within(c, &a.Port, 0, 1<<16-1)
	if a.IsZero() {
		return
	}
	if !a.IsValid() {
		c.fail("an address of host %q and port %d", a.Host, a.Port)
	}
}

func (c *codec) identity(i *member.Identity) {
	c.address(&i.Address)
	c.storeID(&i.StoreID)
	c.count(&i.Incarnation)
}

func (c *codec) claim(v *member.Claim) {
	c.bool(&v.Chosen)
	c.count(&v.Version)
	c.address(&v.Leader)
}

func (c *codec) number(n *member.Number) {
	c.count(&n.Version)
	c.count(&n.Revision)
}

func (c *codec) stamp(s *message.Stamp) {
	c.count(&s.Version)
	c.count(&s.Incarnation)
	c.int64(&s.Clock)
}

func (c *codec) proposalID(i *paxos.ID) {
	c.count(&i.Version)
	c.count(&i.Ballot.Round)
	c.address(&i.Ballot.Proposer)
	c.count(&i.Ballot.Incarnation)
	c.storeID(&i.Ballot.StoreID)
}

// entry is one member of a roster, which holds neither None nor Removed.
func (c *codec) entry(m *member.Member) {
	outer := c.enter()
	c.identity(&m.Identity)
	if m.Address.IsZero() {
		c.fail("a member without an address")
	}
	c.name(&m.Name, member.MaxNameBytes)
	c.bool(&m.Seed)
	within(c, &m.Status, member.Joining, member.Leaving)
	c.bool(&m.Gone)
	c.bool(&m.Resigned)
	c.leave(outer)
}

// minEntryBytes is less than any entry has. It keeps what a declared length
// allocates near to what the frame really holds.
const minEntryBytes = 24

func (c *codec) roster(r *member.Roster) {
	outer := c.enter()
	n := len(*r)
	if !c.writing {
		n = c.array.fields
	}
	if n > member.MaxMembers || !c.writing && n > (len(c.b)-c.pos)/minEntryBytes {
		c.fail("a roster of %d members", n)
	}
	if !c.writing && n > 0 && c.err == nil {
		*r = make(member.Roster, n)
	}
	for i := 0; i < n && c.err == nil; i++ {
		c.entry(&(*r)[i])
	}
	if c.err == nil && !r.IsSorted() {
		c.fail("a roster that is not sorted by address")
	}
	c.leave(outer)
}

func (c *codec) state(s *member.State) {
	outer := c.enter()
	c.number(&s.Number)
	c.address(&s.Leader)
	c.roster(&s.Roster)
	c.leave(outer)
}

func (c *codec) accepted(a *paxos.Accepted) {
	outer := c.enter()
	c.proposalID(&a.ID)
	c.number(&a.Base)
	c.state(&a.State)
	c.leave(outer)
}
