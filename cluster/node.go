// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/clock"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/internal/records"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
)

// Node is a running member of a cluster. Its methods may be called from any
// goroutine, except Leave and Close from a handler of its own receiver.
type Node struct {
	cfg      settings
	log      *slog.Logger
	clock    func() time.Time
	steps    clock.StepWatch // of the loop alone
	started  time.Time       // on clock
	store    store.Store
	volatile bool // store forgets everything at the end of the process
	net      *mesh.Mesh
	mux      *receiver.Mux
	receives bool             // mux was started for this node
	identity *tlsfiles.Source // the certificate; nil if it does not come from files

	machine  *statemachine.Machine // of the loop alone
	inbox    chan arrival
	large    chan struct{}           // one entry a large event that is decoded or waits
	refusals chan statemachine.Probe // hosts that refuse the port of a leader
	calls    chan call

	messages *messaging.Messenger

	seen      cell[sight]
	terms     terms
	candidate *leader.Candidate // of WhileLeader
	records   *records.Table
	hub       hub
	observer  *observe.Observer
	drained   atomic.Bool
	work      sync.WaitGroup // goroutines besides the loop

	life     context.Context         // done when the node begins to end
	stop     context.CancelCauseFunc // ends life; only the first cause counts
	done     chan struct{}           // closed when nothing of the node runs
	closeErr error                   // of shutdown; set before done is closed
}

// sight is what a node sees, published as one.
type sight struct {
	view member.View // shared by all readers: nobody changes its members
	// members are those of the view, to find one at once.
	members map[member.Address]*member.Member
	active  bool    // this node is
	term    *tenure // the newest, ended or not; nil before the first
	held    member.State
	// provisional says that the leader of the view declared itself: nobody has
	// chosen it.
	provisional bool
	votesAt     time.Time // from when on the node votes for anybody
	rosterLost  bool      // the held roster can never elect a leader again
}

// seeing is the sight of a view, with what the node holds.
func (s sight) seeing(view member.View, held member.State) sight {
	s.view, s.held = view, held
	s.members = make(map[member.Address]*member.Member, len(view.Members))
	self, _ := view.Member(view.Self.Address)
	s.active = self.Status == member.Active
	for i := range view.Members {
		s.members[view.Members[i].Address] = &view.Members[i]
	}
	s.provisional = view.Role == member.Provisional || view.Role == member.Following &&
		(held.Leader != view.Leader || held.Version != view.Version)
	return s
}

// isActive reports whether a member is active.
func (s *sight) isActive(addr member.Address) bool {
	m := s.members[addr]
	return m != nil && m.Status == member.Active
}

// live is the present tenure, nil if there is none.
func (s *sight) live() *tenure {
	if s.term == nil || s.term.Ended() {
		return nil
	}
	return s.term
}

// look is what the node sees now, which does not change.
func (n *Node) look() *sight {
	if s := n.seen.latest.Load(); s != nil {
		return s
	}
	return &sight{} // before the node is prepared
}

// Self is the entry of this run of the node. Its status is None until a leader took
// it.
func (n *Node) Self() member.Member { return n.self(n.look().view) }

func (n *Node) self(v member.View) member.Member {
	if m, ok := v.Member(v.Self.Address); ok && m.Identity == v.Self {
		return m
	}
	return member.Member{
		Identity: v.Self,
		Name:     n.cfg.Name,
		Seed:     slices.Contains(n.cfg.seeds, n.cfg.self),
	}
}

// View is what the node sees now, a value of its own.
func (n *Node) View() member.View { return clone(n.look().view) }

// Members lists the members of the view in every status, sorted by address.
func (n *Node) Members() []member.Member { return n.View().Members }

// Events yields the present view as a Snapshot, then each change, until ctx
// ends or the node closes. At most 256 events wait for a slow reader;
// one that is slower gets Lagged and a new Snapshot. Nobody waits for it.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] {
	return n.hub.events(ctx, n.life.Done())
}

// WaitActive blocks until a quorate leader has at least count active members.
// Those of a provisional leader do not count: what it shows may end when one is
// chosen.
func (n *Node) WaitActive(ctx context.Context, count int) error {
	for {
		seen, changed := n.seen.get()
		active := seen.view.Members.Count(member.Active)
		quorate := seen.live() != nil
		if quorate && active >= count {
			return nil
		}
		err := n.wait(ctx, changed)
		switch {
		case err != nil && quorate:
			return fmt.Errorf("cluster: %d members active, not %d: %w", active, count, err)
		case err != nil:
			return n.noQuorum(err)
		}
	}
}

// wait blocks until changed is closed. The end of ctx or of the node is an
// error, and comes first when both are so.
func (n *Node) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
	case <-ctx.Done():
	case <-n.life.Done():
	}
	return cmp.Or(n.Err(), context.Cause(ctx))
}

