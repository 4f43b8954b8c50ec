// SPDX-License-Identifier: Apache-2.0

// Package observer follows a cluster without being a member. An observer knows the members and the
// leader, reads who leads a job or holds a lock, and sends requests and streams to members and to
// the leader. It has no seat and no vote.
//
// If the members have cluster.WithWorkers, an observer can also work: it then holds locks of
// package lock, without a seat, and keeps them while members and leaders change.
//
// An observer uses the port and the secret of the members, or a certificate of their authority. It
// follows one member. If that member does not answer for 5 seconds or the connection ends, it
// follows another one within about 2 seconds.
//
// Handlers see an observer as a member whose address IsObserver, and an interceptor of package
// receiver can refuse it. Any observer can read records. A member accepts up to 1,024 observers.
// Answers to them have at most 64 KiB; longer results need a stream. A member disconnects an
// observer that does not read, or that sends an event or a message of the protocol.
package observer
