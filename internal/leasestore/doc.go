// SPDX-License-Identifier: Apache-2.0

// Package leasestore is a record.Store on a service such as etcd or ZooKeeper, which keeps entries
// and changes them by compare-and-set. The directory contrib contains a Backend for each service.
//
// # Entries
//
// A Store has a lease, which is an entry "leases/ID" with a random ID that is never reused. The
// Store renews the lease every fifth of Config.LeaseTimeout. A record is an entry "records/KEY". An
// owned record names a lease and exists only as long as that lease. If the lease is gone, the entry
// of its record may remain but counts as absent. A write that replaces such an entry has the
// condition that the lease is gone.
//
// The token of a record has Version 0 and the revision of the write that set the record.
// Tokens of a cluster have versions from 1, so tokens keep increasing if an application
// later moves to a cluster.
//
// # Why two holders never overlap
//
// Other members take over a record once its lease is removed. A member removes a lease that it has
// seen unchanged for LeaseTimeout by its own clock, on the condition that the lease is still
// unchanged. It first saw that state of the lease after the owner had sent the renewal that wrote
// it. The owner trusts its records for 0.9 LeaseTimeout by its own clock, from the time when it
// sent the last successful renewal. So the trust ends before the lease is removed, as long as the
// rates of the two clocks differ by less than a factor of 10/9. A Store uses neither the clock nor
// the sessions of the service; docs/decisions/015-etcd.md and 016-zookeeper.md explain why.
//
// To drop a record of another member, a write marks it as revoked. The owner sees the mark, ends
// the contexts, and deletes the entry. If the owner does not see the mark, its lease expires. When
// the owner sends a request that changes a record, it no longer trusts that record, whatever the
// answer.
//
// Every write of a Store has the condition that its lease is unchanged since the Store last wrote
// it. After a write of unknown outcome, the Store renews the lease before it writes anything else,
// so that the earlier write can no longer take effect. If the first write of a lease has an unknown
// outcome, the Store uses another lease. Otherwise that write might recreate the lease after its
// end.
//
// A write may be answered after its record was revoked and deleted. Therefore a Store notes each
// revision of a record that the service shows after the request was sent.
//
// The clock is Go's monotonic clock. On most systems it stops while the machine is suspended. After
// a suspend, only fencing tokens protect.
package leasestore
