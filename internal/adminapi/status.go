// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// Status is the answer of /v1/status.
type Status struct {
	Cluster string `json:"cluster"`
	// ClusterID tells the cluster apart from every other one, also of the same name; empty
	// until this node took part in its founding or joined it.
	ClusterID string `json:"cluster_id"`
	Size      int    `json:"size"`
	Quorum    int    `json:"quorum"`
	Self      Self   `json:"self"`
	// Role is "leader", "follower", "provisional" or "joining".
	Role string `json:"role"`
	View View   `json:"view"`
	// Token is the fencing token of the quorate leader, 0 without one.
	Token uint64 `json:"token"`
	// NoLeader says in one line for people why there is no quorate leader; empty
	// while there is one.
	NoLeader string `json:"no_leader"`
	// OtherSeeds are the peers whose list of seeds is not that of this node.
	OtherSeeds []member.Address `json:"other_seeds"`
	// LeaseRemainingMS is 0 on every node but the quorate leader.
	LeaseRemainingMS float64 `json:"lease_remaining_ms"`
	// TermSince is null without a quorate leader.
	TermSince *time.Time `json:"term_since"`
	// LastElection is null while this node has seen none.
	LastElection *Election `json:"last_election"`
	// Handshakes counts those with other nodes by how they ended, whoever began
	// them: "certificate refused" is somebody without the secret.
	Handshakes map[string]uint64 `json:"handshakes"`
	// Peers are the nodes that this one knows of, sorted by address.
	Peers   []Peer  `json:"peers"`
	Traffic Traffic `json:"traffic"`
	Events  Events  `json:"events"`
	// Write says that whoever reaches the API that answers may act by it. It is false
	// where another member was asked over the cluster.
	Write bool `json:"write"`
	// Drained says that the node was told to let others lead, until it is restarted.
	Drained  bool    `json:"drained"`
	UptimeMS float64 `json:"uptime_ms"`
	// Protocol is the version of the format in which nodes talk.
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
}

// Self is the node that answers.
type Self struct {
	Name        string         `json:"name"`
	Address     member.Address `json:"address"`
	Seed        bool           `json:"seed"`
	StoreID     member.StoreID `json:"store_id"`
	Incarnation uint64         `json:"incarnation"`
}

// View is what the node sees.
type View struct {
	Version  uint64         `json:"version"`
	Revision uint64         `json:"revision"`
	Leader   member.Address `json:"leader"` // empty when the node follows nobody
	Quorate  bool           `json:"quorate"`
	Members  []Member       `json:"members"`
}

// Member is one member of a view.
type Member struct {
	Name        string         `json:"name"`
	Address     member.Address `json:"address"`
	Seed        bool           `json:"seed"`
	Status      member.Status  `json:"status"`
	Incarnation uint64         `json:"incarnation"`
}

// Leader is the answer of /v1/leader.
type Leader struct {
	Address member.Address `json:"address"`
	Name    string         `json:"name"`
	Version uint64         `json:"version"`
	Token   uint64         `json:"token"`
}

// StatusOf writes what a node says about itself in the words of this API.
func StatusOf(s cluster.Status, build string) Status {
	out := Status{
		Cluster:   s.Cluster,
		ClusterID: clusterID(s.ClusterID),
		Size:      s.Size,
		Quorum:    s.Quorum,
		Self: Self{
			Name:        s.Self.Name,
			Address:     s.Self.Address,
			Seed:        s.Self.Seed,
			StoreID:     s.Self.StoreID,
			Incarnation: s.Self.Incarnation,
		},
		Role: s.View.Role.String(),
		View: View{
			Version:  s.View.Version,
			Revision: s.View.Revision,
			Leader:   s.View.Leader,
			Quorate:  s.View.Quorate,
			Members:  make([]Member, 0, len(s.View.Members)),
		},
		Token:            s.Token.Version,
		NoLeader:         s.NoLeader,
		OtherSeeds:       append([]member.Address{}, s.OtherSeeds...),
		LeaseRemainingMS: Milliseconds(s.LeaseRemaining),
		Handshakes:       map[string]uint64{},
		Peers:            peersOf(s),
		Traffic:          trafficOf(s.Transport),
		Events:           eventsOf(s),
		Drained:          s.Drained,
		UptimeMS:         Milliseconds(s.Uptime),
		Protocol:         wire.Version,
		Build:            build,
	}
	for _, m := range s.View.Members {
		out.View.Members = append(out.View.Members, MemberOf(m))
	}
	for result := range mesh.Results {
		out.Handshakes[result.String()] = s.Transport.Handshakes[result.String()]
	}
	if !s.TermSince.IsZero() {
		since := s.TermSince
		out.TermSince = &since
	}
	if s.LastElection.Version != 0 {
		e := ElectionOf(s.LastElection)
		out.LastElection = &e
	}
	return out
}

// LeaderOf is the quorate leader; false when there is none.
func (s Status) LeaderOf() (Leader, bool) {
	if s.Token == 0 || s.View.Leader.IsZero() {
		return Leader{}, false
	}
	l := Leader{Address: s.View.Leader, Version: s.View.Version, Token: s.Token}
	for _, m := range s.View.Members {
		if m.Address == l.Address {
			l.Name = m.Name
		}
	}
	return l, true
}

// Active counts the active members of the view.
func (s Status) Active() int {
	n := 0
	for _, m := range s.View.Members {
		if m.Status == member.Active {
			n++
		}
	}
	return n
}

// IsLeader reports whether the node that answers is the quorate leader.
func (s Status) IsLeader() bool {
	l, ok := s.LeaderOf()
	return ok && l.Address == s.Self.Address
}

// Milliseconds keeps microseconds as decimals: a lease is a matter of them.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// clusterID is a cluster id as text; empty for none.
func clusterID(id member.ClusterID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
