// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Transfer hands over leadership to the given member, or, for the zero Address, to any that can
// lead. It first ends the work of WhileLeader, then blocks until another leader is quorate or ctx
// is done. If the member does not answer within a HeartbeatInterval, another one may lead instead:
// View shows the leader. The error is a *NotLeaderError, ErrNotActive, ErrNotElected, or
// ErrNoQuorum with the cause of ctx.
func (n *Node) Transfer(ctx context.Context, to member.Address) error {
	s := n.currentSnapshot()
	if s.view.Role != member.Leading {
		return notLeaderError(s)
	}
	if err := checkSuccessor(s.view, to); err != nil {
		return err
	}
	err := n.handOver(ctx, func(now time.Time) (statemachine.Output, error) {
		return n.machine.Transfer(now, to)
	})
	switch {
	case errors.Is(err, statemachine.ErrNotLeader):
		return notLeaderError(n.currentSnapshot())
	case errors.Is(err, statemachine.ErrNotActive) && !to.IsZero():
		return fmt.Errorf("%w: %s is drained, never leads, or has not answered this leader yet",
			ErrNotActive, to)
	case errors.Is(err, statemachine.ErrNotActive):
		return successorError(to)
	case err != nil:
		return err
	}
	return n.waitOtherLeader(ctx, s.view.Version)
}

// Drain leaves leadership to the other members for the rest of this run. If the node leads, it
// hands over, and Drain blocks until another leader is quorate or ctx is done. A drained node leads
// only if no other member can: it keeps leading, or is elected after 2 x LeaderTimeout without a
// leader. It hands over as soon as another member can lead. Prefer undoes it.
func (n *Node) Drain(ctx context.Context) error {
	view := n.currentSnapshot().view
	err := n.handOver(ctx, n.drainMachine)
	if err != nil || view.Role != member.Leading {
		return err
	}
	return n.waitOtherLeader(ctx, view.Version)
}

func (n *Node) drainMachine(now time.Time) (statemachine.Output, error) {
	n.drained.Store(true)
	return n.machine.Drain(now), nil
}

// Prefer replaces Config.Preference for the rest of this run, and undoes Drain. All members learn
// the preference from the leader, even after the leader changes. If the preference is
// member.NeverLeads and this node leads, it hands over the leadership. Prefer then blocks until
// another leader is quorate or ctx is done. The node leads until another member can lead. An
// invalid p is a *FieldError.
func (n *Node) Prefer(ctx context.Context, p member.Preference) error {
	if err := checkPreference(p, n.cfg.Size); err != nil {
		return fieldErrorf("Preference", "%w", err)
	}
	view := n.currentSnapshot().view
	set := func(now time.Time) (statemachine.Output, error) {
		n.drained.Store(false)
		return n.machine.Prefer(now, p), nil
	}
	if p != member.NeverLeads || view.Role != member.Leading {
		return n.runInLoop(ctx, set)
	}
	if err := n.handOver(ctx, set); err != nil {
		return err
	}
	return n.waitOtherLeader(ctx, view.Version)
}

// SetLabels replaces Config.Labels for the rest of this run. The members learn the labels from the
// leader. MemberChanged reports them on each node, including this node.
func (n *Node) SetLabels(ctx context.Context, labels map[string]string) error {
	l, err := member.NewLabels(labels)
	if err != nil {
		return err
	}
	return n.runInLoop(ctx, func(now time.Time) (statemachine.Output, error) {
		return n.machine.SetLabels(now, l), nil
	})
}

