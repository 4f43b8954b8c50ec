// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// newMessenger returns the Messenger of this node. The transport must be open.
func (n *Node) newMessenger() *messaging.Messenger {
	return messaging.New(messaging.Config{
		Node:              messagingNode{n},
		Self:              n.cfg.self,
		Mux:               n.mux,
		Net:               n.net,
		HeartbeatInterval: n.cfg.HeartbeatInterval,
		Quit:              n.life.Done(),
		Cause:             n.Err,
		Dropped:           n.handleDrop,
	})
}

// messagingNode implements messaging.Node.
type messagingNode struct{ n *Node }

func (m messagingNode) Members() member.Roster { return m.n.currentSnapshot().view.Members }

func (m messagingNode) Leader() messaging.Leader {
	s := m.n.currentSnapshot()
	t := s.liveTerm()
	return messaging.Leader{
		Address:     s.view.Leader,
		Provisional: s.provisional,
		Authority:   t != nil && t.own && t.Remaining() > 0,
	}
}

func (m messagingNode) Follow() (messaging.Report, <-chan struct{}) {
	s, changed := m.n.snapshots.watch()
	return messaging.Report{
		ClusterID: s.held.Cluster, Leader: s.view.Leader, Authority: s.liveTerm() != nil,
		Version: s.view.Version, Members: s.view.Members,
	}, changed
}

func (m messagingNode) FindRecord(key string) (member.Record, bool) {
	return m.n.currentSnapshot().held.Records.Find(key)
}

func (m messagingNode) WaitLeader(ctx context.Context) (messaging.Leadership, error) {
	term, err := m.n.waitTerm(ctx)
	if err != nil {
		return messaging.Leadership{}, err
	}
	_, changed := m.n.snapshots.watch()
	return messaging.Leadership{
		Leader: term.leader, Done: term.Term().Done(), Changed: changed,
		Lost: leader.ErrSuperseded,
	}, nil
}

// handleDrop counts and logs a dropped frame or event.
func (n *Node) handleDrop(d messaging.Drop) {
	if d.Event == "" {
		n.reporter.DropFrame(d.From, d.Reason, d.Err)
	} else {
		n.reporter.DropEvent(d.From, d.Event, d.Reason, d.SenderTold, d.Err)
	}
}
