// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/internal/clock"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
)

// Start validates the configuration, listens, and returns once the node is an
// active member or leads, also provisionally: the first node of a cluster does
// not wait for the others (see WaitLeader, WaitActive). ctx bounds only that.
//
// When ctx ends first, or no seed can be in one cluster with this node, the
// error is a *JoinError that says whom the node asked and what they said.
// A seed that some seeds refuse, and others do not answer, returns without an error
// and leads provisionally: Status.NoLeader says what is wrong, WaitLeader waits.
// After an error nothing is left running.
func Start(ctx context.Context, cfg Config, opts ...Option) (*Node, error) {
	o := newOptions(opts)
	n, err := open(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	n.logStart()
	n.work.Go(n.pump)
	n.work.Go(n.messages.SendCancels)
	go n.run()
	o.listening(n)
	if err := n.waitJoined(ctx); err != nil {
		n.stop(ErrClosed)
		<-n.done
		return nil, errors.Join(err, n.closeErr)
	}
	return n, nil
}

// open makes a node that listens and does not answer yet. What was opened is
// closed when it fails.
func open(ctx context.Context, cfg Config, o options) (*Node, error) {
	n := &Node{
		mux:   cfg.Receiver,
		clock: o.clock,
		store: store.FromContext(ctx),
		inbox: make(chan arrival, inboxLength),
		large: make(chan struct{}, maxLarge),

		refusals: make(chan statemachine.Probe),
		calls:    make(chan call),
		done:     make(chan struct{}),
	}
	n.life, n.stop = context.WithCancelCause(context.Background())
	n.candidate = n.Candidate(leader.Options{})
	n.steps.Wall = o.wall
	if n.clock == nil {
		n.clock = clock.New()
		n.steps.Wall = func() time.Time { return time.Now().Round(0) }
	}
	if n.mux == nil {
		n.mux = receiver.NewMux()
	}
	err := n.prepare(ctx, cfg, o.logger)
	if err == nil {
		n.net, err = n.openTransport(o)
	}
	if err == nil {
		n.messages = n.newMessenger()
		err = n.net.Start(inbound{n.messages, n})
	}
	if err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	return n, nil
}

// prepare does all that needs no network.
func (n *Node) prepare(ctx context.Context, cfg Config, logger *slog.Logger) (err error) {
	if n.cfg, err = cfg.settings(); err != nil {
		return err
	}
	n.log = observe.NewLogger(logger, n.cfg.Name)
	n.observer = n.newObserver()
	n.volatile = n.store == nil && n.cfg.DataDir == ""
	if n.store == nil {
		if n.store, err = n.openStore(); err != nil {
			return err
		}
	}
	durable, err := n.newRun(ctx)
	if err != nil {
		return err
	}
	n.started = n.clock()
	n.machine = statemachine.New(statemachine.Config{
		Address:  n.cfg.self,
		Name:     n.cfg.Name,
		Seeds:    n.cfg.seeds,
		Size:     n.cfg.Size,
		Timings:  n.cfg.timings,
		JoinOnly: n.cfg.JoinOnly,

		TrustRefusal: n.cfg.TrustRefusal,
		Volatile:     n.volatile,
		Rand:         newRand(),
	}, durable, n.started)
	view := clone(n.machine.View(n.started))
	n.seen.set(sight{votesAt: n.machine.VotesAt()}.seeing(view, durable.Held))
	n.hub.view, n.hub.size = view, n.cfg.Size
	n.steps.Limit = stepLimit(n.cfg.timings)
	n.records = n.newRecords()
	n.terms.clock, n.terms.guard = n.clock, leaseGuard(n.cfg.timings)
	n.observer.Start(n.started)
	err = n.mux.Start(receiver.Setup{
		Scan:   wire.Scan,
		Local:  localEvents,
		Report: n.observer.HandlerFailed,

		Context: context.WithValue(context.Background(), nodeKey{}, n),
	})
	n.receives = err == nil
	return err
}

func (n *Node) newObserver() *observe.Observer {
	return observe.New(observe.Config{
		Log:              n.log,
		Self:             n.cfg.self,
		Seeds:            n.cfg.seeds,
		Size:             n.cfg.Size,
		JoinOnly:         n.cfg.JoinOnly,
		RetryInterval:    n.cfg.RetryInterval,
		HeartbeatTimeout: n.cfg.HeartbeatTimeout,
		RosterLost:       ErrRosterLost,
	})
}

// leaseGuard is how long before the end of its lease a leader's work is ended.
// A lease in good order never has less than an interval left: nine tenths of
// LeaseTimeout are more than three of them (protocol.md section 1), and an echo
// is at most about two old.
func leaseGuard(t message.Timings) time.Duration { return t.HeartbeatInterval / 2 }

// stepLimit is the smallest step of the wall clock that ends a lease. A lease has a tenth of
// LeaseTimeout to spare: a clock that stood still for less than half of that leaves the
// other half for clocks whose rates differ.
func stepLimit(t message.Timings) time.Duration { return t.LeaseTimeout / 20 }

// newRun reads what the store remembers and saves the identity of this run,
// before anybody is greeted with it. A store that was made for something else is
// left as it is. One that was never used is as good as none: who started a node
// with a wrong name at first has nothing to remove. The incarnation grows also
// where the store was lost, as long as the wall clock does.
func (n *Node) newRun(ctx context.Context) (paxos.Durable, error) {
	c, known, err := n.store.Load()
	if err != nil {
		return c.Durable, fmt.Errorf("cluster: the store cannot be read: %w", err)
	}
	if err := n.cfg.mismatch(c, known); err != nil {
		return c.Durable, err
	}
	if !known || c.Origin != n.cfg.origin() {
		crand.Read(c.StoreID[:]) // never fails
	} else if err := n.waitLease(ctx, c); err != nil {
		return c.Durable, err
	}
	c.Incarnation = max(c.Incarnation+1, uint64(time.Now().UnixMilli()))
	if err := n.save(c.Durable); err != nil {
		return c.Durable, fmt.Errorf("cluster: the store cannot save: %w", err)
	}
	return c.Durable, nil
}

// leaseStep is after how much of a wait for a lease the rest is saved: who is
// restarted meanwhile, by a probe for one, goes on where it was.
const leaseStep = 5 * time.Second

// waitLease blocks until this run owes others no more than it pays while it runs
// (statemachine.Owed). What is left stays in the store until the wait is over. A cluster
// of one owes nothing.
func (n *Node) waitLease(ctx context.Context, c store.Content) error {
	owed := statemachine.Owed{Lease: c.LeaseTimeout, Hold: max(c.HoldTimeout, c.LeaseTimeout)}
	before, left := owed, owed.Wait(n.cfg.timings)
	if left == 0 || n.cfg.Size == 1 {
		return nil
	}
	n.log.Warn("timings became shorter: waiting until what this node "+
		"acknowledged in its last run has ended",
		slog.Float64("lease_before_ms", observe.Milliseconds(before.Lease)),
		slog.Float64("lease_ms", observe.Milliseconds(n.cfg.timings.LeaseTimeout)),
		slog.Float64("hold_before_ms", observe.Milliseconds(before.Hold)),
		slog.Float64("hold_ms", observe.Milliseconds(n.cfg.timings.HoldTimeout())),
		slog.Float64("wait_ms", observe.Milliseconds(left)))
	for left > 0 {
		step := min(leaseStep, left)
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("cluster: %w", fieldErrorf("LeaseTimeout", "was %v in the last run, and "+
				"records were held for %v: that must have ended before this one: %w",
				before.Lease, before.Hold, context.Cause(ctx)))
		}
		left -= step
		owed = owed.After(step, n.cfg.timings)
		c.LeaseTimeout, c.HoldTimeout = owed.Lease, owed.Hold
		if err := n.store.Save(c); err != nil {
			return fmt.Errorf("cluster: the store cannot save: %w", err)
		}
	}
	return nil
}

