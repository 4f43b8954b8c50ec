// SPDX-License-Identifier: Apache-2.0

// Package athenatest tests programs that embed a cluster.Node: real nodes on a simulated
// network, in virtual time, with a method for each fault.
//
//	func TestSurvivesACrash(t *testing.T) {
//		athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
//			c.Crash(c.Leader())
//			c.Advance(10 * time.Second) // virtual time, which costs little
//			fmt.Println("node", c.Leader(), "leads now")
//		})
//	}
//
// # What is real
//
// The nodes run the production code, with QUIC, or TLS on TCP, and files. Packets and time are
// simulated: everything runs in a bubble of testing/synctest, whose clock advances only when all
// its goroutines wait. The program under test may use timers and contexts as usual. It must not
// wait for anything outside of the bubble, such as a real socket or another process, because the
// clock does not advance during such a wait.
//
// At the end of the test all nodes are closed. If a goroutine of the program is still running,
// the bubble fails the test.
//
// # What is reproducible
//
// Times are exact: a packet takes Options.Delay, and a lease lasts for its configured time.
// But the Go scheduler decides which of two ready goroutines runs first, and nodes draw new
// keys, ports and jitter. So a failure may not recur in the next run, and no seed
// reproduces it; repeat the test with -count. The protocol itself is simulated with seeds;
// see docs/simulation.md.
package athenatest
