// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"hash/fnv"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// drop ignores an event; every place that ignores one comes through here.
func (m *Machine) drop(in message.Message, reason message.Reason) {
	m.trace(Trace{Kind: Dropped, Reason: reason, Event: in.Body.Kind(), Peer: in.From.Address})
}

// refuse notes that an event is answered with no.
func (m *Machine) refuse(in message.Message, reason message.Reason) {
	m.trace(Trace{Kind: Refused, Reason: reason, Event: in.Body.Kind(), Peer: in.From.Address})
}

func (m *Machine) trace(t Trace) {
	if t.Version == 0 {
		t.Version = m.state().Version
	}
	m.out.Trace = append(m.out.Trace, t)
}

// seedDigest tells whether two nodes have the same list of seeds.
func seedDigest(seeds []member.Address) uint64 {
	h := fnv.New64a()
	for _, s := range seeds {
		h.Write([]byte(s.String()))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// SeedDigest is the digest of a sorted list of seeds that a greet carries.
func SeedDigest(seeds []member.Address) uint64 { return seedDigest(seeds) }
