// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

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
