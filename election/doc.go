// SPDX-License-Identifier: Apache-2.0

// Package election gives a group of members a leader, by one of several strategies under the
// contract of package leader.
//
//	rx := receiver.NewMux()
//	groups := election.NewGroups(rx)
//	node, err := cluster.Start(ctx, cluster.Config{Receiver: rx, ...})
//	delivery, err := groups.Open(node, "delivery", election.Options{Strategy: election.Lowest})
//	err = delivery.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error { ... })
//
// The strategy decides how many members can lead at once. Quorum has at most one leader, and
// none without a majority: the member that leads the cluster. Lowest has one leader in each
// part of a network that fell apart, and one again soon after it is whole. Static leads
// where it is configured to, Standby never.
//
// All members that open a group give the same strategy, Static and Standby apart.
package election
