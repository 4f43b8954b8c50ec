// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// resignTimeout is how long a leader that resigned waits for another leader.
const resignTimeout = 5 * time.Second

// Candidate returns a candidate for the leadership of the cluster. A node may have several: they
// all lead while the node leads, and if one resigns, the node hands leadership over. At most one
// member leads at any time, and no member leads without a majority. The token of a term is the
// version of the leader.
//
// Resign and Close wait until another member leads, but at most five seconds. Close returns
// immediately if no other member can lead.
func (n *Node) Candidate(o leader.Options) *leader.Candidate {
	return leader.New(n.life, candidateSource{n}, o)
}

// WhileLeader runs fn whenever this node is the leader with authority; see
// leader.Candidate.WhileLeader.
func (n *Node) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	return n.candidate.WhileLeader(ctx, fn)
}

// Leader returns the term of the quorate leader, or false if this node knows no quorate leader.
// Only View shows a provisional leader.
func (n *Node) Leader() (leader.Term, bool) {
	t := n.currentSnapshot().liveTerm()
	if t == nil {
		return leader.Term{}, false
	}
	return t.Term(), true
}

// WaitLeader blocks until there is a quorate leader. If ctx is done first, the error wraps
// ErrNoQuorum and the cause of ctx, and also ErrRosterLost if no leader can ever be elected.
func (n *Node) WaitLeader(ctx context.Context) (leader.Term, error) {
	t, err := n.waitTerm(ctx)
	if err != nil {
		return leader.Term{}, err
	}
	return t.Term(), nil
}

func (n *Node) waitTerm(ctx context.Context) (*clusterTerm, error) {
	for {
		s, changed := n.snapshots.watch()
		if t := s.liveTerm(); t != nil {
			return t, nil
		}
		if err := n.waitChange(ctx, changed); err != nil {
			return nil, n.noQuorumError(err)
		}
	}
}

// Terms yields the newest term and each later one, until ctx is done or the node stops. A slow
// reader may miss terms, but never the last one. Term.Done reports the end of a term.
func (n *Node) Terms(ctx context.Context) iter.Seq[leader.Term] {
	return func(yield func(leader.Term) bool) {
		var last *clusterTerm
		for {
			s, changed := n.snapshots.watch()
			if s.term != last {
				last = s.term
				if !yield(last.Term()) {
					return
				}
				continue
			}
			if n.waitChange(ctx, changed) != nil {
				return
			}
		}
	}
}

// candidateSource implements leader.Source for the leadership of the cluster.
type candidateSource struct{ node *Node }

func (c candidateSource) State() (leader.State, <-chan struct{}) {
	snapshot, changed := c.node.snapshots.watch()
	s := leader.State{Why: c.node.leaderlessError()}
	if snapshot.term != nil {
		s.Term = snapshot.term.Term()
	}
	return s, changed
}

// Resign keeps the term if the work failed and no other member can lead, because other work may be
// running under it.
func (c candidateSource) Resign(t leader.Term, failed error, _ time.Duration) error {
	n, version := c.node, t.Token().Version
	alone := checkSuccessor(n.currentSnapshot().view, member.Address{})
	if failed != nil {
		n.log.Warn("the leader's work failed; yielding leadership",
			diagnosis.ErrAttr(failed), slog.Uint64("version", version))
		if alone != nil {
			return n.logYieldFailed(alone, version)
		}
	}
	ctx, cancel := context.WithTimeout(n.life, resignTimeout)
	defer cancel()
	resume, ok := n.terms.resignTerm(ctx, t)
	if !ok {
		return nil // the term has ended
	}
	if alone == nil {
		alone = n.runInLoop(ctx, func(now time.Time) (statemachine.Output, error) {
			return n.machine.Transfer(now, member.Address{})
		})
	}
	resume()
	err := alone
	if err == nil {
		err = n.waitOtherLeader(ctx, version)
	}
	if err != nil && failed != nil {
		return n.logYieldFailed(err, version)
	}
	return nil
}

func (n *Node) logYieldFailed(err error, version uint64) error {
	n.log.Warn("could not yield leadership", diagnosis.ErrAttr(err), slog.Uint64("version", version))
	return err
}

// Close hands over leadership if another member can lead.
func (c candidateSource) Close(ctx context.Context) error {
	if t := c.node.currentSnapshot().liveTerm(); t == nil || !t.Term().Valid() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, resignTimeout)
	defer cancel()
	_ = c.node.Transfer(limited, member.Address{})
	return context.Cause(ctx)
}
