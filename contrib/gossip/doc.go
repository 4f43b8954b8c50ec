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
// only one leader. So there may be two leaders for a time, and the token protects nothing. If there
// must never be two leaders, use a cluster with election.Quorum or election.OpenJob.
//
// # What this adds to memberlist
//
// memberlist sends a broadcast to a few random members, which do not forward it. Here a member that
// receives a new message forwards it, so that the message reaches all members. If several proposals
// are made together, only the lowest is forwarded, because no member waits for a higher proposal.
//
// memberlist forgets lost members after some time, so the parts of a network would never find each
// other after a long partition. This package keeps the addresses of lost members. In each
// Config.RejoinInterval, a few members of each part try to reach a lost member or a seed.
package gossip
