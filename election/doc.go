// SPDX-License-Identifier: Apache-2.0

// Package election gives groups of members a leader, by one of several strategies under
// one contract.
//
//	rx := receiver.NewMux()
//	groups := election.NewGroups(rx)
//	node, err := cluster.Start(ctx, cluster.Config{Receiver: rx, ...})
//	delivery, err := groups.Open(node, "delivery", election.Options{Strategy: election.Lowest})
//	err = delivery.WhileLeader(ctx, func(ctx context.Context, token uint64) error { ... })
//
// Quorum never has two leaders, and none without a majority: the group is led by whoever
// leads the cluster. Lowest always has one: in each part of a network that fell apart,
// and one again soon after it is whole. Static leads where it is configured to, and
// Standby nowhere. Package latch is for many leaders of which each is the only one.
//
// All members that open a group give the same strategy, Static and Standby apart.
package election
