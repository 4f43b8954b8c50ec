// SPDX-License-Identifier: Apache-2.0

// Package postgres keeps the records of jobs (package election of Athena) and locks (package lock)
// in a table of PostgreSQL, without a cluster of Athena nodes.
//
//	store, err := postgres.Open(ctx, pool, "athena", postgres.Config{Member: "host-1"})
//	job, err := election.OpenJob(ctx, store, "invoices", election.JobOptions{})
//
// Package internal/leasestore documents how it works and what it guarantees. It uses neither
// advisory locks nor the sessions of the server, because no member can be sure when they end.
//
// Each write is one message to the server, which completes it without the client. So a client that
// is paused never keeps the other members from writing.
package postgres
