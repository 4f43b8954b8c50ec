// SPDX-License-Identifier: Apache-2.0

package cluster

import "context"

// nodeKey is the key of the node in the contexts of its handlers.
type nodeKey struct{}

// FromContext returns the node whose handler runs with ctx, or with a context made from
// it. In handlers of Config.Receiver it is never nil, also before Start has returned the
// node. Elsewhere it is nil.
func FromContext(ctx context.Context) *Node {
	n, _ := ctx.Value(nodeKey{}).(*Node)
	return n
}
