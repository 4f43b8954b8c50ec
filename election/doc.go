// SPDX-License-Identifier: Apache-2.0

// Package election elects a leader for each of many jobs (OpenJob), spreads shards over members
// (NewShards), or elects a leader for a group of members by one of several strategies (Groups). All
// of them implement the contract of package leader.
//
//	rx := receiver.NewMux()
//	groups := election.NewGroups(rx)
//	node, err := cluster.Start(ctx, cluster.Config{Receiver: rx, ...})
//	delivery, err := groups.Open(node, "delivery", election.Options{Strategy: election.Lowest})
//	err = delivery.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error { ... })
//
// The strategy of a group decides how many members can lead at the same time. Quorum has at most
// one leader, the leader of the cluster, and no leader without a majority. Lowest has one leader in
// each part of a partitioned network. Soon after the network heals, there is only one leader. A
// member with Static always leads; a member with Standby never leads.
//
// All members that open a group must use the same strategy, except that Static and Standby may
// be mixed.
package election
