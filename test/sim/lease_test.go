// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// BenchmarkLeaseTimeout measures how often leaders lose their authority although no process fails.
// It tests several ratios of LeaseTimeout to LeaderTimeout. An iteration takes one hour of virtual
// time.
func BenchmarkLeaseTimeout(b *testing.B) {
	for _, leader := range []time.Duration{time.Second, 500 * time.Millisecond} {
		for tenths := time.Duration(6); tenths <= 10; tenths++ {
			t := message.Timings{
				HeartbeatInterval: 100 * time.Millisecond,
				HeartbeatTimeout:  400 * time.Millisecond,
				LeaderTimeout:     leader,
				LeaseTimeout:      leader / 10 * tenths,
				TTLTimeout:        10 * time.Second,
				RetryInterval:     500 * time.Millisecond,
			}
			if t.Validate() != nil {
				continue // the lease is too short for the interval
			}
			timings := fmt.Sprintf("leader=%v/lease=%v", leader, t.LeaseTimeout)
			for pause := leader * 3 / 10; pause < leader; pause += leader / 10 {
				b.Run(fmt.Sprintf("%s/pause=%v", timings, pause), func(b *testing.B) {
					benchmarkAuthority(b, 5, t, 0, pause)
				})
			}
			for _, n := range []int{3, 5} {
				for _, loss := range []int{1, 5, 10, 20} {
					b.Run(fmt.Sprintf("%s/loss=%d%%/N=%d", timings, loss, n), func(b *testing.B) {
						benchmarkAuthority(b, n, t, float64(loss)/100, 0)
					})
				}
			}
		}
	}
}

// benchmarkAuthority reports how often per hour authority ends, how long no process has it, and how
// often the leader changes. If pause is not zero, the leader freezes for that time about every ten
// seconds.
func benchmarkAuthority(
	b *testing.B, n int, t message.Timings, loss float64, pause time.Duration,
) {
	link := Link{Delay: time.Millisecond, Jitter: time.Millisecond, Loss: loss}
	c := NewCluster(Setup{Seed: 1, Size: n, Timings: t, Link: link})
	for i := range n {
		c.Start(i)
	}
	if !c.RunUntil(time.Minute, c.Settled) {
		b.Fatalf("the cluster did not form: %v%s", c.Violation(), c.Describe())
	}
	ended, without, changes := 0, time.Duration(0), c.check.changes
	c.onTrace = func(_ int, t statemachine.Trace) {
		if t.Kind == statemachine.LostAuthority {
			ended++
		}
	}
	r := rand.New(rand.NewPCG(1, 0))
	var freeze func()
	freeze = func() {
		if l := c.Leader(); l >= 0 {
			c.Pause(l)
			c.After(pause, func() { c.Resume(l, true) })
		}
		c.After(8*time.Second+time.Duration(r.Int64N(int64(4*time.Second))), freeze)
	}
	if pause > 0 {
		freeze()
	}
	const sample = 5 * time.Millisecond
	for range time.Duration(b.N) * time.Hour / sample {
		c.RunFor(sample)
		if c.Leader() < 0 {
			without += sample
		}
	}
	if v := c.Violation(); v != nil {
		b.Fatal(v)
	}
	hours := float64(b.N)
	b.ReportMetric(float64(ended)/hours, "ends/h")
	b.ReportMetric(without.Seconds()/hours, "s-without/h")
	b.ReportMetric(float64(c.check.changes-changes)/hours, "changes/h")
}
