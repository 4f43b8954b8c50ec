// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// regions are five regions of one public cloud.
var regions = []string{"Washington", "Dallas", "Frankfurt", "Tokyo", "Sydney"}

// roundTrips lists the milliseconds between two regions: the averages of 27 July to 25 August 2024
// that IBM Cloud publishes (github.com/ibm-cloud-docs/vpc, network-latency.md).
var roundTrips = [5][5]int{
	{0, 31, 91, 164, 214},
	{31, 0, 123, 143, 186},
	{91, 123, 0, 233, 250},
	{164, 143, 233, 0, 115},
	{214, 186, 250, 115, 0},
}

// regional returns a cluster with a process in each region. One message in a thousand is lost and
// sent again by its connection, which makes it up to a second late.
func regional(seed uint64, t message.Timings) *Cluster {
	c := NewCluster(Setup{Seed: seed, Size: len(regions), Timings: t, Link: Link{Delay: 1}})
	for a := range regions {
		for b := range regions {
			c.net.linkOf(a, b).Link = Link{
				Delay:  time.Duration(roundTrips[a][b]) * time.Millisecond / 2,
				Jitter: 2 * time.Millisecond, Late: 0.001, MaxLate: time.Second,
			}
		}
		c.Start(a)
	}
	return c
}

// timingsOfProfile returns the timings of a profile (protocol.md 1) with the given interval.
func timingsOfProfile(interval, leader, ttl, retry time.Duration) message.Timings {
	return message.Timings{
		HeartbeatInterval: interval, HeartbeatTimeout: 4 * interval, LeaderTimeout: leader,
		LeaseTimeout: max(leader*7/10, interval*35/10), TTLTimeout: ttl, RetryInterval: retry,
	}
}

var regionRuns = flag.Uint64("regions", 1, "runs of TestRegions for each profile")

// TestRegions measures a cluster of five regions with each profile: how often a healthy leader
// loses its authority, how soon another leads when the region of the leader is cut off, and how
// long a commit takes. Only latency limits the commits per second: virtual time has neither
// processors nor bandwidth.
func TestRegions(t *testing.T) {
	const ms = time.Millisecond
	for _, p := range []struct {
		name    string
		timings message.Timings
		works   bool
	}{
		{"local", timingsOfProfile(20*ms, 200*ms, 2000*ms, 100*ms), false},
		{"lan", lanTimings(), true},
		{"lan x 2", timingsOfProfile(200*ms, 2000*ms, 20_000*ms, 1000*ms), true},
		{"wan", timingsOfProfile(500*ms, 5000*ms, 30_000*ms, 2000*ms), true},
	} {
		m := &regionalRun{t: t, name: p.name}
		for seed := range *regionRuns {
			m.measure(regional(seed+1, p.timings))
		}
		m.report()
		if !p.works {
			if m.formed > 0 {
				t.Errorf("%s: formed, although its lease is shorter than the round trips", p.name)
			}
			continue
		}
		if m.formed < int(*regionRuns) || m.gaps > 0 {
			t.Errorf("%s: formed %d of %d times, and lost authority %d times; want every time, and never",
				p.name, m.formed, *regionRuns, m.gaps)
		}
		if limit := p.timings.LeaderTimeout * 3; len(m.failover) == 0 || slices.Max(m.failover) > limit {
			t.Errorf("%s: failovers took %v, want at most %v", p.name, m.failover, limit)
		}
	}
}

// regionalRun collects the measurements of one profile.
type regionalRun struct {
	t        *testing.T
	name     string
	formed   int
	healthy  time.Duration
	gaps     int           // times that authority ended without a fault
	without  time.Duration // time without a leader with authority then
	failover []time.Duration
	near     [5][]time.Duration // commits requested in the region of the leader, for each
	far      [5][]time.Duration // commits requested elsewhere
	commits  [2]int             // with 1 and 64 clients in each region
	spent    [2]time.Duration
}

