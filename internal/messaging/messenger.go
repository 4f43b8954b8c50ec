// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Node is the part of a node that a Messenger uses. Each method returns the current state.
type Node interface {
	// Members returns all members of the view, sorted by address. The list never changes: each
	// view has its own.
	Members() member.Roster
	// Leader returns the leader in the view.
	Leader() Leader
	// Follow returns what an observer follows, and a channel that is closed when it may have changed.
	Follow() (Report, <-chan struct{})
	// FindRecord returns the record with a key, or false.
	FindRecord(key string) (member.Record, bool)
	// WaitLeader blocks until a leader has authority. RequestLeader returns its errors unchanged.
	WaitLeader(ctx context.Context) (Leadership, error)
}

// Leader describes the leader in the view of a node.
type Leader struct {
	Address     member.Address // zero if no leader is known
	Provisional bool           // the leader has declared itself, but has no authority
	Authority   bool           // this node leads, and its lease is valid
}

// Leadership is one period in which a member leads with authority.
type Leadership struct {
	Leader  member.Address
	Done    <-chan struct{} // closed at the end of the period
	Changed <-chan struct{} // closed when the view of the node changes
	Lost    error           // the error of unsent requests after Done is closed
}

// Config configures a Messenger. All fields but Observer are required.
type Config struct {
	Node Node
	// Observer is set if Self is not a member.
	Observer bool
	Self     member.Address
	Mux      *receiver.Mux
	Net      *mesh.Mesh
	// RequestLeader retries when the view changes, and at the latest after HeartbeatInterval.
	HeartbeatInterval time.Duration
	// Quit is closed when the node starts to shut down; Cause then returns the reason.
	Quit  <-chan struct{}
	Cause func() error
	// Dropped is called for each frame and event that is dropped.
	Dropped func(Drop)
}

// Messenger carries the messages of one node. It implements the methods of mesh.Handler
// that concern messages of the application.
type Messenger struct {
	cfg  Config
	node Node
	self member.Address
	mux  *receiver.Mux
	net  *mesh.Mesh

	latest   atomic.Pointer[directory] // nil before the first message
	pending  pendingCalls
	sending  atomic.Int64 // sends in flight
	requests requestCounts
	streams  openStreams
	watches  watches // of observers

	// answering is the context of answers to other members.
	answering     context.Context
	stopAnswering context.CancelFunc
	// streaming is the context of streams. Close cancels it before it waits for the handlers of
	// streams, which might otherwise never return.
	streaming  context.Context
	endStreams context.CancelFunc
	// canceled is always done, with the cause receiver.ErrBusy. A delivery with this context never
	// waits.
	canceled context.Context
	// handled is closed when Close no longer waits for handlers.
	handled chan struct{}
}

// New returns a Messenger. The transport must not deliver anything yet.
func New(cfg Config) *Messenger {
	m := &Messenger{
		cfg:     cfg,
		node:    cfg.Node,
		self:    cfg.Self,
		mux:     cfg.Mux,
		net:     cfg.Net,
		pending: newPendingCalls(),
		handled: make(chan struct{}),
	}
	m.answering, m.stopAnswering = context.WithCancel(context.Background())
	m.streaming, m.endStreams = context.WithCancel(context.Background())
	canceled, end := context.WithCancelCause(context.Background())
	end(receiver.ErrBusy)
	m.canceled = canceled
	return m
}

// Close cancels the requests of this node, ends its streams, and closes the Mux and the
// transport. It waits for handlers until ctx is done, and returns the errors of the Mux and
// the transport. Quit must already be closed.
func (m *Messenger) Close(ctx context.Context) error {
	m.cancelRequests()
	m.endStreams()
	// Handlers that return now can still answer, until the transport stops flushing.
	late := time.AfterFunc(mesh.CloseTimeout, func() {
		m.stopAnswering()
		// Closing the transport unblocks an answer that is being sent. The next call of Close returns the
		// same error.
		_ = m.net.Close()
	})
	defer late.Stop()
	err := m.mux.Close(ctx)
	m.watches.waitServed()
	close(m.handled)
	err = errors.Join(err, m.net.Close())
	m.stopAnswering()
	m.pending.fail(member.Address{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, m.cfg.Cause()))
	return err
}

// Inactive ends what waits for a member that is no longer active: its calls, the Sends that wait
// for room, and, if it is silent, its streams. A member that leaves ends its streams itself. Those
// of a later run stay: they can arrive before this node learns of it.
func (m *Messenger) Inactive(who member.Member) {
	// Only an event that was not sent has ErrNotActive, which means that no handler has run.
	connected := m.net.FailSends(who.Address, fmt.Errorf("%w: %s", ErrNotActive, who.Address))
	gone := fmt.Errorf("%s is no longer active", who.Address)
	m.pending.fail(who.Address, fmt.Errorf("%w: %w", ErrUnknownOutcome, gone))
	if connected && who.Status == member.Unreachable {
		m.streams.cutStreams(who.Identity, fmt.Errorf("%w: %w", ErrStreamCut, gone))
	}
}

// Requests returns the number of requests that this node has made, by type and result.
func (m *Messenger) Requests() map[Requested]uint64 { return m.requests.read() }

// ctxErr returns the cause of the shutdown if the node is shutting down. Otherwise it returns the
// cause of ctx, or nil if ctx is not done.
func (m *Messenger) ctxErr(ctx context.Context) error {
	select {
	case <-m.cfg.Quit:
		return m.cfg.Cause()
	default:
		return context.Cause(ctx)
	}
}

// notLeader returns the error of a call that is meant for the leader but reached this node.
func notLeader(l Leader) error {
	return &leader.NotLeaderError{Leader: l.Address, Provisional: l.Provisional}
}
