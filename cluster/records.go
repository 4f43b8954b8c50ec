// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"github.com/athena-go/athena/internal/recordtable"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// Records returns the records of the cluster as this node sees them. The ids of members are their
// addresses, and Store.Members lists the active ones. Reads do not contact other nodes. A node that
// has just started shows no records until it knows which are committed, usually within a
// HeartbeatInterval.
func (n *Node) Records() record.Store { return n.records }

// HoldRemaining returns how long the leases of this node's records last if the leader stops
// extending them. Normally the leader extends them continuously. While HoldRemaining is not 0, a
// valid lease ends only because its record was revoked, dropped or released.
func (n *Node) HoldRemaining() time.Duration { return n.records.HoldRemaining() }

// newRecords returns the record table of this node.
func (n *Node) newRecords() *recordtable.Table {
	return recordtable.New(recordtable.Config{
		Node:        recordsNode{n},
		Self:        n.cfg.self.String(),
		Life:        n.life,
		Clock:       n.clock,
		HoldTimeout: n.cfg.timings.HoldTimeout(),
		Guard:       leaseGuard(n.cfg.timings),
		ReportLate:  n.reporter.LogLateWork,
	})
}

// recordsNode implements recordtable.Node.
type recordsNode struct{ n *Node }

func (r recordsNode) Do(ctx context.Context, verb recordtable.Verb) error {
	return r.n.runInLoop(ctx, func(now time.Time) (statemachine.Output, error) {
		return verb(now, r.n.machine)
	})
}

func (r recordsNode) View() member.View { return r.n.currentSnapshot().view }

func (r recordsNode) WaitLeader(ctx context.Context) error {
	_, err := r.n.waitTerm(ctx)
	return err
}
