// SPDX-License-Identifier: Apache-2.0

// Package leasestore makes a record.Store of a service that keeps entries by name and changes
// them by compare-and-set, such as etcd or ZooKeeper; contrib/ has a Backend for each.
//
// # Entries
//
// A Store has a lease, an entry "leases/ID" that it writes anew every fifth of
// Config.LeaseTimeout. The ID is random and never used twice. A record is an entry
// "records/KEY". One that is owned names a lease, and is there for as long as that lease
// is: its entry may stay behind, and then counts as absent. Whoever takes its place
// asserts in the same write that the lease is gone.
//
// The number of a write in the service is the token of what it set. Its Version is 0, so
// that the tokens of a cluster, whose versions begin at 1, are greater than all of these:
// who moves to a cluster later goes on with greater tokens.
//
// # Why two holders never overlap
//
// Others take a record over when its lease is removed. That is done by whoever saw the
// entry of the lease unchanged for LeaseTimeout, by its own clock, on the condition that
// it is unchanged still. It saw the entry after that was written, and that was after the
// write was sent. The owner trusts its records until 0.9 LeaseTimeout after it sent the
// last renewal that was answered, by its own clock. So it comes first wherever the rates
// of two clocks differ by less than 10/9. The clock of the service is not asked, nor
// whether the service believes that somebody is alive: docs/decisions/015-etcd.md and
// 016-zookeeper.md say why its answer would not prove enough.
//
// A drop of another's record revokes it: a write that marks it. The owner sees the mark,
// ends the contexts, and deletes the entry; where it does not, its lease runs out. From
// sending any request that changes a record on, its owner trusts that record no more,
// whatever the answer.
//
// Each write of a Store has the condition that its lease is as last written. After a
// write of unknown outcome it renews the lease before it writes anything else, so that
// what is still under way cannot be taken any more. Where the write that makes the lease
// is of unknown outcome, another lease is made: that write may come when the lease has
// ended, and would make it anew.
//
// A write may be answered when what it set is revoked and gone. So a Store minds what the
// service has shown of a record since it asked for that.
//
// The clock is Go's monotonic one. On most systems it stands still while the machine is
// suspended: then the token alone tells.
package leasestore
