// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// newMessenger makes what carries the messages of this node. The transport must be open.
func (n *Node) newMessenger() *messaging.Messenger {
	return messaging.New(messaging.Config{
		Node:              membership{n},
		Self:              n.cfg.self,
		Mux:               n.mux,
		Net:               n.net,
		HeartbeatInterval: n.cfg.HeartbeatInterval,
		HeartbeatTimeout:  n.cfg.HeartbeatTimeout,
		Quit:              n.life.Done(),
		Cause:             n.Err,
		Dropped:           n.dropMessage,
	})
}

// membership is a node as its Messenger sees it (messaging.Node).
type membership struct{ n *Node }

// Member implements messaging.Node.
func (m membership) Member(addr member.Address) *member.Member { return m.n.look().members[addr] }

// Members implements messaging.Node.
func (m membership) Members() member.Roster { return m.n.look().view.Members }

// Leader implements messaging.Node.
func (m membership) Leader() messaging.Leader {
	seen := m.n.look()
	t := seen.live()
	return messaging.Leader{
		Address:     seen.view.Leader,
		Provisional: seen.provisional,
		Authority:   t != nil && t.own && t.Remaining() > 0,
	}
}

// WaitLeader implements messaging.Node.
func (m membership) WaitLeader(ctx context.Context) (messaging.Leadership, error) {
	term, err := m.n.waitTenure(ctx)
	if err != nil {
		return messaging.Leadership{}, err
	}
	_, changed := m.n.seen.get()
	return messaging.Leadership{
		Leader: term.leader.Address, Done: term.Term().Done(), Changed: changed,
		Lost: leader.ErrSuperseded,
	}, nil
}

// dropMessage counts and logs a frame or an event that is not used.
func (n *Node) dropMessage(d messaging.Drop) {
	if d.Event == "" {
		n.observer.Drop(d.From, d.Reason, d.Err)
	} else {
		n.observer.DropEvent(d.From, d.Event, d.Reason, d.SenderTold, d.Err)
	}
}

// nodeKey is the key of the node in the contexts of its handlers.
type nodeKey struct{}

// FromContext returns the node whose handler runs with ctx, or with a context made from
// it. In handlers of Config.Receiver it is never nil, also before Start has returned the
// node. Elsewhere it is nil.
func FromContext(ctx context.Context) *Node {
	n, _ := ctx.Value(nodeKey{}).(*Node)
	return n
}