// ReleaseSeats removes the seats of members that left, which otherwise keep them for SeatTimeout,
// until the cluster has keep members, or until no such seat is left because a waiting node got it.
// It blocks until all members hold that state, or until ctx is done; the leader then continues. The
// node must lead, and must hear a majority of Size without those that left. Afterwards, athena
// resize can make the cluster smaller, or a node at another address can join. The error is a
// *NotLeaderError, or a *FieldError if keep is less than a majority of Size or than the number of
// members that are neither leaving nor removed.
func (n *Node) ReleaseSeats(ctx context.Context, keep int) error {
	if least := member.Quorum(n.cfg.Size); keep < least {
		return fieldErrorf("keep", "%d: the least is %d, a majority of %d", keep, least, n.cfg.Size)
	}
	s := n.currentSnapshot()
	if s.view.Role != member.Leading {
		return notLeaderError(s)
	}
	if err := n.checkLeft(s.view, keep); err != nil {
		return err
	}
	for {
		done := false
		err := n.runInLoop(ctx, func(now time.Time) (out statemachine.Output, err error) {
			out, done, err = n.machine.ReleaseSeats(now, keep)
			return out, err
		})
		switch {
		case errors.Is(err, statemachine.ErrNotLeader):
			return notLeaderError(n.currentSnapshot())
		case err != nil || done:
			return err
		}
		select {
		case <-time.After(n.cfg.HeartbeatInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.life.Done():
			return n.Err()
		}
	}
}

// checkLeft returns an error unless all members but keep have left.
func (n *Node) checkLeft(view member.View, keep int) error {
	var stay []string
	for _, m := range view.Members {
		if m.Status != member.Leaving && m.Status != member.Removed {
			stay = append(stay, fmt.Sprintf("%s (%v)", m.Address, m.Status))
		}
	}
	if len(stay) <= keep {
		return nil
	}
	return fieldErrorf("keep", "%d: %d members have not left: %s: stop those that go, and repeat "+
		"this once they are removed, soon after an orderly stop or %v after they fell silent", keep,
		len(stay), safetext.OneLine(strings.Join(stay, ", "), maxStayText), n.cfg.TTLTimeout)
}

// maxStayText bounds the members in an error of ReleaseSeats.
const maxStayText = 1024

// Leave removes the node from the cluster gracefully and closes it. It ends all terms of the node
// and waits until their functions have returned. Only then can other members get its locks, and
// lead its jobs and shards and the cluster. Leaving itself takes at most about LeaderTimeout.
//
// If ctx is done while functions still run, the node leaves without them, and Leave returns an
// error that wraps the cause of ctx; such functions must rely on their tokens. If ctx is done
// later, the node is closed, and the other members detect its silence. A function of a term that
// calls Leave must pass its own context; otherwise Leave waits for it until ctx is done.
func (n *Node) Leave(ctx context.Context) error {
	running := n.endWork(ctx)
	if n.life.Err() != nil {
		running = nil // the node has stopped for another reason
	} else if running != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), n.cfg.LeaderTimeout+closeTimeout)
		defer cancel()
	}
	err := n.runInLoop(ctx, func(now time.Time) (statemachine.Output, error) {
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
	case errors.Is(n.Err(), ErrLeft) && running != nil:
		return fmt.Errorf("cluster: left while functions of its terms were still running: %w", running)
	case errors.Is(n.Err(), ErrLeft):
		return n.closeErr
	case err != nil:
		return fmt.Errorf("cluster: closed before the node had left: %w", err)
	default:
		return n.Err()
	}
}

// endWork ends all terms of this node and waits until their functions have returned. No term of
// this node begins afterwards. Functions that hold records do not need the leadership of the
// cluster: while only they run, the node hands it over. If ctx is done or the node stops while
// functions run, endWork returns the cause.
func (n *Node) endWork(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.life, func() { cancel(n.Err()) })()
	n.terms.beginHandOver()
	waitLeases := n.records.EndLeases(ErrLeft)
	if err := n.terms.waitOwnTerm(ctx); err != nil {
		return err
	}
	soon, stop := context.WithTimeout(ctx, n.terms.guard)
	defer stop()
	if waitLeases(soon) == nil {
		return nil
	}
	_ = n.runInLoop(ctx, n.drainMachine) // fails only if ctx is done
	return waitLeases(ctx)
}

// handOver ends this node's term, waits for the functions that run under it, and then calls the
// given function, which gives up leadership. If ctx is already done, it changes nothing.
func (n *Node) handOver(
	ctx context.Context, verb func(now time.Time) (statemachine.Output, error),
) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	resume := n.terms.endOwnTerm(ctx)
	defer resume()
	return n.runInLoop(ctx, verb)
}

func notLeaderError(s *snapshot) error {
	return &NotLeaderError{Leader: s.view.Leader, Provisional: s.provisional}
}

// checkSuccessor returns an error if the given member cannot lead or, for the zero address, if no
// other member can lead. It must be called before the node gives up anything.
func checkSuccessor(view member.View, to member.Address) error {
	for _, m := range view.Members {
		if m.Status == member.Active && m.Address != view.Self.Address &&
			(to.IsZero() || m.Address == to) {
			return nil
		}
	}
	return successorError(to)
}

func successorError(to member.Address) error {
	if to.IsZero() {
		return fmt.Errorf("%w: no other member is ready to lead", ErrNotActive)
	}
	return fmt.Errorf("%w: %s cannot take over", ErrNotActive, to)
}

// waitOtherLeader blocks until another member is the quorate leader. The error is ErrNotElected if
// this node leads again, with a later version than before.
func (n *Node) waitOtherLeader(ctx context.Context, given uint64) error {
	for {
		s, changed := n.snapshots.watch()
		switch t := s.liveTerm(); {
		case t != nil && !t.own:
			return nil
		case t != nil && t.version > given:
			return ErrNotElected
		}
		if err := n.waitChange(ctx, changed); err != nil {
			if t := n.currentSnapshot().liveTerm(); t != nil && t.own {
				return fmt.Errorf("%w: %w", successorError(member.Address{}), err)
			}
			return n.noQuorumError(err)
		}
	}
}

// noQuorumError returns the error of a wait for a leader that ended with err.
func (n *Node) noQuorumError(err error) error {
	return fmt.Errorf("%w: %w", n.leaderlessError(), err)
}

// leaderlessError returns why there is no quorate leader, as far as this node knows.
func (n *Node) leaderlessError() error {
	if n.currentSnapshot().rosterLost {
		return fmt.Errorf("%w: %w", ErrNoQuorum, ErrRosterLost)
	}
	return ErrNoQuorum
}
