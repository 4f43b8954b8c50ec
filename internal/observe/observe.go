// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"log/slog"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Config is what an Observer knows of its node from the start.
type Config struct {
	Log      *slog.Logger // made by NewLogger
	Self     member.Address
	Seeds    []member.Address // sorted
	Size     int
	JoinOnly bool

	RetryInterval    time.Duration
	HeartbeatTimeout time.Duration

	// RosterLost is the error for a roster that can never elect a leader again.
	RosterLost error
}

// silentTimeout is the silence after which a peer counts as not reached. A node asks again
// every RetryInterval, so that a peer misses two questions and the time to answer one.
func (c *Config) silentTimeout() time.Duration { return 2*c.RetryInterval + c.HeartbeatTimeout }

// Observer observes one node. Start and Observe belong to the event loop, all other
// methods may be called from any goroutine.
type Observer struct {
	// Metrics counts what happens outside of turns as well.
	Metrics Metrics

	cfg     Config
	log     *slog.Logger
	peers   *peerLog
	history history
	// unhandled are the events without a handler that were warned of.
	unhandled unhandledLog

	// Of the event loop alone.
	elections  electionTrace
	warning    leaderlessWarning
	rosterLost bool
}

// New returns an Observer. Start must follow before the first turn.
func New(cfg Config) *Observer {
	return &Observer{cfg: cfg, log: cfg.Log, peers: newPeerLog(cfg.Seeds, cfg.Self)}
}

// Start notes when the node started, without a leader.
func (o *Observer) Start(now time.Time) {
	o.history.leaderlessSince = now
	o.elections.noteStart(o.cfg.Self, now)
}

// State is what a node sees at one time.
type State struct {
	View member.View
	Held member.State
	// Provisional reports whether the leader of the view declared itself: no majority has
	// chosen it.
	Provisional bool
	// Leader has authority, as far as this node knows. It is zero while there is none.
	Leader Leader
	// Drained reports whether this node was told to let others lead, and HandingOver
	// whether it gives leadership up because of that, or was told to leave or to transfer it.
	Drained, HandingOver bool
	// RosterLost reports whether the held roster can never elect a leader again.
	RosterLost bool
}

// Leader is a leader with authority. The zero Leader is none.
type Leader struct {
	Address member.Address
	Version uint64
}

func (l Leader) isZero() bool { return l == Leader{} }

// Turn is one turn of the event loop.
type Turn struct {
	// Began is when the machine took its input, and Now is when its output was saved. A
	// disk may take long in between.
	Began, Now time.Time
	Traces     []statemachine.Trace
	// Changed reports whether the view may differ from Before.
	Changed bool
	Before  member.View
	State   State // after the turn
	// NewTerm is the leader of the term that began in this turn, zero for none.
	NewTerm Leader
}

// Observe takes one turn, and returns what it changed in the view.
func (o *Observer) Observe(t Turn) Changes {
	var c Changes
	if t.Changed {
		c = Compare(t.Before, t.State.View)
		o.peers.setMembers(t.State.View.Members, t.State.Held.Roster)
	}
	o.elections.addTraces(t.Began, t.Traces)
	var election Election
	c.Cause, election = o.history.updateLeader(t, &o.elections)
	o.Metrics.addTurn(t.Traces, c.Members, election, o.cfg.Self)
	o.logTurn(t, c, election)
	return c
}

// logTurn writes the lines of a turn. An election has a line of its own.
func (o *Observer) logTurn(t Turn, c Changes, election Election) {
	ended := !election.IsZero()
	o.logTraces(t.Traces, t.State.HandingOver, ended)
	if ended {
		o.logElection(election)
	}
	for _, m := range c.storeReplaced(t.Before, t.State.View) {
		o.warnAddressConflict(m.Address, m.Name, conflictStore)
	}
	if lost := t.State.RosterLost; lost != o.rosterLost {
		o.rosterLost = lost
		if lost {
			o.logRosterLost()
		}
	}
	o.warnLeaderless(t.Now, t.State, ended)
}
