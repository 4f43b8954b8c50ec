// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"slices"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Peer describes the connection to another node.
type Peer struct {
	Address   member.Address `json:"address"`
	Connected bool           `json:"connected"`
	// Known is false if Connected may be outdated: the peer is silent, and no leader with
	// authority reports it as active. A silent connection ends after 30 s.
	Known bool `json:"known"`
	// RTTMS is the smoothed round-trip time of the connection. Heartbeats keep it up to date. It is 0
	// without a connection.
	RTTMS float64 `json:"rtt_ms"`
}

// Traffic counts the frames of the node since it started, by kind: "system" for the protocol,
// "custom" for application events, "answer" for their results.
type Traffic struct {
	Sent     map[string]Frames `json:"sent"`
	Received map[string]Frames `json:"received"`
}

// Frames counts the frames of one kind in one direction.
type Frames struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Events counts the application events that this node has received since it started, including
// requests and streams.
type Events struct {
	Handled uint64 `json:"handled"`
	Failed  uint64 `json:"failed"`  // error or panic of the handler, or invalid payload
	Dropped uint64 `json:"dropped"` // dropped or rejected: full queue, or no handler
	Waiting int    `json:"waiting"` // currently in queues
	// Slowest is the handler that has been running for the longest time. It is null if that is less
	// than receiver.StallTimeout.
	Slowest *SlowHandler `json:"slowest"`
}

// SlowHandler is a handler that has been running for a long time.
type SlowHandler struct {
	Event     string         `json:"event"`
	From      member.Address `json:"from"`
	RunningMS float64        `json:"running_ms"`
	Waiting   int            `json:"waiting"` // events of this sender and type
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
	var slowest receiver.SlowHandler
	for _, r := range s.Receivers {
		e.Handled += r.Handled
		e.Failed += r.Failed + r.Panicked + r.Malformed
		e.Dropped += r.Dropped + r.Rejected
		e.Waiting += r.Queued
		if r.Slowest.Running > slowest.Running {
			slowest = r.Slowest
		}
	}
	if slowest.Running > 0 {
		e.Slowest = &SlowHandler{
			slowest.Event, slowest.From, Milliseconds(slowest.Running), slowest.Waiting,
		}
	}
	return e
}
