// SPDX-License-Identifier: Apache-2.0

// Package gossip elects leaders among hundreds to thousands of processes that come and go, unlike
// those of a cluster of fixed size. It uses election.Lowest over hashicorp/memberlist.
//
//	node, err := gossip.Start(ctx, gossip.Config{
//		Name: "worker-17", Addr: "10.0.0.17:7946", Seeds: []string{"10.0.0.1:7946"}, Secret: key,
//	})
//	delivery, err := node.Open("delivery", election.Options{Strategy: election.Lowest})
//	err = delivery.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error { ... })
//
// Each part of a partitioned network has its own leader. Soon after the network heals, there is
// only one. So there may be two leaders for a time, and the token protects nothing. If there must
// never be two, use a cluster with election.Quorum or election.OpenJob.
//
// # What this adds to memberlist
//
// memberlist sends a broadcast to a few random members, which do not forward it. Here a member that
// receives a new message forwards it, so that the message reaches all. If several proposals are
// made together, only the lowest is forwarded, because no member waits for a higher one.
//
// memberlist forgets members after a long partition, and two parts would never meet again. This
// package keeps the addresses of lost members. In each Config.RejoinInterval, a few members of each
// part try to reach one of them, or a seed.
package gossip