// origin is what the store of this node must have been made for.
func (s settings) origin() store.Origin {
	return store.Origin{Cluster: s.Cluster, Size: s.Size, Address: s.self}
}

// mismatch says that a store with this content was made, and used, for something else.
func (s settings) mismatch(c store.Content, known bool) error {
	if !known || c.IsUnused() || c.Origin == s.origin() {
		return nil
	}
	return &StoreMismatchError{
		Dir: s.DataDir, Made: StoreOrigin(c.Origin), Given: StoreOrigin(s.origin()),
	}
}

// CheckStore says what Start would say of the store in DataDir: a
// StoreMismatchError, or why it, or its key, cannot be read, made or written. It makes
// and changes nothing, and may be called while a node uses the store, which is no fault.
// Nil where there is none yet, and where DataDir is empty.
func (c Config) CheckStore() error {
	s, err := c.settings()
	if err != nil || s.DataDir == "" {
		return err
	}
	content, known, err := store.Peek(s.DataDir)
	if err != nil {
		return fmt.Errorf("cluster: %w", fieldErrorf("DataDir", "%s: %w", s.DataDir, err))
	}
	return s.mismatch(content, known)
}

func (n *Node) save(d paxos.Durable) error {
	began := time.Now()
	err := n.store.Save(store.Content{
		Origin: n.cfg.origin(), LeaseTimeout: n.cfg.LeaseTimeout,
		HoldTimeout: n.cfg.timings.HoldTimeout(), Durable: d,
	})
	n.observer.Metrics.Saved.Observe(time.Since(began))
	return err
}

func newRand() *rand.Rand {
	var seed [16]byte
	crand.Read(seed[:]) // never fails
	return rand.New(rand.NewPCG(
		binary.BigEndian.Uint64(seed[:8]), binary.BigEndian.Uint64(seed[8:])))
}

// abandon closes what was opened for a node that never ran.
func (n *Node) abandon() error {
	var faults []error
	n.stop(ErrClosed) // a handler may have the node already
	switch ctx := context.Background(); {
	case n.messages != nil:
		faults = append(faults, n.messages.Close(ctx))
	case n.receives:
		// Otherwise the Mux may serve another node.
		faults = append(faults, n.mux.Close(ctx))
	}
	if n.store != nil {
		faults = append(faults, n.store.Close())
	}
	return errors.Join(faults...)
}

// waitJoined blocks until this very run is an active member.
func (n *Node) waitJoined(ctx context.Context) error {
	for {
		seen, changed := n.seen.get()
		view := seen.view
		m, _ := view.Member(view.Self.Address)
		if !view.Leader.IsZero() && m.Identity == view.Self && m.Status == member.Active {
			return nil
		}
		select {
		case <-changed:
			continue
		case <-n.observer.Hopeless():
			return &JoinError{Cause: errHopeless, Asked: n.answers()}
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if n.look().rosterLost {
				cause = fmt.Errorf("%w: %w", ErrRosterLost, cause)
			}
			return &JoinError{Cause: cause, Asked: n.answers()}
		case <-n.life.Done():
			return n.Err()
		}
	}
}

// answers lists what was last heard from each node that this one asks to join.
func (n *Node) answers() []Answer {
	var list []Answer
	for _, a := range n.observer.Answers() {
		list = append(list, Answer(a))
	}
	return list
}

var errHopeless = errors.New("every other seed refused the connection")
