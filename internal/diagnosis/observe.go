// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"log/slog"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Config configures a Reporter. All fields are required.
type Config struct {
	Log      *slog.Logger // of NewLogger
	Self     member.Address
	Seeds    []member.Address // sorted
	Size     int
	JoinOnly bool

	RetryInterval    time.Duration
	HeartbeatTimeout time.Duration

	// RosterLost is the error for a roster that can never elect a leader again.
	RosterLost error
}

// silentTimeout is the silence after which a peer counts as unreachable. A node sends a query every
// RetryInterval, so the peer has left two queries unanswered.
func (c *Config) silentTimeout() time.Duration { return 2*c.RetryInterval + c.HeartbeatTimeout }

// Reporter observes one node. Start and Observe must be called by the event loop. All other
// methods may be called from any goroutine.
type Reporter struct {
	Metrics Metrics
	Disk    DiskWatch

	cfg       Config
	log       *slog.Logger
	peers     *peerLog
	history   history
	unhandled unhandledLog

	// Used by the event loop only.
	elections  electionTrace
	warning    leaderlessWarning
	missing    missingLog
	faults     faultLog
	rosterLost bool
}

// New returns a Reporter. Start must be called before the first turn.
func New(cfg Config) *Reporter {
	peers := newPeerLog(cfg.Seeds, cfg.Self)
	peers.slowSave = cfg.HeartbeatTimeout / 4
	return &Reporter{
		Disk: DiskWatch{log: cfg.Log, limit: cfg.HeartbeatTimeout},
		cfg:  cfg, log: cfg.Log, peers: peers,
	}
}

// Start records when the node started.
func (o *Reporter) Start(now time.Time) {
	o.history.leaderlessSince = now
	o.elections.noteStart(o.cfg.Self, now)
}

// State is what a node knows at one moment.
type State struct {
	View member.View
	Held member.State
	// Provisional reports whether the leader of the view declared itself without being elected.
	Provisional bool
	// Leader is the leader with authority in the view of this node, or zero.
	Leader Leader
	// Drained reports whether the operator has drained this node.
	Drained bool
	// Preference is the preference of this node.
	Preference member.Preference
	// RosterLost reports whether the held roster can never elect a leader again.
	RosterLost bool
}

// Leader is a leader with authority. The zero Leader means none.
type Leader struct {
	Address member.Address
	Version uint64
}

func (l Leader) isZero() bool { return l == Leader{} }

// Turn is one turn of the event loop.
type Turn struct {
	// Began is when the machine received its input. Now is when its output was saved, which may be
	// much later.
	Began, Now time.Time
	Traces     []statemachine.Trace
	// Changed reports whether the view may differ from Before.
	Changed bool
	Before  member.View
	State   State // after the turn
	// NewTerm is the leader of the term that began in this turn; zero if no term began.
	NewTerm Leader
	// QuorateUntil is when the view stops being quorate if no later turn prolongs it; zero if it is
	// not quorate.
	QuorateUntil time.Time
}

// Observe processes one turn and returns what it changed in the view.
func (o *Reporter) Observe(t Turn) Changes {
	var c Changes
	if t.Changed {
		c = CompareViews(t.Before, t.State.View)
		o.peers.setMembers(t.State.View.Members, t.State.Held.Roster)
	}
	o.elections.addTraces(t.Began, t.Traces)
	o.history.noteLoss(t, &o.elections)
	c.Cause = o.elections.cause
	election := o.history.noteElection(t, &o.elections)
	if !election.IsZero() {
		c.Cause = election.Cause
	}
	o.Metrics.addTurn(t.Traces, c.Members, election, o.cfg.Self)
	o.logTurn(t, election)
	return c
}

// logTurn logs what happened in a turn.
func (o *Reporter) logTurn(t Turn, election Election) {
	ended := !election.IsZero()
	o.logTraces(t.Traces, ended)
	if ended {
		o.logElection(election)
	}
	if t.State.RosterLost && !o.rosterLost {
		o.log.Error("no leader can be elected: too many data directories are lost; "+
			"restore them, or run athena recover on every node", ErrAttr(o.cfg.RosterLost))
	}
	o.rosterLost = t.State.RosterLost
	o.warnLeaderless(t.Now, t.State, ended)
	o.warnMissing(t.Now, t.State)
}
