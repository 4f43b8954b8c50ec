// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Request sends req to an active member, which may be this node, and blocks until the handler has
// answered, ctx is done, or the member is lost. The handler is the one registered with
// receiver.HandleRequest for the type of req. Its context has the deadline of ctx and is canceled
// with ctx. Without a deadline, a handler that hangs blocks Request while the member is active. If
// no handler gets free for 5 s, the error is ErrBusy. In a handler, pass its context: see Send.
//
// At most one handler runs, and at most once. The error shows whether the handler ran:
//
//   - ErrNotActive, ErrTooLarge, ErrBusy, ErrNotDelivered, ErrClosed: the handler did not run, and
//     the request can be repeated.
//   - ErrUnknownType: the handler did not run. The type of req or Resp cannot be sent, or the
//     member has no handler for the request.
//   - *HandlerError: the handler ran and failed.
//   - ErrBadAnswer: the handler ran, and its answer is lost.
//   - ErrUnknownOutcome: the handler may have run and may still run. The error wraps the cause of
//     ctx if ctx is done.
//
// If ctx is already done, Request returns its cause and sends nothing.
func Request[Resp any](
	ctx context.Context, n *Node, to member.Address, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	err := n.messages.Request(ctx, to, req, &resp, newSendOptions(opts).Options)
	return resp, err
}

// RequestLeader is like Request, but sends the request to the quorate leader. It waits for a leader
// until ctx is done. If that leader is lost or replaced before its handler has run, RequestLeader
// sends the request to the next one. A member without authority refuses the request; the handler
// can guard its writes to other systems with the token of Node.Leader, if that term is Valid.
// RequestLeader repeats a request whose outcome is unknown only with Idempotent. The errors are
// those of Request, and ErrNoQuorum with the cause of ctx if there was no leader.
func RequestLeader[Resp any](
	ctx context.Context, n *Node, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	err := n.messages.RequestLeader(ctx, req, &resp, newSendOptions(opts).Options)
	return resp, err
}

// RequestShard is like RequestLeader, but sends the request to the owner of the shard of a key.
// shards is an *election.Shards. The handler is the one registered with election.HandleShard, which
// runs only in the owner and gets the term of the shard. RequestShard waits for an owner, over each
// move of the shard, until ctx is done. The errors are those of Request; ErrNotDelivered with the
// cause of ctx means that the shard had no owner, or no owner took the request.
func RequestShard[Resp any](
	ctx context.Context, n *Node,
	shards interface {
		Owner(key string) (shard int, owner leader.Holder, ok bool)
	},
	key string, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	watched, stop := context.WithCancel(ctx)
	defer stop()
	owner := func() (member.Address, error) {
		shard, owner, ok := shards.Owner(key)
		if !ok {
			return member.Address{}, fmt.Errorf("shard %d has no owner", shard)
		}
		return member.ParseAddress(owner.ID)
	}
	err := n.messages.RequestOwner(ctx, owner, n.records.Watch(watched, ""), req, &resp,
		newSendOptions(opts).Options)
	return resp, err
}
