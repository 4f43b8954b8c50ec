// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/test/sim"
)

// lan returns the LAN profile of protocol.md section 1.
func lan() message.Timings {
	return message.Timings{
		HeartbeatInterval: 100 * time.Millisecond,
		HeartbeatTimeout:  400 * time.Millisecond,
		LeaderTimeout:     time.Second,
		LeaseTimeout:      700 * time.Millisecond,
		TTLTimeout:        10 * time.Second,
		RetryInterval:     500 * time.Millisecond,
	}
}

// roundTrip is the round trip time in the network of these tests.
const roundTrip = 2 * time.Millisecond

// simulated returns a cluster whose lease is as long as the leader timeout, as in the stories.
func simulated(seed uint64, size int) sim.Setup {
	timings := lan()
	timings.LeaseTimeout = timings.LeaderTimeout
	return sim.Setup{
		Seed: seed, Size: size, Timings: timings, Codec: true,
		Link: sim.Link{Delay: roundTrip / 2, Jitter: roundTrip / 10},
	}
}

// within lets time pass until cond is true, and returns how long that took.
func within(
	t *testing.T, c *sim.Cluster, limit time.Duration, what string, cond func() bool,
) time.Duration {
	t.Helper()
	from := c.Now()
	if !c.RunUntil(limit, cond) {
		t.Fatalf("no %[2]s within %[1]v%[3]s\n%[4]v", limit, what, c.Describe(), c.Violation())
	}
	return c.Now() - from
}

// sound fails the test if an invariant was violated.
func sound(t *testing.T, c *sim.Cluster) {
	t.Helper()
	if v := c.Violation(); v != nil {
		t.Fatalf("%v%s", v, c.Describe())
	}
}
