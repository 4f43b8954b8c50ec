// SPDX-License-Identifier: Apache-2.0

// Package linear judges histories of records and locks by Porcupine, a checker of linearizability
// that shares no code with Athena. It is a module of its own, so that the main one does not require
// Porcupine.
//
//	go test ./...                                       # some histories from virtual time
//	go test -run Histories -worlds 63                   # 1,000 histories
//	go test -run Evidence -evidence ../../results/...   # the histories of a run of test/chaos
//	go test -run Planted -planted                       # bugs that it must refuse
//
// A history has one key, and one client for each run of a node. Commits of records are
// linearizable, including those that only check a condition. Package record does not promise that
// for List, which may return an old table: a listed record must have been set before, with that
// token.
package linear
