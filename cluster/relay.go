// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// The reasons why a node drops a proof that a run has ended.
const (
	dropKnownEnd    = "known end"
	dropUnprovedEnd = "unproved end"
)

// readEnd relays the proof that a run has ended to the other members, if the run that announces it
// asks this node to. From another member it returns the message of that run (protocol.md section 3,
// an announced end).
func (n *Node) readEnd(
	from member.Identity, m message.Message, b message.RunEnded,
) (message.Message, error) {
	s, run := n.currentSnapshot(), b.Run
	e, _ := s.held.Roster.Find(run.Address)
	asks := from.Address == run.Address
	last := n.ended.Load()
	if e.Voter() != run.Voter() || e.Incarnation >= run.Incarnation || m.Cluster != s.held.Cluster ||
		!asks && last != nil && *last == run {
		n.reporter.DropFrame(from, dropKnownEnd, nil)
		return message.Message{}, nil
	}
	if err := storekey.CheckEnd(m.Cluster, run, b.StoreKey, b.Proof); err != nil {
		return m, n.dropFrame(from, dropUnprovedEnd, err)
	}
	n.ended.Store(&run)
	if !asks {
		m.From = run
		return m, nil
	}
	for _, e := range s.held.Roster {
		if e.Address != n.cfg.self && e.Address != run.Address && !e.Gone {
			n.sendMessage(message.Message{
				From: s.view.Self, To: e.Address, Cluster: m.Cluster, Body: b,
			})
		}
	}
	return message.Message{}, nil // the message of the run itself follows
}

// Members relay an announced end, because a connection to each of them would cost a handshake.
const (
	// relays is the number of members that are asked to relay it.
	relays = 3
	// relayed is the smallest number of members for which that is faster.
	relayed = 2*relays + 1
)

// splitRelays returns the members that are asked to relay the end of the node at an address, and
// the other members. A small cluster has no relays. The voters that ask first for an election are
// the relays, because all members keep connections to them (Machine.FirstToAsk).
func splitRelays(r member.Roster, ended member.Address) (first, rest []member.Member) {
	for _, e := range r {
		if e.Address != ended && !e.Gone {
			rest = append(rest, e)
		}
	}
	if len(rest) < relayed {
		return nil, rest
	}
	slices.SortStableFunc(rest, func(a, b member.Member) int {
		return cmp.Compare(b.Preference, a.Preference)
	})
	rest = slices.DeleteFunc(rest, func(e member.Member) bool {
		if len(first) == relays || !e.IsVoter() || e.Status != member.Active ||
			e.Preference == member.NeverLeads {
			return false
		}
		first = append(first, e)
		return true
	})
	return first, rest
}

// encodeEnd returns the frames that announce to a member that the runs before run have ended. The
// first one, if any, asks it to relay the announcement.
func encodeEnd(
	run member.Identity, to member.Address, cluster member.ClusterID, key storekey.Key, relay bool,
) (frames [][]byte, err error) {
	bodies := []message.Body{message.SeedKeepAlive{}}
	if relay {
		b := message.RunEnded{Run: run}
		b.StoreKey, b.Proof = key.SignEnd(cluster, run)
		bodies = []message.Body{b, message.SeedKeepAlive{}}
	}
	for _, b := range bodies {
		f, err := wire.Encode(message.Message{From: run, To: to, Cluster: cluster, Body: b})
		if err != nil {
			return nil, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}
