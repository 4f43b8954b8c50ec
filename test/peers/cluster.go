// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/athena-go/athena/test/children"
)

// longestWait is the timeout of each event that is measured.
const longestWait = 40 * time.Second

// process is a node of a cluster.
type process struct {
	*children.Process
	name    string
	answers chan report

	// The following fields are guarded by processes.group.
	view nodeView
	at   int64 // monotonic time of the view
}

// processes are the nodes of a cluster.
type processes struct {
	peer  nodePeer
	dir   string
	group *children.Group
	all   []*process
}

// newCluster starts the processes of a cluster, which wait for the order to start their nodes.
func newCluster(ctx context.Context, o options, peer, timing string, n int) (*processes, error) {
	p, err := findNodePeer(peer)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "athena-peers-")
	if err != nil {
		return nil, err
	}
	c := &processes{peer: p, dir: dir, group: children.NewGroup()}
	for i := range n {
		s := nodeSetup{peer, timing, i, n, filepath.Join(dir, strconv.Itoa(i))}
		if err := c.addProcess(s); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	for _, p := range c.all {
		if _, err := p.wait(ctx, longestWait); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *processes) addProcess(s nodeSetup) error {
	cmd, err := children.Command(childVariable, child{Node: &s})
	if err != nil {
		return err
	}
	p := &process{name: s.name(s.Index), answers: make(chan report, 1)}
	p.Process, err = c.group.Start(cmd, func(line []byte) { c.takeLine(p, line) })
	if err != nil {
		return err
	}
	c.all = append(c.all, p)
	return nil
}

// takeLine stores what a node has printed.
func (c *processes) takeLine(p *process, line []byte) {
	var r report
	switch err := json.Unmarshal(line, &r); {
	case err != nil: // printed by a library
	case r.View != nil:
		c.group.Change(func() { p.view, p.at = *r.View, r.At })
	default:
		p.answers <- r
	}
}

// wait waits for the answer to an order.
func (p *process) wait(ctx context.Context, timeout time.Duration) (report, error) {
	select {
	case r := <-p.answers:
		if r.Fault != "" {
			return r, fmt.Errorf("%s: %s", r.Done, r.Fault)
		}
		return r, nil
	case <-p.Ended:
		return report{}, fmt.Errorf("%w: %s", children.ErrEnded, p.name)
	case <-time.After(timeout):
		return report{}, fmt.Errorf("%s: %w (%v)", p.name, children.ErrSlow, timeout)
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
}

// start starts all nodes and returns the time.
func (c *processes) start() (began int64, err error) {
	began = children.ReadMonotonic()
	for _, p := range c.all {
		if err := p.Send(order{Do: doStart}); err != nil {
			return 0, err
		}
	}
	return began, nil
}

// listAlive lists the live nodes. c.group must be held.
func (c *processes) listAlive() (alive []*process) {
	for _, p := range c.all {
		if p.Alive() {
			alive = append(alive, p)
		}
	}
	return alive
}

// waitUntil waits until the condition is true of the live nodes. It returns the time at which the
// last live node got its view.
func (c *processes) waitUntil(
	ctx context.Context, is func([]*process) bool,
) (last int64, err error) {
	err = c.group.WaitUntil(ctx, longestWait, func() bool {
		last = 0
		alive := c.listAlive()
		for _, p := range alive {
			last = max(last, p.at)
		}
		return is(alive)
	})
	return last, err
}

// agree returns a condition for waitUntil: each node sees the given number of members; 0 means any
// number. If the peer elects a leader, all nodes must name the same leader, which must differ from
// the given one.
func (c *processes) agree(members int, before string) func([]*process) bool {
	return func(alive []*process) bool {
		for _, p := range alive {
			l := p.view.Leader
			if members > 0 && p.view.Members != members ||
				c.peer.leads && (l == "" || l == before || l != alive[0].view.Leader) {
				return false
			}
		}
		return true
	}
}

// findLeader returns the leader that the live nodes name, or nil.
func (c *processes) findLeader() (leader *process) {
	c.group.Read(func() {
		alive := c.listAlive()
		for _, p := range alive {
			if p.name == alive[0].view.Leader {
				leader = p
			}
		}
	})
	return leader
}

// close kills all nodes and removes their stores.
func (c *processes) close() error {
	c.group.KillAll()
	return os.RemoveAll(c.dir)
}

// usage returns the CPU time of all nodes in nanoseconds, and their resident memory in bytes.
func (c *processes) usage() (cpu, memory float64, err error) {
	for _, p := range c.all {
		own, resident, err := p.Usage()
		if err != nil {
			return 0, 0, err
		}
		cpu, memory = cpu+own, memory+resident
	}
	return cpu, memory, nil
}
