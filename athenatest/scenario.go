// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"slices"
	"time"
)

// Scenario is a series of faults that occur while the program under test works.
type Scenario struct {
	Name string
	// Play runs the scenario, and returns when the cluster has settled again. The cluster must have
	// three or more nodes, and one more than a majority of them must be running.
	Play func(c *Cluster)
}

// Scenarios returns the scenarios of this package: leader crash, split brain, deaf leader,
// leader pause, rolling restart, slow follower and majority crash.
func Scenarios() []Scenario {
	return []Scenario{
		{"leader crash", crashLeader},
		{"split brain", splitBrain},
		{"deaf leader", deafenLeader},
		{"leader pause", pauseLeader},
		{"rolling restart", restartInTurn},
		{"slow follower", delayFollower},
		{"majority crash", crashMajority},
	}
}

// crashLeader crashes the leader, and restarts it some time after another node has begun to lead.
func crashLeader(c *Cluster) {
	c.t.Helper()
	old := c.beginScenario()
	c.Crash(old)
	c.NextLeader(old)
	c.Advance(c.timings.TTLTimeout / 2)
	c.Start(old)
	c.WaitSettled()
}

// splitBrain cuts off the largest minority that contains the leader, until the majority has had
// another leader for some time.
func splitBrain(c *Cluster) {
	c.t.Helper()
	old := c.beginScenario()
	followers := c.listFollowers(old)
	minority := append(followers[:len(followers)-c.quorumSize()], old)
	c.Partition(minority)
	c.NextLeader(old)
	c.Advance(c.timings.TTLTimeout / 2)
	c.Heal()
	c.WaitSettled()
}

// deafenLeader drops all packets to the leader, but no packets from it, until another node has led
// for some time.
func deafenLeader(c *Cluster) {
	c.t.Helper()
	old := c.beginScenario()
	for _, i := range c.listFollowers(old) {
		c.Cut(i, old)
	}
	c.NextLeader(old)
	c.Advance(c.timings.TTLTimeout / 2)
	c.Heal()
	c.WaitSettled()
}

// pauseLeader pauses the leader until another node has led for some time. The paused leader
// continues its work, and only a token protects against its writes.
func pauseLeader(c *Cluster) {
	c.t.Helper()
	old := c.beginScenario()
	c.Pause(old)
	c.NextLeader(old)
	c.Advance(c.timings.TTLTimeout / 2)
	c.Resume(old)
	c.WaitSettled()
}

// restartInTurn makes the nodes leave and restart one after another, the leader last.
func restartInTurn(c *Cluster) {
	c.t.Helper()
	leader := c.beginScenario()
	for _, i := range append(c.listFollowers(leader), leader) {
		c.Leave(i)
		c.Advance(time.Second)
		c.Start(i)
		c.WaitSettled()
	}
}

// delayFollower delays the packets of one follower by half a HeartbeatTimeout in each direction
// for some time. The test fails if the leader changes.
func delayFollower(c *Cluster) {
	c.t.Helper()
	leader := c.beginScenario()
	version := c.Node(leader).View().Version
	c.Slow(c.listFollowers(leader)[0], c.timings.HeartbeatTimeout/2)
	c.Advance(c.timings.TTLTimeout)
	c.Heal()
	c.WaitSettled()
	if got := c.Node(c.Leader()).View().Version; got != version {
		c.t.Fatalf("athenatest: a slow follower ended the term of version %d%s", version, c)
	}
}

// crashMajority crashes enough followers that no node can lead, and restarts them after some time.
func crashMajority(c *Cluster) {
	c.t.Helper()
	leader := c.beginScenario()
	followers := c.listFollowers(leader)
	crashed := followers[:len(followers)-c.quorumSize()+2]
	for _, i := range crashed {
		c.Crash(i)
	}
	c.Within(c.waitLimit(), "end of the leader's authority", func() bool {
		_, leads := c.Leading()
		return !leads
	})
	c.Advance(c.timings.TTLTimeout / 2)
	c.Start(crashed...)
	c.WaitSettled()
}

// beginScenario waits until the cluster has settled, and returns its leader.
func (c *Cluster) beginScenario() (leader int) {
	c.t.Helper()
	if c.opts.Size < 3 {
		c.t.Fatalf("athenatest: a scenario needs Options.Size of at least 3, not %d", c.opts.Size)
	}
	if runs, needs := len(c.Running()), c.quorumSize()+1; runs < needs {
		c.t.Fatalf("athenatest: a scenario needs a majority and one more node, that is %d of %d, "+
			"but %d are running: call Start first%s", needs, c.opts.Size, runs, c)
	}
	c.WaitSettled()
	return c.Leader()
}

// quorumSize returns how many nodes are needed to elect a leader.
func (c *Cluster) quorumSize() int { return c.opts.Size/2 + 1 }

// listFollowers returns all running nodes except the leader.
func (c *Cluster) listFollowers(leader int) []int {
	c.t.Helper()
	return slices.DeleteFunc(c.Running(), func(i int) bool { return i == leader })
}
