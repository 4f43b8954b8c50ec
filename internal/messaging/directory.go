// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"slices"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// contact is what this node needs to exchange messages with a member. It is looked up once in each
// view, not for each message.
type contact struct {
	*member.Member // the entry of the view
	to             *mesh.Destination
	names          wire.Names // of the events that the member has sent
}

// directory holds the contacts of all members of a view.
type directory struct {
	members  member.Roster
	self     *contact // nil if the view does not contain this node
	contacts map[member.Address]*contact
}

// currentDirectory returns the directory of the current view.
func (m *Messenger) currentDirectory() *directory {
	members := m.node.Members()
	d := m.latest.Load()
	if d != nil && isSame(d.members, members) {
		return d
	}
	if d != nil && slices.Equal(d.members, members) { // same members; only records have changed
		d = &directory{members, d.self, d.contacts}
	} else {
		d = &directory{members: members, contacts: make(map[member.Address]*contact, len(members))}
		for i := range members {
			entry := &members[i]
			d.contacts[entry.Address] = &contact{Member: entry, to: m.net.Destination(entry.Address)}
		}
		d.self = d.contacts[m.self]
	}
	m.latest.Store(d)
	return d
}

// isSame reports whether two rosters are the same memory. Rosters are never changed.
func isSame(a, b member.Roster) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// contactOf returns the contact of an address, or nil if it is not in the current view.
func (m *Messenger) contactOf(addr member.Address) *contact {
	return m.currentDirectory().contacts[addr]
}

// destinationOf returns where to send frames for an address, which need not be in the view.
func (m *Messenger) destinationOf(addr member.Address) *mesh.Destination {
	if c := m.contactOf(addr); c != nil {
		return c.to
	}
	return m.net.Destination(addr)
}
