// SPDX-License-Identifier: Apache-2.0

// Package bench measures clusters of real processes on this machine: how fast they form, detect
// the death of a member and elect another leader, what they cost at rest, and how many events
// and requests they carry. It may change until version 1.
//
// Every node is a process of its own: this program, started again (Child). Times are
// CLOCK_MONOTONIC, which all processes share, read in each node when its view changes. A
// measurement ends when the last node has the expected view. The rows are written to a file of
// JSON lines, the first of which describes the machine. Tables of minima, medians and maxima
// are printed.
//
// # Events
//
// The sender and the receivers are members of one cluster. A number of goroutines send for a
// time, each the next event as soon as the last one was accepted. The payload is random bytes;
// overhead is not counted as payload. The rate is that of the typed handlers, from the first
// send to the last arrival, read every millisecond. A lost event is an error. Processor time
// and allocations are those of the sender and the receivers together, including heartbeats; a
// broadcast counts once, not once for each copy.
//
// Requests are measured in the same way. Each is answered with its own contents, the rate is
// that of answers, and times are from call to return. For streams, every byte read counts.
package bench
