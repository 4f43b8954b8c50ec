// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/clock"
	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
)

// Start validates the configuration, listens, and returns when the node is an active member or
// leads. Leading provisionally suffices, so the first node of a cluster does not wait for the
// others (see WaitLeader and WaitActive). ctx bounds only Start itself.
//
// If ctx is done first, or if every other seed permanently refuses this node, the error is a
// *JoinError with the last answer of each node. If this node is a seed and only some of the other
// seeds refuse it, Start returns no error, and the node leads provisionally. Status.NoLeader then
// explains what is wrong, and WaitLeader waits. If a name leads to another node, that must last for
// two minutes, because its DNS record may be old. After an error nothing is left running.
func Start(ctx context.Context, cfg Config, opts ...Option) (*Node, error) {
	o := newOptions(opts)
	n, err := openNode(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	n.log.Info("started", slog.String("cluster", n.cfg.Cluster), slog.Int("size", n.cfg.Size),
		slog.String("listen", n.cfg.Addr))
	if n.cfg.Insecure {
		n.log.Warn("no secret or certificate is set: " +
			"anyone who reaches the port can join and read everything")
	}
	if n.cfg.omitsSelf() {
		n.log.Warn("the seeds name as many nodes as the cluster has members, but not this node: unless "+
			"it replaces one of them, correct its advertised address, or the seeds",
			slog.String("address", n.cfg.self.String()), slog.String("seeds", seedText(n.cfg.seeds)))
	}
	n.work.Go(n.deliverEvents)
	if !n.volatile {
		n.work.Go(n.probeDisk)
	}
	go n.runLoop()
	o.listening(n)
	if err := n.waitJoined(ctx); err != nil {
		n.stop(ErrClosed)
		<-n.done
		return nil, errors.Join(err, n.closeErr)
	}
	return n, nil
}

// openNode creates a node that listens but does not answer yet. If openNode fails, it closes
// everything that it has opened.
func openNode(ctx context.Context, cfg Config, o options) (*Node, error) {
	n := &Node{
		mux:       cfg.Receiver,
		clock:     o.clock,
		store:     store.FromContext(ctx),
		inbox:     make(chan inboxEntry, inboxLength),
		large:     make(chan struct{}, maxLarge),
		strangers: make(chan struct{}, maxStrangers),
		refusals:  make(chan statemachine.Probe),
		claims:    make(chan claim, maxAsks),
		calls:     make(chan loopCall),
		relays:    make(chan message.Message),
		works:     works{limit: o.workers},
		done:      make(chan struct{}),
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
	err := n.prepareNode(ctx, cfg, o)
	if err == nil {
		n.net, err = n.openTransport(o)
	}
	if err == nil {
		n.messages = n.newMessenger()
		err = n.net.Start(inbound{n.messages, n})
	}
	if err != nil {
		return nil, errors.Join(err, n.closeUnstarted())
	}
	return n, nil
}

// prepareNode creates everything that needs no network.
func (n *Node) prepareNode(ctx context.Context, cfg Config, o options) (err error) {
	if n.cfg, err = cfg.parse(); err != nil {
		return err
	}
	n.log = diagnosis.NewLogger(o.logger, n.cfg.Name)
	n.volatile = n.store == nil && n.cfg.DataDir == ""
	if n.store == nil {
		if n.store, err = n.openStore(ctx); err != nil {
			return err
		}
	}
	if err := n.findSeeds(ctx, o.lookUpSRV); err != nil {
		return err
	}
	n.reporter = n.newReporter()
	durable, lastRun, err := n.beginRun(ctx)
	if err != nil {
		return err
	}
	n.started = n.clock()
	if err := n.newMachine(ctx, durable, lastRun); err != nil {
		return err
	}
	view := cloneView(n.machine.View(n.started))
	first := snapshot{votesAt: n.machine.VotesAt(), traits: n.machine.Traits()}
	n.snapshots.store(first.withView(view, durable.Held))
	n.hub.view, n.hub.size = view, n.cfg.Size
	n.steps.Limit = stepLimit(n.cfg.timings.Shorter(n.cfg.otherTimings))
	n.records = n.newRecords()
	n.terms.clock, n.terms.guard = n.clock, leaseGuard(n.cfg.timings)
	n.reporter.Start(n.started)
	err = n.mux.Start(receiver.Setup{
		Scan:       wire.Scan,
		Local:      localEvents,
		Report:     n.reporter.LogHandlerFailure,
		ReportSlow: n.reporter.LogSlowHandler,
		Context:    context.WithValue(context.Background(), nodeKey{}, n),
	})
	n.receives = err == nil
	return err
}

// srvTimeout bounds one lookup of SRV records.
const srvTimeout = 3 * time.Second

// maxSeedText bounds the seeds in a log line, whose names come from DNS.
const maxSeedText = 1024

func seedText(seeds []member.Address) string {
	return safetext.OneLine(fmt.Sprint(seeds), maxSeedText)
}

// lookUpSRV is the type of net.Resolver.LookupSRV.
type lookUpSRV func(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)

// findSeeds sets the seeds to the targets of the SRV records, if the configuration names such. A
// node that may found a cluster waits for the targets of all members: nodes that start together
// and know different seeds cannot found a cluster. With JoinOnly a node needs one other target. One
// that holds a roster needs none: the members of its roster are its seeds then.
func (n *Node) findSeeds(ctx context.Context, lookUp lookUpSRV) error {
	name, ok := n.cfg.srvName()
	if !ok {
		return nil
	}
	content, _, err := n.store.Load()
	if err != nil {
		return fmt.Errorf("cluster: cannot read the store: %w", err)
	}
	var roster []member.Address
	for _, m := range content.Durable.Held.Roster {
		roster = append(roster, m.Address)
	}
	least := n.cfg.Size
	if n.cfg.JoinOnly || len(roster) > 0 {
		least = 1
	}
	for before := ""; ; {
		n.cfg.seeds, err = lookUpTargets(ctx, lookUp, name, least, n.cfg.Size)
		if err == nil && n.cfg.JoinOnly && slices.Equal(n.cfg.seeds, []member.Address{n.cfg.self}) {
			err = fieldErrorf("Seeds", "%s has only the SRV record of this node, which may only join", name)
		}
		if err != nil && len(roster) > 0 {
			n.cfg.seeds = roster
		} else if err != nil {
			if err.Error() != before {
				n.log.Warn("waiting for the SRV records of the seeds", diagnosis.ErrAttr(err))
			}
			before = err.Error()
			select {
			case <-time.After(n.cfg.RetryInterval):
				continue
			case <-ctx.Done():
				return fmt.Errorf("cluster: %w: %w", err, context.Cause(ctx))
			}
		}
		n.log.Info("found the seeds", slog.String("seeds", seedText(n.cfg.seeds)),
			diagnosis.ErrAttr(err))
		return nil
	}
}

// lookUpTargets returns the sorted targets of SRV records, in lower case, since each resolver may
// return a name in another case. There must be least to most records.
func lookUpTargets(
	ctx context.Context, lookUp lookUpSRV, name string, least, most int,
) ([]member.Address, error) {
	ctx, cancel := context.WithTimeout(ctx, srvTimeout)
	defer cancel()
	_, records, err := lookUp(ctx, "", "", name)
	if fault, ok := errors.AsType[*net.DNSError](err); ok {
		err = errors.New(fault.Err) // without the port of the resolver, which differs each time
	}
	if err != nil {
		return nil, fieldErrorf("Seeds", "cannot look up the SRV records of %s: %w", name, err)
	}
	var targets []member.Address
	for _, r := range records {
		a := member.Address{Host: strings.ToLower(strings.TrimSuffix(r.Target, ".")), Port: r.Port}
		if !a.IsValid() {
			return nil, fieldErrorf("Seeds", "%s: the SRV record %q port %d is no address",
				name, r.Target, r.Port)
		}
		targets = append(targets, a)
	}
	slices.SortFunc(targets, member.Address.Compare)
	targets = slices.Compact(targets)
	if len(targets) < least || len(targets) > most {
		return nil, fieldErrorf("Seeds", "%s has %d SRV records, want one for each of the %d members",
			name, len(records), most)
	}
	return targets, nil
}

// newMachine creates the machine of this run.
func (n *Node) newMachine(ctx context.Context, d paxos.Durable, lastRun uint64) error {
	cfg := statemachine.Config{
		Address:  n.cfg.self,
		Name:     n.cfg.Name,
		Seeds:    n.cfg.seeds,
		Size:     n.cfg.Size,
		Timings:  n.cfg.timings,
		JoinOnly: n.cfg.JoinOnly,

		OtherTimings:        n.cfg.otherTimings,
		Traits:              member.Traits{Preference: n.cfg.Preference, Labels: n.cfg.labels},
		HandOverToPreferred: n.cfg.HandOverToPreferred,
		SeatTimeout:         n.cfg.SeatTimeout,

		TrustRefusal: n.cfg.TrustRefusal,
		Volatile:     n.volatile,
		LastRun:      lastRun,
		Clock:        uint64(time.Now().UnixMilli()),
		Rand:         newRand(),
		NewStore:     n.keys.newStore,
	}
	n.machine = statemachine.New(cfg, d, n.started)
	if n.recorder = diagnosis.FromContext(ctx); n.recorder == nil {
		return nil
	}
	return n.recorder.Begin(n.machine, cfg, n.started)
}

func (n *Node) newReporter() *diagnosis.Reporter {
	return diagnosis.New(diagnosis.Config{
		Log:              n.log,
		Self:             n.cfg.self,
		Seeds:            n.cfg.seeds,
		Size:             n.cfg.Size,
		JoinOnly:         n.cfg.JoinOnly,
		RetryInterval:    n.cfg.RetryInterval,
		HeartbeatTimeout: n.cfg.timings.Longer(n.cfg.otherTimings).HeartbeatTimeout,
		RosterLost:       ErrRosterLost,
	})
}

// leaseGuard returns how long before the end of its lease the work of a leader ends. In normal
// operation at least one HeartbeatInterval of a lease is always left. A lease lasts nine tenths of
// LeaseTimeout, more than three intervals (protocol.md section 1), and the echo that extends it is
// at most about two intervals old.
func leaseGuard(t message.Timings) time.Duration { return t.HeartbeatInterval / 2 }

// stepLimit is the smallest step of the wall clock that ends a lease. A lease has a margin of a
// tenth of LeaseTimeout. If a clock stopped for less than half of the margin, the other half is
// left for clocks that run at different rates.
func stepLimit(t message.Timings) time.Duration { return t.LeaseTimeout / 20 }

func newRand() *rand.Rand {
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	return rand.New(rand.NewChaCha8(seed))
}

// closeUnstarted closes everything that was opened for a node that never ran.
func (n *Node) closeUnstarted() error {
	var faults []error
	n.stop(ErrClosed) // a handler may already use the node
	switch ctx := context.Background(); {
	case n.messages != nil:
		faults = append(faults, n.messages.Close(ctx))
	case n.receives:
		faults = append(faults, n.mux.Close(ctx)) // so that the Mux can serve another node
	}
	if n.store != nil {
		faults = append(faults, n.store.Close())
	}
	return errors.Join(faults...)
}

// waitJoined blocks until this run of the node is an active member.
func (n *Node) waitJoined(ctx context.Context) error {
	for {
		s, changed := n.snapshots.watch()
		m := n.selfEntry(s.view, s.traits)
		if !s.view.Leader.IsZero() && m.Status == member.Active {
			return nil
		}
		select {
		case <-changed:
			continue
		case <-n.reporter.Hopeless():
			return n.joinError(errHopeless)
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if n.currentSnapshot().rosterLost {
				cause = fmt.Errorf("%w: %w", ErrRosterLost, cause)
			}
			return n.joinError(cause)
		case <-n.life.Done():
			return n.Err()
		}
	}
}

var errHopeless = errors.New("every other seed refused the connection")

// JoinError is the error of Start for a node that could not join.
type JoinError struct {
	Cause error // the cause of the context, or why Start gave up earlier
	Asked []Answer
}

// Answer is the last answer of another node to this node's request to join.
type Answer struct {
	From member.Address
	Err  error
}

func (n *Node) joinError(cause error) *JoinError {
	e := &JoinError{Cause: cause}
	for _, a := range n.reporter.ListAnswers() {
		e.Asked = append(e.Asked, Answer(a))
	}
	return e
}

// Error implements error.
func (e *JoinError) Error() string { return "cluster: " + e.Text(error.Error) }

// Text is like Error, but describes each answer with the text that the function answer returns.
func (e *JoinError) Text(answer func(error) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "could not join: %v", e.Cause)
	for _, a := range e.Asked {
		// A ConfigMismatchError has a line for each difference.
		fmt.Fprintf(&b, "\n\t%s: %s", a.From, strings.ReplaceAll(answer(a.Err), "\n", "\n\t\t"))
	}
	return b.String()
}

// Unwrap returns the cause and all answers.
func (e *JoinError) Unwrap() []error {
	all := []error{e.Cause}
	for _, a := range e.Asked {
		all = append(all, a.Err)
	}
	return all
}