// Transfer hands leadership over to a member, or to any that can lead when to is zero,
// and blocks until another leader is quorate or ctx ends. The work of WhileLeader is ended
// first. If the named member does not answer for a HeartbeatInterval, another one that does
// leads in its place: View names the leader. Errors: *NotLeaderError, ErrNotActive,
// ErrNotElected.
func (n *Node) Transfer(ctx context.Context, to member.Address) error {
	seen := n.look()
	view := seen.view
	if view.Role != member.Leading {
		return notLeader(seen)
	}
	if err := successor(view, to); err != nil {
		return err
	}
	err := n.handOver(ctx, func(now time.Time) (statemachine.Output, error) {
		return n.machine.Transfer(now, to)
	})
	switch {
	case errors.Is(err, statemachine.ErrNotLeader):
		return notLeader(n.look())
	case errors.Is(err, statemachine.ErrNotActive) && !to.IsZero():
		return fmt.Errorf("%w: %s is drained, or has not answered this leader yet", ErrNotActive, to)
	case errors.Is(err, statemachine.ErrNotActive):
		return notSuccessor(to)
	case err != nil:
		return err
	}
	return n.waitOther(ctx, view.Version)
}

func notLeader(seen *sight) error {
	return &NotLeaderError{Leader: seen.view.Leader, Provisional: seen.provisional}
}

// handOver runs a verb that gives leadership up, once the work of the leader
// has ended or had its time to.
func (n *Node) handOver(
	ctx context.Context, verb func(now time.Time) (statemachine.Output, error),
) error {
	resume := n.terms.handOver(ctx)
	defer resume()
	return n.do(ctx, verb)
}

// successor checks who is to lead before anything is given up.
func successor(view member.View, to member.Address) error {
	for _, m := range view.Members {
		if m.Status == member.Active && m.Address != view.Self.Address &&
			(to.IsZero() || m.Address == to) {
			return nil
		}
	}
	return notSuccessor(to)
}

func notSuccessor(to member.Address) error {
	if to.IsZero() {
		return fmt.Errorf("%w: no other member is ready to lead", ErrNotActive)
	}
	return fmt.Errorf("%w: %s cannot take over", ErrNotActive, to)
}

// waitOther blocks until another member is the quorate leader, or this node is
// it again with a later version than the one given up.
func (n *Node) waitOther(ctx context.Context, given uint64) error {
	for {
		seen, changed := n.seen.get()
		switch t := seen.live(); {
		case t != nil && !t.own:
			return nil
		case t != nil && t.version > given:
			return ErrNotElected
		}
		if err := n.wait(ctx, changed); err != nil {
			if t := n.look().live(); t != nil && t.own {
				return fmt.Errorf("%w: %w", notSuccessor(member.Address{}), err)
			}
			return n.noQuorum(err)
		}
	}
}

// noQuorum is the error of a wait for a leader that ended with err.
func (n *Node) noQuorum(err error) error {
	return fmt.Errorf("%w: %w", n.leaderlessCause(), err)
}

// leaderlessCause is why there is no quorate leader, as far as that is known.
func (n *Node) leaderlessCause() error {
	if n.look().rosterLost {
		return fmt.Errorf("%w: %w", ErrNoQuorum, ErrRosterLost)
	}
	return ErrNoQuorum
}

// Drain lets other members lead for the rest of this run. A leader hands over first; Drain
// then blocks until another leader is quorate or ctx ends. A drained node leads only if no
// other member can: it leads on, or is elected once there was no leader for 2 x
// LeaderTimeout, and hands over as soon as another member can lead.
func (n *Node) Drain(ctx context.Context) error {
	view := n.look().view
	n.drained.Store(true)
	err := n.handOver(ctx, func(now time.Time) (statemachine.Output, error) {
		return n.machine.Drain(now), nil
	})
	if err != nil || view.Role != member.Leading {
		return err
	}
	return n.waitOther(ctx, view.Version)
}

// Leave takes the node out of the cluster in order, which takes at most about
// LeaderTimeout, and closes it. When ctx ends first, the node is closed all the
// same, and the others notice by its silence.
func (n *Node) Leave(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, n.terms.guard)
	n.records.CloseLeases(limited, ErrLeft)
	cancel()
	err := n.handOver(ctx, func(now time.Time) (statemachine.Output, error) {
		return n.machine.Leave(now), nil
	})
	if err == nil {
		select {
		case <-n.life.Done():
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	n.stop(ErrClosed)
	<-n.done
	switch {
	case errors.Is(n.Err(), ErrLeft):
		return n.closeErr
	case err != nil:
		return fmt.Errorf("cluster: closed before the node had left: %w", err)
	default:
		return n.Err()
	}
}

// Close stops the node at once, without a word to the others, and blocks until
// nothing of it runs. It returns what went wrong on the way, such as a handler
// that does not return. Calls after the first return the same.
func (n *Node) Close() error {
	n.stop(ErrClosed)
	<-n.done
	return n.closeErr
}

// Done is closed when the node has ended, by Close, Leave or a fault, and
// nothing of it runs any more.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the node ends or has ended: ErrClosed, ErrLeft, or the fault that
// stopped it. It is nil while the node runs.
func (n *Node) Err() error { return context.Cause(n.life) }
