// SPDX-License-Identifier: Apache-2.0

// Package athenatest is for the tests of programs that embed a cluster.Node: whole
// nodes on a simulated network, in virtual time, whose faults are one call each.
//
//	func TestSurvivesACrash(t *testing.T) {
//		athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
//			c.Crash(c.Leader())
//			c.Advance(10 * time.Second) // of virtual time, which costs little
//			fmt.Println("node", c.Leader(), "leads now")
//		})
//	}
//
// # What is real
//
// The nodes are those that ship, with QUIC, TLS and files. Packets and time are not
// real: all of it runs in a bubble of testing/synctest, whose clock goes on when
// everything in it waits. So a program under test may use timers and contexts as it
// likes; it must not wait for what is outside of the bubble, such as a real socket or
// another process: the clock stands still meanwhile.
//
// When the test is over, every node is ended, and the bubble fails the test where a
// goroutine of the program goes on.
//
// # What is the same in every run, and what is not
//
// Times are exact: a packet takes Options.Delay, a lease as long as it is configured.
// Which of two goroutines that are ready at one instant runs first is up to the Go
// scheduler, and keys, ports and jitter of the nodes are drawn anew. So a test that
// fails may pass in the next run, and there is no seed that brings it back: run it with
// -count. The protocol itself is simulated with seeds, see docs/simulation.md.
package athenatest
