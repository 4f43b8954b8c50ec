// SPDX-License-Identifier: Apache-2.0

// Package bench measures clusters of real processes on this machine: how soon
// they form, see that a member died and have another leader, what they cost at
// rest, and how many events and requests they carry. It may change until version 1.
//
// Every node is a process of its own: this program, started again (Child).
// Times are CLOCK_MONOTONIC, which is one clock for all processes, read in each
// node when its view changes. A result ends when the last node came to the view
// that was waited for. The rows go to a file of JSON lines, the first of which
// describes the machine; tables of minima, medians and maxima are printed.
//
// # Events
//
// Sender and receivers are members of one cluster. So many goroutines send for
// a time, each the next event as soon as the one before was taken; random bytes
// are the payload, and what carries them counts as nothing. The rate is what
// the typed handlers saw, from the first send to the last arrival, which is read
// every millisecond. An event that is lost is an error. Processor time and
// allocations are those of the sender and the receivers together, heartbeats
// included; per broadcast, not per copy, where events go to all.
//
// Requests are measured in the same way, each answered with what it brought:
// the rate is that of answers, and the times are from call to return. Of streams
// every byte that was read counts.
package bench
