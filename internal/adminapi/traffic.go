// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"slices"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Peer is another node as the connections of this one know it.
type Peer struct {
	Address   member.Address `json:"address"`
	Connected bool           `json:"connected"`
	// Known is false where Connected is what was so last: the node has heard nothing from
	// the other one for a while, nor from a leader with authority that it is active. A
	// connection ends 30 s after it has heard nothing.
	Known bool `json:"known"`
	// RTTMS is the round trip, smoothed, as the connection measures it; heartbeats
	// keep it fresh. 0 without a connection.
	RTTMS float64 `json:"rtt_ms"`
}

// Traffic counts the frames of the node since its start, by kind: "system" is what
// nodes say to each other, "custom" the events of the application, "answer" what
// became of some of these.
type Traffic struct {
	Sent     map[string]Frames `json:"sent"`
	Received map[string]Frames `json:"received"`
}

// Frames counts those of one kind in one direction.
type Frames struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Events counts the events of the application, requests and streams among them,
// that came to this node since its start.
type Events struct {
	Handled uint64 `json:"handled"`
	Failed  uint64 `json:"failed"`  // by an error or a panic of the handler, or not of its type
	Dropped uint64 `json:"dropped"` // or refused: the queue was full, or nobody handles them
	Waiting int    `json:"waiting"` // now
}

func peersOf(s cluster.Status) []Peer {
	peers := make([]Peer, 0, len(s.Peers))
	for _, p := range s.Peers {
		m, _ := s.View.Members.Find(p.Address)
		peers = append(peers, Peer{
			Address:   p.Address,
			Connected: p.Connected,
			Known: !p.Connected || !slices.Contains(s.Silent, p.Address) ||
				!s.Token.IsZero() && m.Shown() == member.Active,
			RTTMS: Milliseconds(p.RTT),
		})
	}
	slices.SortFunc(peers, func(a, b Peer) int { return a.Address.Compare(b.Address) })
	return peers
}

func trafficOf(s transport.Stats) Traffic {
	t := Traffic{Sent: map[string]Frames{}, Received: map[string]Frames{}}
	for kind := range transport.Kinds {
		t.Sent[kind.String()] = Frames(s.Sent[kind])
		t.Received[kind.String()] = Frames(s.Received[kind])
	}
	return t
}

func eventsOf(s cluster.Status) Events {
	var e Events
	for _, r := range s.Receivers {
		e.Handled += r.Handled
		e.Failed += r.Failed + r.Panicked + r.Malformed
		e.Dropped += r.Dropped + r.Rejected
		e.Waiting += r.Queued
	}
	return e
}
