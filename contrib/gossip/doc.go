// SPDX-License-Identifier: Apache-2.0

// Package gossip elects leaders among hundreds to thousands of processes that come and go
// and are no cluster of a fixed size: election.Lowest over hashicorp/memberlist.
//
//	node, err := gossip.Start(ctx, gossip.Config{
//		Name: "worker-17", Addr: "10.0.0.17:7946", Seeds: []string{"10.0.0.1:7946"}, Secret: key,
//	})
//	delivery, err := node.Open("delivery", election.Options{Strategy: election.Lowest})
//	err = delivery.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error { ... })
//
// There is one leader in each part of a network that fell apart, and one again soon after
// it is whole: so there may be two for a time, and the term fences nothing. Who must never
// have two takes a cluster, and election.Quorum or election.OpenJob.
//
// # What is built on memberlist
//
// It hands a broadcast to a few random members and no further. Here whoever hears one that
// is new to it queues it again, and so it reaches all. Of all that propose themselves at
// once only the lowest is passed on: nobody waits for another.
//
// It forgets who was cut off for long, and so two parts never meet again. Here the
// addresses of those that were lost are kept, and a few members of each part try one of
// them, or a seed, in each Config.RejoinInterval.
package gossip
