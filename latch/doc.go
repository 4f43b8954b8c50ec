// SPDX-License-Identifier: Apache-2.0

// Package latch gives each of many jobs a leader of its own, and mutexes, on the records
// of a cluster.
//
//	job, err := latch.Open(ctx, node.Records(), "billing", latch.Options{})
//	err = job.WhileLeader(ctx, func(ctx context.Context, token member.Token) { ... })
//
// A job has one leader at most at any moment, whichever member leads the cluster, and the
// leaderships of different jobs spread over the members. What must not happen twice runs
// in WhileLeader, or under a latch in Do: the context that it gets ends before anybody
// else can get one. What the work changes elsewhere is guarded by the token, which grows
// with every leadership: whoever stores the work refuses a token below the last. That
// holds also where a process stops for a while between a look at the context and what it
// does next.
//
// A new leader begins by looking for what the last one left undone: nothing tells it.
//
// # Inside
//
// A leadership is a record that its member owns. A member decides by the records that it
// sees, when they change and once a second; a change is only a hint to look. Where nobody
// leads, a member that is enabled sets the record under the condition that there is none,
// so one succeeds. They try one after another, in an order that is another one for each
// job, and one that sees a leader writes nothing.
package latch
