// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"math"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// Status is the response of /v1/status.
type Status struct {
	Cluster string `json:"cluster"`
	// ClusterID distinguishes the cluster from others, even from those with the same name. It is
	// empty until the node has formed or joined the cluster.
	ClusterID string `json:"cluster_id"`
	Size      int    `json:"size"`
	Quorum    int    `json:"quorum"`
	Self      Self   `json:"self"`
	// Role is "leader", "follower", "provisional" or "joining".
	Role string `json:"role"`
	View View   `json:"view"`
	// Token is the version of the quorate leader, whose fencing token is that x 10^12; 0 if there is
	// none.
	Token uint64 `json:"token"`
	// NoLeader explains in one line why there is no quorate leader. It is empty if there is a quorate
	// leader.
	NoLeader string `json:"no_leader"`
	// NotSaving explains in one line why the node cannot save its state. It is empty if it can.
	NotSaving string `json:"not_saving"`
	// SaveMS is how long the last write to the data directory took, or the one in progress if that is
	// longer.
	SaveMS float64 `json:"save_ms"`
	// OtherSeeds are the peers whose list of seeds differs.
	OtherSeeds []member.Address `json:"other_seeds"`
	// MissingSeeds are the seeds that are not active members, while there is a leader with authority.
	MissingSeeds []MissingSeed `json:"missing_seeds"`
	// PeerFaults are the nodes that the node refuses, or cannot dial though they have connected.
	PeerFaults []PeerFault `json:"peer_faults"`
	// LeaseRemainingMS is 0 on all nodes except the quorate leader.
	LeaseRemainingMS float64 `json:"lease_remaining_ms"`
	// TermSince is null if there is no quorate leader.
	TermSince *time.Time `json:"term_since"`
	// LastElection is null if this node has seen no election.
	LastElection *Election `json:"last_election"`
	// Handshakes counts the handshakes in both directions by result. "certificate refused"
	// indicates a peer without the secret.
	Handshakes map[string]uint64 `json:"handshakes"`
	// Peers are the known nodes, sorted by address.
	Peers   []Peer  `json:"peers"`
	Traffic Traffic `json:"traffic"`
	Events  Events  `json:"events"`
	// Write reports whether the responding API accepts write requests. It is false in the status
	// of another member.
	Write bool `json:"write"`
	// Drained reports whether the node has been drained since it started.
	Drained  bool    `json:"drained"`
	UptimeMS float64 `json:"uptime_ms"`
	// Protocol is the version of the protocol that nodes speak to each other.
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
}

// Self is the responding node.
type Self struct {
	Name        string         `json:"name"`
	Address     member.Address `json:"address"`
	Seed        bool           `json:"seed"`
	StoreID     member.StoreID `json:"store_id"`
	Incarnation uint64         `json:"incarnation"`
}

// MissingSeed is a seed that is not an active member. Why is its last answer to this node, or why
// it did not answer.
type MissingSeed struct {
	Address member.Address `json:"address"`
	Why     string         `json:"why"`
}

// PeerFault is a fault of another node as the node saw it in the last two minutes.
type PeerFault struct {
	Address member.Address `json:"address"`
	Why     string         `json:"why"`
}

// View is the node's view of the cluster.
type View struct {
	Version  uint64         `json:"version"`
	Revision uint64         `json:"revision"`
	Leader   member.Address `json:"leader"` // empty if the node follows no leader
	Quorate  bool           `json:"quorate"`
	Members  []Member       `json:"members"`
}

// Member is one member of a view.
type Member struct {
	Name        string            `json:"name"`
	Address     member.Address    `json:"address"`
	Seed        bool              `json:"seed"`
	Status      member.Status     `json:"status"`
	Incarnation uint64            `json:"incarnation"`
	Preference  Preference        `json:"preference,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Build is set only in the response of /v1/members?build, if the member answers.
	Build string `json:"build,omitempty"`
}

// Leader is the response of /v1/leader.
type Leader struct {
	Address member.Address `json:"address"`
	Name    string         `json:"name"`
	Version uint64         `json:"version"`
	Token   uint64         `json:"token"`
}

// StatusOf converts a cluster.Status to an API status.
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
		NotSaving:        s.NotSaving,
		SaveMS:           Milliseconds(max(s.SaveTook, s.SavePending)),
		OtherSeeds:       append([]member.Address{}, s.OtherSeeds...),
		MissingSeeds:     make([]MissingSeed, 0, len(s.MissingSeeds)),
		PeerFaults:       make([]PeerFault, 0, len(s.PeerFaults)),
		LeaseRemainingMS: Milliseconds(s.LeaseRemaining),
		Handshakes:       map[string]uint64{},
		Peers:            peersOf(s),
		Traffic:          trafficOf(s.Transport),
		Events:           eventsOf(s),
		Drained:          s.Drained,
		UptimeMS:         Milliseconds(s.Uptime),
		Protocol:         message.Protocol,
		Build:            build,
	}
	for _, m := range s.View.Members {
		out.View.Members = append(out.View.Members, MemberOf(m))
	}
	for _, m := range s.MissingSeeds {
		out.MissingSeeds = append(out.MissingSeeds, MissingSeed(m))
	}
	for _, f := range s.PeerFaults {
		out.PeerFaults = append(out.PeerFaults, PeerFault(f))
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

// LeaderOf returns the quorate leader, or false if there is none.
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

// Active returns the number of active members in the view.
func (s Status) Active() int {
	n := 0
	for _, m := range s.View.Members {
		if m.Status == member.Active {
			n++
		}
	}
	return n
}

// IsLeader reports whether the responding node is the quorate leader.
func (s Status) IsLeader() bool {
	l, ok := s.LeaderOf()
	return ok && l.Address == s.Self.Address
}

// Milliseconds converts d to milliseconds with three decimals.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// DurationOf is the inverse of Milliseconds. A number outside of the range of time.Duration becomes
// the nearest limit.
func DurationOf(ms float64) time.Duration {
	const limit = float64(math.MaxInt64 / int64(time.Millisecond))
	switch {
	case ms >= limit:
		return math.MaxInt64
	case ms <= -limit:
		return math.MinInt64
	default:
		return time.Duration(ms * float64(time.Millisecond))
	}
}

// clusterID returns a cluster id as text. It returns "" for the zero id.
func clusterID(id member.ClusterID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
