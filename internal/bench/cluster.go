// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
)

// maxLineBytes bounds a line that a node prints.
const maxLineBytes = 64 << 10

var (
	errSlow  = errors.New("timed out")
	errEnded = errors.New("node stopped")
)

// process is one node.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	address string
	answers chan answer   // answer to the current order
	ended   chan struct{} // closed when the process has ended

	// The following fields are guarded by processes.mu.
	ready     bool
	holding   holding   // the latest one
	following following // the latest one
	dead      bool      // killed or stopped by the measurement, or stopped by itself
	view      nodeView
}

// processes are the nodes of one cluster.
type processes struct {
	dir   string
	all   []*process
	ended sync.WaitGroup
	began float64 // CPU time used before the start

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// newProcesses starts n processes with fresh stores that wait for beginAll.
func newProcesses(ctx context.Context, o Options, n int) (*processes, error) {
	dir, err := os.MkdirTemp(o.Dir, "athena-bench-")
	if err != nil {
		return nil, err
	}
	ps := &processes{dir: dir, changed: make(chan struct{})}
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
		if err := ps.addNode(setup{cfg, o.cuts}); err != nil {
			return err
		}
	}
	_, err = ps.waitUntil(ctx, func() bool {
		for _, p := range ps.all {
			if !p.ready {
				return false
			}
		}
		return true
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

func (ps *processes) addNode(s setup) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{
		cmd: cmd, address: s.Config.Addr,
		answers: make(chan answer, 1), ended: make(chan struct{}),
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ps.all = append(ps.all, p)
	ps.ended.Go(func() { ps.followOutput(p, out) })
	return nil
}

// followOutput reads the lines of a node until it ends.
func (ps *processes) followOutput(p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var l line
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case err != nil:
		case l.View != nil:
			ps.changeLocked(func() { p.ready, p.view = true, *l.View })
		case l.Holding != nil:
			ps.changeLocked(func() { p.holding = *l.Holding })
		case l.Following != nil:
			ps.changeLocked(func() { p.following = *l.Following })
		case l.Answer != nil:
			p.answers <- *l.Answer
		}
	}
	_ = p.cmd.Wait() // a failure shows as a missing view
	ps.changeLocked(func() { p.dead = true })
	close(p.ended)
}

// sendOrder sends an order and waits for the answer. A node runs one order at a time.
func (p *process) sendOrder(ctx context.Context, o order) (answer, error) {
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return answer{}, err
	}
	select {
	case a := <-p.answers:
		if a.Fault != "" {
			return a, errors.New(a.Fault)
		}
		return a, nil
	case <-p.ended:
		return answer{}, errEnded
	case <-time.After(o.For + longestWait):
		return answer{}, fmt.Errorf("%s: %w (%v)", o.Do, errSlow, o.For+longestWait)
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

func (ps *processes) changeLocked(do func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	do()
	close(ps.changed)
	ps.changed = make(chan struct{})
}

// beginAll starts all nodes simultaneously and returns the time.
func (ps *processes) beginAll() (at int64, err error) {
	if ps.began, err = ps.processorTime(); err != nil {
		return 0, err
	}
	at = readMonotonic()
	for _, p := range ps.all {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// waitUntil blocks until a condition is met, and returns the time at which the last live node got
// its current view. It holds ps.mu while it checks the condition.
func (ps *processes) waitUntil(ctx context.Context, is func() bool) (int64, error) {
	late := time.After(longestWait)
	for {
		ps.mu.Lock()
		if is() {
			defer ps.mu.Unlock()
			var last int64
			for _, p := range ps.listAlive() {
				last = max(last, p.view.At)
			}
			return last, nil
		}
		changed := ps.changed
		ps.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			return 0, fmt.Errorf("%w (%v)", errSlow, longestWait)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// listAlive lists the live nodes. ps.mu must be held.
func (ps *processes) listAlive() []*process {
	var all []*process
	for _, p := range ps.all {
		if !p.dead {
			all = append(all, p)
		}
	}
	return all
}

// haveAgreed reports whether all live nodes see the same quorate leader, with a token greater than
// above, and the given number of active members. If active is 0, any number is accepted. ps.mu must
// be held.
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

// isLost reports whether no live node sees p as active. It also returns the time at which the first
// node lost p, or 0 if no node has lost p. ps.mu must be held.
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
func (ps *processes) findLeader() *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.listAlive() {
		if p.view.Leader == p.address {
			return p
		}
	}
	return nil
}

// killNode sends a signal to a node, marks it as dead, and returns the time.
func (ps *processes) killNode(p *process, s syscall.Signal) (int64, error) {
	ps.mu.Lock()
	p.dead = true
	ps.mu.Unlock()
	at := readMonotonic()
	return at, p.cmd.Process.Signal(s)
}

// killAll kills every node and removes the stores.
func (ps *processes) killAll() {
	for _, p := range ps.all {
		_ = p.cmd.Process.Kill() // fails only if the process has ended
	}
	ps.ended.Wait()
	_ = os.RemoveAll(ps.dir) // an error only leaves files in a temporary folder
}
