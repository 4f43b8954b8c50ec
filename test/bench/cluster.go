// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/test/children"
)

// process is one node.
type process struct {
	*children.Process
	address string
	setup   setup
	answers chan answer // answer to the current order

	// The following fields are guarded by processes.group.
	ready     bool
	holding   holding   // the latest one
	following following // the latest one
	view      nodeView
	died      int64 // set by killWorker
}

// processes are the nodes of one cluster.
type processes struct {
	dir   string
	group *children.Group
	all   []*process
	began float64      // CPU time used before the start
	runs  [][]ownedRun // of each shard, sorted by their beginnings; guarded by group
}

// newProcesses starts n processes with fresh stores that wait for beginAll.
func newProcesses(ctx context.Context, o Options, n int) (*processes, error) {
	dir, err := os.MkdirTemp(o.Dir, "athena-bench-")
	if err != nil {
		return nil, err
	}
	ps := &processes{dir: dir, group: children.NewGroup()}
	if err := ps.startNode(ctx, o, n); err != nil {
		ps.killAll()
		return nil, err
	}
	return ps, nil
}

func (ps *processes) startNode(ctx context.Context, o Options, n int) error {
	addresses, err := freeAddresses(n)
	if err != nil {
		return err
	}
	cfg := o.Config
	cfg.Size, cfg.Seeds = n, addresses
	if o.Seeds > 0 {
		cfg.Seeds = addresses[:min(o.Seeds, n)]
	}
	cfg.Secret = cluster.NewSecret()
	for i, a := range addresses {
		cfg.Addr, cfg.DataDir = a, filepath.Join(ps.dir, strconv.Itoa(i+1))
		p, err := ps.startProcess(setup{cfg, o.cuts, o.Guards})
		if err != nil {
			return err
		}
		ps.all = append(ps.all, p)
	}
	return ps.waitReady(ctx)
}

// waitReady waits until all processes wait for their start.
func (ps *processes) waitReady(ctx context.Context) error {
	_, err := ps.waitUntil(ctx, func() bool {
		return !slices.ContainsFunc(ps.all, func(p *process) bool { return !p.ready })
	})
	return err
}

// freeAddresses finds unused addresses.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer c.Close() // closed at the end, so that each address is found only once
		all = append(all, c.LocalAddr().String())
	}
	return all, nil
}

func (ps *processes) startProcess(s setup) (*process, error) {
	cmd, err := children.Command(childVariable, s)
	if err != nil {
		return nil, err
	}
	p := &process{address: s.Config.Addr, setup: s, answers: make(chan answer, 1)}
	p.Process, err = ps.group.Start(cmd, func(text []byte) { ps.takeLine(p, text) })
	return p, err
}

// takeLine stores what a node has printed.
func (ps *processes) takeLine(p *process, text []byte) {
	var l line
	switch err := json.Unmarshal(text, &l); {
	case err != nil: // printed by a library
	case l.View != nil:
		ps.group.Change(func() { p.ready, p.view = true, *l.View })
	case l.Holding != nil:
		ps.group.Change(func() { p.holding = *l.Holding })
	case l.Following != nil:
		ps.group.Change(func() { p.following = *l.Following })
	case l.Shard != nil:
		ps.group.Change(func() { ps.takeShard(p, *l.Shard) })
	case l.Answer != nil:
		p.answers <- *l.Answer
	}
}

// sendOrder sends an order and waits for the answer. A node runs one order at a time.
func (p *process) sendOrder(ctx context.Context, o order) (answer, error) {
	if err := p.Send(o); err != nil {
		return answer{}, err
	}
	select {
	case a := <-p.answers:
		if a.Fault != "" {
			return a, errors.New(a.Fault)
		}
		return a, nil
	case <-p.Ended:
		return answer{}, fmt.Errorf("%w: %s", children.ErrEnded, p.address)
	case <-time.After(o.For + longestWait):
		return answer{}, fmt.Errorf("%s: %w (%v)", o.Do, children.ErrSlow, o.For+longestWait)
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// beginAll starts all nodes simultaneously and returns the time.
func (ps *processes) beginAll() (at int64, err error) {
	if ps.began, err = ps.processorTime(); err != nil {
		return 0, err
	}
	at = children.ReadMonotonic()
	for _, p := range ps.all {
		if err := p.Send("go"); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// waitUntil blocks until a condition is met, and returns the time at which the last live node got
// its current view. It holds ps.group while it checks the condition.
func (ps *processes) waitUntil(ctx context.Context, is func() bool) (last int64, err error) {
	err = ps.group.WaitUntil(ctx, longestWait, func() bool {
		last = 0
		for _, p := range ps.listAlive() {
			last = max(last, p.view.At)
		}
		return is()
	})
	return last, err
}

// listAlive lists the live nodes. ps.group must be held.
func (ps *processes) listAlive() []*process {
	var all []*process
	for _, p := range ps.all {
		if p.Alive() {
			all = append(all, p)
		}
	}
	return all
}

// haveAgreed reports whether all live nodes see the same quorate leader, whose token is greater
// than the given one, and the given number of active members. If that number is 0, any is accepted.
// ps.group must be held.
func (ps *processes) haveAgreed(above uint64, active int) bool {
	all := ps.listAlive()
	for _, p := range all {
		if p.view.Leader == "" || p.view.Token <= above || p.view.Token != all[0].view.Token ||
			active > 0 && p.view.Active != active {
			return false
		}
	}
	return len(all) > 0
}

// isLost reports whether no live node sees p as active. It also returns the time at which
// the first node lost p, or 0. ps.group must be held.
func (ps *processes) isLost(p *process) (first int64, all bool) {
	all = true
	for _, other := range ps.listAlive() {
		switch at := other.view.At; {
		case !slices.Contains(other.view.Lost, p.address):
			all = false
		case first == 0 || at < first:
			first = at
		}
	}
	return first, all
}

// findLeader returns the leader that the live nodes have agreed on.
func (ps *processes) findLeader() (leader *process) {
	ps.group.Read(func() {
		for _, p := range ps.listAlive() {
			if p.view.Leader == p.address {
				leader = p
			}
		}
	})
	return leader
}

// killAll kills every node and removes the stores.
func (ps *processes) killAll() {
	ps.group.KillAll()
	_ = os.RemoveAll(ps.dir) // an error only leaves files in a temporary folder
}
