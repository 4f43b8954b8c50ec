// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// resignTimeout bounds how long a leader that resigned waits for another one.
const resignTimeout = 5 * time.Second

// Candidate makes a candidate for the leadership of the cluster. A node may have several:
// they all lead while the node does, and if one of them resigns, the node hands leadership
// over. At most one member leads at any moment, and none without a majority. The token of
// a term is the version of the leader.
//
// Resign and Close wait until another member leads, for five seconds at most; Close returns
// at once if no other member can lead.
func (n *Node) Candidate(o leader.Options) *leader.Candidate {
	return leader.New(n.life, candidacy{n}, o)
}

// WhileLeader runs fn whenever this node is the leader with authority, as
// leader.Candidate.WhileLeader does.
func (n *Node) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	return n.candidate.WhileLeader(ctx, fn)
}

// Leader is the term of the quorate leader; false when there is none as far as
// this node knows. A provisional leader shows only in View.
func (n *Node) Leader() (leader.Term, bool) {
	t := n.look().live()
	if t == nil {
		return leader.Term{}, false
	}
	return t.Term(), true
}

// WaitLeader blocks until there is a quorate leader. When ctx ends first, the
// error is ErrNoQuorum, with ErrRosterLost where that is so, and the cause of
// ctx.
func (n *Node) WaitLeader(ctx context.Context) (leader.Term, error) {
	t, err := n.waitTenure(ctx)
	if err != nil {
		return leader.Term{}, err
	}
	return t.Term(), nil
}

func (n *Node) waitTenure(ctx context.Context) (*tenure, error) {
	for {
		seen, changed := n.seen.get()
		if t := seen.live(); t != nil {
			return t, nil
		}
		if err := n.wait(ctx, changed); err != nil {
			return nil, n.noQuorum(err)
		}
	}
}

// Terms yields the newest term and each later one, until ctx ends or the node
// closes. A slow reader misses terms in between, never the last. A term that is
// over when it is read shows so by Done.
func (n *Node) Terms(ctx context.Context) iter.Seq[leader.Term] {
	return func(yield func(leader.Term) bool) {
		var last *tenure
		for {
			seen, changed := n.seen.get()
			if seen.term != last {
				last = seen.term
				if !yield(last.Term()) {
					return
				}
				continue
			}
			if n.wait(ctx, changed) != nil {
				return
			}
		}
	}
}

// candidacy is the leadership of the cluster as a leader.Source.
type candidacy struct{ node *Node }

func (c candidacy) State() (leader.State, <-chan struct{}) {
	seen, changed := c.node.seen.get()
	s := leader.State{Why: c.node.leaderlessCause()}
	if seen.term != nil {
		s.Term = seen.term.Term()
	}
	return s, changed
}

// Resign keeps the term if the work failed and no other member can lead: other work may
// run under it.
func (c candidacy) Resign(t leader.Term, failed error, _ time.Duration) error {
	n, version := c.node, t.Token().Version
	alone := successor(n.look().view, member.Address{})
	if failed != nil {
		n.log.Warn("work of the leader failed, yielding",
			observe.ErrAttr(failed), slog.Uint64("version", version))
		if alone != nil {
			return n.cannotYield(alone, version)
		}
	}
	ctx, cancel := context.WithTimeout(n.life, resignTimeout)
	defer cancel()
	resume, ok := n.terms.giveUp(ctx, t)
	if !ok {
		return nil // the term is over
	}
	if alone == nil {
		alone = n.do(ctx, func(now time.Time) (statemachine.Output, error) {
			return n.machine.Transfer(now, member.Address{})
		})
	}
	resume()
	err := alone
	if err == nil {
		err = n.waitOther(ctx, version)
	}
	if err != nil && failed != nil {
		return n.cannotYield(err, version)
	}
	return nil
}

func (n *Node) cannotYield(err error, version uint64) error {
	n.log.Warn("could not yield leadership", observe.ErrAttr(err), slog.Uint64("version", version))
	return err
}

// Close hands leadership over if another member can take it.
func (c candidacy) Close(ctx context.Context) error {
	if t := c.node.look().live(); t == nil || !t.Term().Valid() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, resignTimeout)
	defer cancel()
	_ = c.node.Transfer(limited, member.Address{})
	return context.Cause(ctx)
}
