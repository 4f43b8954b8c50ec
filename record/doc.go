// SPDX-License-Identifier: Apache-2.0

// Package record defines the small records that a cluster keeps for its members. A record is a
// value under a key. It can be set under conditions. A record that a member owns ends with the
// member.
//
//	session := node.Records().Session(nil)
//	token, err := session.Commit(ctx,
//		record.Op{Kind: record.Absent, Key: key},
//		record.Op{Kind: record.SetOwned, Key: key, Value: value})
//	lease, err := session.Hold(ctx, key, token)
//	err = lease.Term().Do(ctx, work)
//
// The right to act on an owned record ends before another member can set it. The token of a record
// is greater than the tokens of all earlier records under its key. So storage that compares tokens
// refuses late writes from a former owner. Jobs (package election) and mutexes (package lock) are
// built on records.
//
// A Store is the table as one member sees it. Each node of a cluster has a Store. Memory provides
// stores for tests, and the modules contrib/etcd, contrib/postgres and contrib/zookeeper provide
// stores backed by those services.
package record
