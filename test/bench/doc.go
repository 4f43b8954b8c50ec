// SPDX-License-Identifier: Apache-2.0

// Package bench measures clusters of real processes on this machine. It measures how fast they
// form, detect the death of a member and elect another leader. It also measures the resources that
// they use at rest, and the rates of events and requests. It may change until version 1.
//
// Every node is a separate process, which runs this program again (Child). Each node reads
// the time when its view changes, from CLOCK_MONOTONIC, which all processes share. A
// measurement ends when the last node has the expected view. The rows are written to a file
// of JSON lines, the first of which describes the machine. Run also prints tables of
// minima, medians and maxima.
//
// # Events
//
// The sender and the receivers are members of one cluster. Several goroutines send for some time.
// Each sends its next event as soon as the previous event was accepted. The payload consists of
// random bytes; overhead does not count as payload. The rate is the number of calls of typed
// handlers, divided by the time from the first send to the last arrival. Arrivals are checked every
// millisecond. A lost event is an error. Processor time and allocations are the totals of the
// sender and the receivers, including heartbeats; a broadcast counts as one event, regardless of
// the number of receivers.
//
// Requests are measured in the same way. The answer to a request has the same contents. The rate is
// the number of answers per second, and times are measured from call to return. Streams are
// measured by the number of bytes that the receiver has read.
package bench
