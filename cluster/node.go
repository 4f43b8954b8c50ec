// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"iter"

	"github.com/athena-go/athena/member"
)

// Node is a running member of a cluster. All methods may be called from any
// goroutine, except Leave and Close from a handler of its own receiver.
type Node struct{}

// Start validates the configuration, listens, and returns once the node is an
// active member or leads. ctx bounds only that: when it ends first, the error
// says whom the node asked and what they said. Nothing runs after an error.
func Start(ctx context.Context, cfg Config, opts ...Option) (*Node, error) { return nil, ErrClosed }

// Self is the node's own entry.
func (n *Node) Self() member.Member { return member.Member{} }

// View is what the node sees now, a value of its own.
func (n *Node) View() member.View { return member.View{} }

// Members lists the members of the view in every status, sorted by address.
func (n *Node) Members() []member.Member { return nil }

// Status is what monitoring wants to know.
func (n *Node) Status() Status { return Status{} }

// Leader is the term of the quorate leader; false when there is none.
func (n *Node) Leader() (Term, bool) { return Term{}, false }

// WaitLeader blocks until there is a quorate leader.
func (n *Node) WaitLeader(ctx context.Context) (Term, error) { return Term{}, ErrClosed }

// WaitActive blocks until at least count members are active.
func (n *Node) WaitActive(ctx context.Context, count int) error { return ErrClosed }

// Events yields the present view, then each change, until ctx ends or the node
// closes. A reader that falls behind gets Lagged and the view again.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] { return func(func(Event) bool) {} }

// Terms yields the present term and each later one until ctx ends or the node
// closes. A slow reader misses terms in between, never the last.
func (n *Node) Terms(ctx context.Context) iter.Seq[Term] { return func(func(Term) bool) {} }

// WhileLeader runs fn whenever this node is the quorate leader, and only then.
func (n *Node) WhileLeader(ctx context.Context, fn func(context.Context, Term) error) error {
	return ErrClosed
}

// Send gives event to one active member. A nil error says that the connection
// took it; it blocks while the member's handlers are slow.
func (n *Node) Send(ctx context.Context, to member.Address, event any) error { return ErrClosed }

// BroadcastOption changes one Broadcast.
type BroadcastOption func(*broadcastOptions)

type broadcastOptions struct{ self bool }

// WithSelf delivers the event to this node's receiver as well.
func WithSelf() BroadcastOption { return func(o *broadcastOptions) { o.self = true } }

// Broadcast gives event to all active members but this one. The error joins
// those of the members that did not get it.
func (n *Node) Broadcast(ctx context.Context, event any, opts ...BroadcastOption) error {
	return ErrClosed
}

// Transfer hands leadership over to a member, or to the best one when to is
// nobody. It blocks until another leader is quorate. *NotLeaderError says that
// this node does not lead.
func (n *Node) Transfer(ctx context.Context, to member.Address) error { return ErrClosed }

// Drain keeps the node a member that never leads in this run; a leader hands
// over first.
func (n *Node) Drain(ctx context.Context) error { return ErrClosed }

// Leave takes the node out of the cluster in order and closes it. When ctx
// ends first, the node is closed all the same.
func (n *Node) Leave(ctx context.Context) error { return ErrClosed }

// Close stops the node at once, without telling the others. Nothing of it is
// left running. It may be called more than once.
func (n *Node) Close() error { return nil }

// Done is closed when the node has ended, by Close, Leave or a fault.
func (n *Node) Done() <-chan struct{} { return nil }

// Err is why the node ended: nil while it runs, ErrClosed, ErrLeft, or the
// fault that stopped it.
func (n *Node) Err() error { return nil }
