// SPDX-License-Identifier: Apache-2.0

// Package record has the small entries that a cluster keeps for its members: a value under
// a key, set under conditions, which may end with the member that owns it.
//
//	session := node.Records().Session(nil)
//	token, err := session.Commit(ctx,
//		record.Op{Kind: record.Absent, Key: key},
//		record.Op{Kind: record.SetOwned, Key: key, Value: value})
//	lease, err := session.Hold(ctx, key, token)
//	err = lease.Term().Do(ctx, work)
//
// The right to act on an owned record ends before another member can set it, and each
// record has a token that is greater than those of the key before it: storage that compares
// tokens refuses what a former owner still writes. Jobs (package election) and mutexes
// (package lock) are built on records.
//
// A Store is the table as one member sees it. A node of a cluster has one, Memory makes
// them for tests, and the modules contrib/etcd and contrib/zookeeper for these services.
package record
