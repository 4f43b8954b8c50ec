// SPDX-License-Identifier: Apache-2.0

// Package swarm runs whole nodes in a drawn world. A seed draws the size of a cluster, its
// transport, faults, and applications that call the API from many goroutines. The nodes run the
// production code in one testing/synctest bubble (package athenatest), with their stores on disks
// in memory (package crashdisk), so most runs take about a twentieth of a second of CPU time. One
// plan in 24 has large payloads, which cost more.
//
//	make swarm-nodes SEED=1 RUNS=1000
//
// The applications check what the API promises them: one valid term at a time, contexts that end
// before the next leader's work begins, growing tokens, locks that exclude, the order of events,
// the outcome of each request. Processes that advertise the address of a member and listen
// elsewhere must get no place. A member that returns with a copy of its store must give the store
// up if it has forgotten a run. After the faults, everything must make progress again; after Close
// no goroutine may be left.
//
// One seed in eight instead draws a graph of handlers that call each other, with loads that fill
// all queues: as long as work is left, something must be handled.
//
// A seed draws the same plan each time, but the Go scheduler decides the order of goroutines that
// are ready at the same instant, and nodes draw keys and jitter of their own. So a plan that failed
// may pass when it is repeated. The shrinker repeats each smaller plan several times.
package swarm
