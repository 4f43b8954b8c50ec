// SPDX-License-Identifier: Apache-2.0

// Package leasestore is a record.Store on a service that keeps entries and changes them by
// compare-and-set, such as etcd or ZooKeeper. contrib/ has a Backend for each.
//
// # Entries
//
// A Store has a lease: an entry "leases/ID", with a random ID that is never reused, which it
// renews every fifth of Config.LeaseTimeout. A record is an entry "records/KEY". An owned record
// names a lease and exists as long as that lease: if the lease is gone, a remaining entry counts
// as absent, and the write that replaces it asserts that the lease is gone.
//
// The revision of a write in the service is the token of what it set. Its Version is 0, so every
// token of a cluster, whose versions begin at 1, is greater: a later move to a cluster keeps
// tokens growing.
//
// # Why two holders never overlap
//
// Other members take a record over once its lease is removed. A member removes a lease that it
// has seen unchanged for LeaseTimeout by its own clock, on the condition that it is still
// unchanged. It saw the entry after the write, which came after the owner sent the write. The
// owner trusts its records for 0.9 LeaseTimeout, by its own clock, from when it sent the last
// renewal that was answered. So the trust ends first, as long as the rates of the two clocks
// differ by less than a factor of 10/9. Neither the clock of the service nor its sessions are
// used: docs/decisions/015-etcd.md and 016-zookeeper.md explain why they would not prove enough.
//
// To drop a record of another member, a write marks it as revoked. The owner sees the mark, ends
// the contexts, and deletes the entry; if it does not, its lease expires. From the moment it
// sends a request that changes a record, the owner no longer trusts that record, whatever the
// answer.
//
// Each write of a Store requires that its lease is as last written. After a write of unknown
// outcome, the Store renews the lease before it writes anything else, so that the earlier write
// can no longer take effect. If the first write of a lease has an unknown outcome, the Store
// uses another lease: that write might otherwise recreate the lease after its end.
//
// A write may be answered after its record was revoked and deleted. Therefore a Store keeps
// track of what the service has shown of a record since the request was sent.
//
// The clock is Go's monotonic clock. On most systems it stands still while the machine is
// suspended; then only the token protects.
package leasestore
