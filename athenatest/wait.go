// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// step is the interval at which a condition is checked, in virtual time.
const step = time.Millisecond

// waitLimit is the timeout of every wait, in virtual time: a minute with the default timings.
func (c *Cluster) waitLimit() time.Duration { return 6 * c.timings.TTLTimeout }

// lookForFailures runs everything that is ready. It fails the test if a process has ended by
// itself, either with an error or before its node ended. Without this check, the test would
// continue as if that node did not exist.
func (c *Cluster) lookForFailures() {
	c.t.Helper()
	synctest.Wait()
	for i := range c.slots {
		p := c.slots[i].present
		if p == nil || !p.hasEnded() {
			continue
		}
		c.slots[i].present = nil
		if p.err != nil {
			c.t.Fatalf("athenatest: Main of node %d returned: %v%s", i, p.err, c)
		}
		if n := p.listeningNode(); n == nil || n.Err() == nil {
			c.t.Fatalf("athenatest: Main of node %d returned nil before its node ended%s", i, c)
		}
	}
}

// Advance lets d pass.
func (c *Cluster) Advance(d time.Duration) {
	c.t.Helper()
	time.Sleep(d)
	c.lookForFailures()
}

// Within lets time pass until cond returns true, and returns how long that took. It calls cond
// every millisecond. If limit passes first, the test fails with an error that contains what, the
// name of the condition.
func (c *Cluster) Within(limit time.Duration, what string, cond func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for c.lookForFailures(); !cond(); c.lookForFailures() {
		if time.Since(begin) >= limit {
			c.t.Fatalf("athenatest: no %s within %v%s", what, limit, c)
		}
		time.Sleep(step)
	}
	return time.Since(begin)
}

// Node returns node i, and waits until it listens. If the node is paused, the test fails,
// because the methods of the node would block.
func (c *Cluster) Node(i int) *cluster.Node {
	c.t.Helper()
	c.lookForFailures()
	c.awakeProcess(i)
	var n *cluster.Node
	c.Within(c.waitLimit(), fmt.Sprintf("listener of node %d", i), func() bool {
		n = c.processOf(i).listeningNode()
		return n != nil
	})
	return n
}

// Running returns the running nodes, including those that have not joined yet and those that are
// paused.
func (c *Cluster) Running() (nodes []int) {
	c.t.Helper()
	c.lookForFailures()
	for i := range c.slots {
		if c.slots[i].present != nil {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// Leading returns the node that leads with authority at this instant, or false if there is no such
// node. It ignores paused nodes.
func (c *Cluster) Leading() (int, bool) {
	c.t.Helper()
	for _, i := range c.Running() {
		p := c.slots[i].present
		n := p.listeningNode()
		if n == nil || n.Err() != nil || p.clock.isShut() {
			continue
		}
		if term, ok := n.Leader(); ok && term.Valid() {
			return i, true
		}
	}
	return 0, false
}

// Leader waits until a node leads with authority, and returns it.
func (c *Cluster) Leader() int {
	c.t.Helper()
	leader := 0
	c.Within(c.waitLimit(), "leader", func() (ok bool) {
		leader, ok = c.Leading()
		return ok
	})
	return leader
}

// NextLeader waits until a node other than the given one leads with authority, and returns
// it.
func (c *Cluster) NextLeader(than int) int {
	c.t.Helper()
	leader := 0
	c.Within(c.waitLimit(), fmt.Sprintf("leader other than node %d", than), func() (ok bool) {
		leader, ok = c.Leading()
		return ok && leader != than
	})
	return leader
}

// WaitActive waits until a leader has authority and all running nodes show at least the given
// number of active members.
func (c *Cluster) WaitActive(count int) {
	c.t.Helper()
	c.Within(c.waitLimit(), fmt.Sprintf("cluster with %d active members", count), func() bool {
		if _, ok := c.Leading(); !ok {
			return false
		}
		for _, i := range c.Running() {
			n := c.slots[i].present.listeningNode()
			if n == nil || !n.View().Quorate || n.View().Members.Count(member.Active) < count {
				return false
			}
		}
		return true
	})
}

// Settled reports whether all running nodes form one cluster: one of them leads with
// authority, and each node shows that leader and exactly the running nodes as active
// members.
func (c *Cluster) Settled() bool {
	c.t.Helper()
	leader, ok := c.Leading()
	if !ok {
		return false
	}
	version := c.slots[leader].present.listeningNode().View().Version
	running := c.Running()
	for _, i := range running {
		n := c.slots[i].present.joinedNode()
		if n == nil {
			return false
		}
		v := n.View()
		if !v.Quorate || v.Leader != c.Address(leader) || v.Version != version ||
			v.Members.Count(member.Active) != len(running) {
			return false
		}
	}
	return true
}

// WaitSettled waits until Settled returns true, and returns how long that took.
func (c *Cluster) WaitSettled() time.Duration {
	c.t.Helper()
	return c.Within(c.waitLimit(), "single cluster of all running nodes", c.Settled)
}

// String returns the state of each node, with one line for each member that it shows.
func (c *Cluster) String() string {
	var b strings.Builder
	for i := range c.slots {
		p := c.slots[i].present
		if p == nil && i >= c.opts.Size {
			continue
		}
		fmt.Fprintf(&b, "\nnode %d: ", i)
		if p == nil {
			b.WriteString("not running")
			continue
		}
		if p.clock.isShut() {
			b.WriteString("paused; ")
		}
		n := p.listeningNode()
		if n == nil {
			b.WriteString("not listening yet")
			continue
		}
		v := n.View()
		fmt.Fprintf(&b, "%v; %v", v.Role, cluster.Snapshot{View: v, Size: c.opts.Size})
		if !p.clock.isShut() {
			if why := n.Status().NoLeader; why != "" {
				fmt.Fprintf(&b, "\n\t%s", why)
			}
		}
		for _, m := range v.Members {
			fmt.Fprintf(&b, "\n\t%s at %s is %s", m.Name, m.Address, m.Status)
		}
	}
	return b.String()
}
