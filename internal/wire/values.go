// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

func (c *codec) header(m *message.Message) {
	outer := c.enter()
	c.identity(&m.From)
	if m.From.Address.IsZero() {
		c.fail("the sender has no address")
	}
	c.address(&m.To)
	c.claim(&m.Claim)
	c.id("cluster id", (*[16]byte)(&m.Cluster))
	c.leave(outer)
}

// address encodes or decodes an address. The address must be zero, or member.ParseAddress must
// accept it.
func (c *codec) address(a *member.Address) {
	c.text(&a.Host, member.MaxHostBytes)
	within(c, &a.Port, 0, 1<<16-1)
	if a.IsZero() {
		return
	}
	if !a.IsValid() {
		c.fail("invalid address: host %s, port %d", safetext.QuotePeerText(a.Host), a.Port)
	}
}

func (c *codec) identity(i *member.Identity) {
	c.address(&i.Address)
	c.id("store id", (*[16]byte)(&i.StoreID))
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

func (c *codec) token(t *member.Token) {
	c.count(&t.Version)
	c.count(&t.Revision)
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
	c.id("store id", (*[16]byte)(&i.Ballot.StoreID))
}

// entry encodes or decodes a member of a roster, whose status is neither None nor Removed.
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
	if c.hasAddedField() {
		c.traits(&m.Traits)
	}
	c.leave(outer)
}

// traits encodes or decodes what a member states about itself.
func (c *codec) traits(t *member.Traits) {
	n, labels := int64(t.Preference), string(t.Labels)
	c.int64(&n)
	if n < int64(member.NeverLeads) || n > int64(member.MaxPreference) {
		c.fail("the preference %d is out of range", n)
		return
	}
	c.text(&labels, member.MaxLabelBytes)
	if err := member.Labels(labels).Check(); err != nil {
		c.fail("%v", err)
	} else if !c.writing {
		t.Preference, t.Labels = member.Preference(n), member.Labels(labels)
	}
}

func (c *codec) roster(r *member.Roster) {
	list(c, "a roster", (*[]member.Member)(r), member.MaxMembers, minEntryBytes, c.entry)
	if c.err == nil && !r.IsSorted() {
		c.fail("a roster that is not sorted by address")
	}
}

func (c *codec) state(s *member.State) {
	outer := c.enter()
	c.number(&s.Number)
	c.address(&s.Leader)
	c.roster(&s.Roster)
	c.records(&s.Records)
	c.id("cluster id", (*[16]byte)(&s.Cluster))
	c.leave(outer)
}

// records encodes or decodes a table, which must be sorted and within the limits of a table.
func (c *codec) records(r *member.Records) {
	var all []member.Record
	if c.writing {
		all = slices.AppendSeq(make([]member.Record, 0, r.Len()), r.All())
	}
	c.recordList(&all)
	if !c.writing && c.err == nil {
		*r, _ = member.NewRecords(all) // recordList has checked the order
	}
}

// recordList encodes or decodes a list of records, sorted by key and within the limits of a table.
func (c *codec) recordList(r *[]member.Record) {
	list(c, "a table", r, member.MaxRecords, minRecordBytes, c.record)
	n := 0
	for i, e := range *r {
		n += e.Bytes()
		if c.err == nil && i > 0 && (*r)[i-1].Key >= e.Key {
			c.fail("records that are not sorted by key")
		}
	}
	if n > member.MaxRecordsBytes {
		c.fail("records of %d bytes, the limit is %d", n, member.MaxRecordsBytes)
	}
}

// record encodes or decodes one record of a table. Its owner may be zero.
func (c *codec) record(r *member.Record) {
	outer := c.enter()
	c.key(&r.Key)
	c.blob(&r.Value, member.MaxValueBytes)
	c.identity(&r.Owner)
	c.uint64(&r.Session)
	c.token(&r.Token)
	c.bool(&r.Revoked)
	c.leave(outer)
}

func (c *codec) key(v *string) {
	c.text(v, member.MaxKeyBytes)
	if !member.IsKey(*v) {
		c.fail("the key %s is empty or not printable", safetext.QuotePeerText(*v))
	}
}

// These are the minimum encoded lengths of the elements of lists. Before it allocates memory, the
// function list uses them to refuse a declared length that the frame cannot hold.
const (
	minEntryBytes     = 24
	minRecordBytes    = 32
	minConditionBytes = 7
	minChangeBytes    = 10
	minDroppedBytes   = 5
	minSuccessorBytes = 5
)

// list encodes or decodes a list with at most the given number of elements, each of which is one
// value of at least the given size in bytes. Reading an empty list yields nil.
func list[T any](c *codec, what string, v *[]T, most, size int, element func(*T)) {
	outer := c.enter()
	n := len(*v)
	if !c.writing {
		n = c.array.fields
	}
	switch {
	case n > most:
		c.fail("%s of length %d, the limit is %d", what, n, most)
	case !c.writing && n > (len(c.b)-c.pos)/size:
		c.fail("%s of length %d, but only %d bytes are left", what, n, len(c.b)-c.pos)
	}
	if !c.writing && n > 0 && c.err == nil {
		*v = make([]T, n)
	}
	for i := 0; i < n && c.err == nil; i++ {
		element(&(*v)[i])
	}
	c.leave(outer)
}

func (c *codec) accepted(a *paxos.Accepted) {
	outer := c.enter()
	c.proposalID(&a.ID)
	c.number(&a.Base)
	c.state(&a.State)
	c.leave(outer)
}
