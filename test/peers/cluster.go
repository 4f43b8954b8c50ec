// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// longestWait is the timeout of each event that is measured.
	longestWait = 40 * time.Second
	// maxLineBytes bounds a line of a child.
	maxLineBytes = 64 << 10
)

var (
	errSlow  = errors.New("timed out")
	errEnded = errors.New("a process ended by itself")
)

// process is a node of a cluster.
type process struct {
	name    string
	cmd     *exec.Cmd
	orders  *json.Encoder
	answers chan report
	ended   chan struct{} // closed when the process has ended

	// The following fields are guarded by processes.mu.
	view nodeView
	at   int64 // monotonic time of the view
	dead bool  // killed or stopped by the measurement
}

// processes are the nodes of a cluster.
type processes struct {
	peer nodePeer
	dir  string
	all  []*process

	mu      sync.Mutex
	changed notification
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
	c := &processes{peer: p, dir: dir, changed: newNotification()}
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
	cmd, err := newChild(child{Node: &s})
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{
		name: s.name(s.Index), cmd: cmd, orders: json.NewEncoder(in),
		answers: make(chan report, 1), ended: make(chan struct{}),
	}
	c.all = append(c.all, p)
	go c.followOutput(p, out)
	return nil
}

// followOutput reads the lines of a process until it ends.
func (c *processes) followOutput(p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var r report
		switch err := json.Unmarshal(lines.Bytes(), &r); {
		case err != nil: // printed by a library
		case r.View != nil:
			c.mu.Lock()
			p.view, p.at = *r.View, r.At
			c.mu.Unlock()
			c.changed.notify()
		default:
			p.answers <- r
		}
	}
	_ = p.cmd.Wait() // a failure shows as a missing view or answer
	close(p.ended)
	c.changed.notify()
}

// order sends an order, which is answered later.
func (p *process) order(o order) error { return p.orders.Encode(o) }

// wait waits for the answer to an order.
func (p *process) wait(ctx context.Context, timeout time.Duration) (report, error) {
	select {
	case r := <-p.answers:
		if r.Fault != "" {
			return r, fmt.Errorf("%s: %s", r.Done, r.Fault)
		}
		return r, nil
	case <-p.ended:
		return report{}, fmt.Errorf("%w: %s", errEnded, p.name)
	case <-time.After(timeout):
		return report{}, fmt.Errorf("%s: %w (%v)", p.name, errSlow, timeout)
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
}

// start starts all nodes and returns the time.
func (c *processes) start() (began int64, err error) {
	began = readMonotonic()
	for _, p := range c.all {
		if err := p.order(order{Do: doStart}); err != nil {
			return 0, err
		}
	}
	return began, nil
}

// listAlive lists the live nodes. c.mu must be held.
func (c *processes) listAlive() (alive []*process) {
	for _, p := range c.all {
		if !p.dead {
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
	late := time.After(longestWait)
	for {
		c.mu.Lock()
		alive := c.listAlive()
		done := is(alive)
		for _, p := range alive {
			last = max(last, p.at)
		}
		c.mu.Unlock()
		if done {
			return last, nil
		}
		for _, p := range alive {
			if p.hasEnded() {
				return 0, fmt.Errorf("%w: %s", errEnded, p.name)
			}
		}
		select {
		case <-c.changed:
		case <-late:
			return 0, fmt.Errorf("%w (%v)", errSlow, longestWait)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// agree returns a condition for waitUntil: each node sees the given number of members; 0 means any
// number. If the peer elects a leader, all nodes must name the same leader, which must differ from
// before.
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

// leader returns the leader that the live nodes name, or nil.
func (c *processes) leader() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	alive := c.listAlive()
	for _, p := range alive {
		if p.name == alive[0].view.Leader {
			return p
		}
	}
	return nil
}

// kill sends a signal to a node, marks the node as dead, and returns the time.
func (c *processes) kill(p *process, s syscall.Signal) (int64, error) {
	c.mu.Lock()
	p.dead = true
	c.mu.Unlock()
	at := readMonotonic()
	return at, p.cmd.Process.Signal(s)
}

// close kills all nodes and removes their stores.
func (c *processes) close() error {
	for _, p := range c.all {
		_ = p.cmd.Process.Kill() // fails only if the process has ended
	}
	for _, p := range c.all {
		<-p.ended
	}
	return os.RemoveAll(c.dir)
}

// usage returns the CPU time of all nodes in nanoseconds, and their resident memory in bytes. The
// times of /proc/PID/stat are in clock ticks, which are too coarse.
func (c *processes) usage() (cpu, memory float64, err error) {
	for _, p := range c.all {
		root := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
		threads, err := filepath.Glob(root + "/task/*/schedstat")
		if err != nil {
			return 0, 0, err
		}
		for _, t := range append(threads, root+"/statm") {
			text, err := os.ReadFile(t)
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // the thread has ended
			}
			var first, second float64
			if err == nil {
				_, err = fmt.Sscan(string(text), &first, &second)
			}
			if err != nil {
				return 0, 0, fmt.Errorf("%s: %w", t, err)
			}
			if filepath.Base(t) == "statm" {
				memory += second * float64(os.Getpagesize())
			} else {
				cpu += first
			}
		}
	}
	return cpu, memory, nil
}