func (m *regionalRun) measure(c *Cluster) {
	if !c.RunUntil(2*time.Minute, c.Settled) {
		return
	}
	m.formed++
	m.watch(c, time.Duration(depth(300))*time.Second)
	for to := range regions {
		if m.moveLeader(c, to) {
			for i, clients := range []int{1, 64} {
				m.commit(c, i, clients, time.Duration(depth(4))*500*time.Millisecond)
			}
			m.cutLeader(c)
		}
	}
	sound(m.t, c)
}

// watch counts how often a healthy cluster has no leader with authority.
func (m *regionalRun) watch(c *Cluster, span time.Duration) {
	led := true
	for end := c.Now() + span; c.Now() < end; {
		c.RunFor(time.Millisecond)
		now := c.Leader() >= 0
		if led && !now {
			m.gaps++
		}
		if led = now; !led {
			m.without += time.Millisecond
		}
	}
	m.healthy += span
}

// moveLeader makes a process the leader of a settled cluster.
func (m *regionalRun) moveLeader(c *Cluster, to int) bool {
	for range 20 {
		if !c.RunUntil(time.Minute, c.Settled) {
			return false
		}
		if c.Leader() == to {
			return true
		}
		_ = c.Transfer(c.Leader(), to) // it may be refused until the member has answered
		c.RunFor(2 * time.Second)
	}
	return false
}

// cutLeader cuts the region of the leader off, and measures the time to the next leader.
func (m *regionalRun) cutLeader(c *Cluster) {
	old, start := c.Leader(), c.Now()
	if old < 0 {
		return
	}
	c.Isolate(old)
	if !c.RunUntil(2*time.Minute, func() bool { return c.Leader() >= 0 && c.Leader() != old }) {
		m.t.Fatalf("%s: no leader after %v%s", m.name, c.Now()-start, c.Describe())
	}
	m.failover = append(m.failover, c.Now()-start)
	for i := range c.net.links {
		c.net.links[i].cuts = 0
	}
}

// commit lets clients in every region commit one record after the other.
func (m *regionalRun) commit(c *Cluster, column, clients int, span time.Duration) {
	leader, began := c.Leader(), map[string]time.Duration{}
	for end := c.Now() + span; c.Now() < end; c.RunFor(time.Millisecond) {
		for i, p := range c.procs {
			open := map[string]bool{}
			for _, r := range p.openRequests {
				open[r.Changes[0].Key] = true
			}
			for k := range clients {
				key := fmt.Sprintf("%d/%d", i, k)
				if open[key] {
					continue
				}
				if at, ok := began[key]; ok {
					m.commits[column]++
					if took := c.Now() - at; column == 0 && i == leader {
						m.near[leader] = append(m.near[leader], took)
					} else if column == 0 {
						m.far[leader] = append(m.far[leader], took)
					}
				}
				began[key] = c.Now()
				c.Commit(i, message.RecordRequest{Changes: []message.Change{{Key: key, Owned: true}}})
			}
		}
	}
	m.spent[column] += span
	c.RunFor(2 * time.Second) // the last requests are answered
}

// report logs the figures for performance.md.
func (m *regionalRun) report() {
	m.t.Helper()
	m.t.Logf("%s: formed %d times, lost authority %d times, for %v, in %v; %d failovers, %s",
		m.name, m.formed, m.gaps, m.without, m.healthy, len(m.failover), milliseconds(m.failover))
	for i, name := range regions {
		m.t.Logf("\tleader in %s: commits there %s, elsewhere %s",
			name, milliseconds(m.near[i]), milliseconds(m.far[i]))
	}
	m.t.Logf("\tcommits a second: %.0f with 1 client in each region, %.0f with 64",
		float64(m.commits[0])/max(m.spent[0].Seconds(), 1),
		float64(m.commits[1])/max(m.spent[1].Seconds(), 1))
}

// milliseconds formats the median and the range.
func milliseconds(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return fmt.Sprintf("%d ms [%d to %d]", all[len(all)/2].Milliseconds(), all[0].Milliseconds(),
		all[len(all)-1].Milliseconds())
}
