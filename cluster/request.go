// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/athena-go/athena/member"
)

// Request asks an active member, which may be this node, and blocks until its handler
// has answered, ctx ends, or the connection is lost. The handler is one of
// receiver.HandleRequest for the type of req. It gets the deadline of ctx, and its
// context ends when ctx does. If ctx has no deadline, a handler that hangs keeps Request
// waiting.
//
// At most one handler runs, once. The error tells which:
//
//   - ErrNotActive, ErrTooLarge, ErrBusy, ErrNotDelivered, ErrClosed: none ran, and the
//     request can be repeated.
//   - ErrUnknownType: none ran. The type cannot be encoded, or the member has no handler
//     for it.
//   - *HandlerError: it ran and failed.
//   - ErrBadAnswer: it ran, and its answer is lost.
//   - ErrUnknownOutcome: it may have run, or still runs. The error wraps the cause of ctx
//     if that ended.
//
// If ctx is already done, Request returns its cause and sends nothing.
func Request[Resp any](
	ctx context.Context, n *Node, to member.Address, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	err := n.messages.Request(ctx, to, req, &resp, newSendOptions(opts).Options)
	return resp, err
}

// RequestLeader is Request to the quorate leader. A member that has no authority when
// the request arrives refuses it; the handler can guard what it writes elsewhere with the
// token of its Term. RequestLeader waits for a leader. If a leader was lost or replaced
// before its handler ran, it asks the next one, until ctx ends. An unknown outcome is an
// error: it never asks again then. Errors: those of Request, and ErrNoQuorum with the
// cause of ctx if there was no leader.
func RequestLeader[Resp any](
	ctx context.Context, n *Node, req any, opts ...SendOption,
) (Resp, error) {
	var resp Resp
	err := n.messages.RequestLeader(ctx, req, &resp, newSendOptions(opts).Options)
	return resp, err
}
