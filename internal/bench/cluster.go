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

// maxLineBytes bounds a line of a node.
const maxLineBytes = 64 << 10

var (
	errSlow  = errors.New("did not happen in time")
	errEnded = errors.New("the node ended")
)

// process is one node.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	address string
	answers chan answer   // to the one order under way
	ended   chan struct{} // closed then

	// Guarded by the lock of its processes.
	ready   bool
	held    holding   // the newest
	follows following // the newest
	dead    bool      // killed or stopped by the measurement, or ended by itself
	sees    sight
}

// processes are the nodes of one cluster.
type processes struct {
	dir   string
	all   []*process
	ended sync.WaitGroup
	began float64 // what spent was then

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// newProcesses starts n processes that wait to be told to begin, with fresh
// stores.
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

// freeAddresses finds addresses that nobody uses at the moment.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer c.Close() // not before all are found, or one is found twice
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

// followOutput reads what a node says until it ends.
func (ps *processes) followOutput(p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var l line
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case err != nil:
		case l.Sight != nil:
			ps.changeLocked(func() { p.ready, p.sees = true, *l.Sight })
		case l.Holding != nil:
			ps.changeLocked(func() { p.held = *l.Holding })
		case l.Following != nil:
			ps.changeLocked(func() { p.follows = *l.Following })
		case l.Answer != nil:
			p.answers <- *l.Answer
		}
	}
	_ = p.cmd.Wait() // by a signal, or by a fault that shows as a missing view
	ps.changeLocked(func() { p.dead = true })
	close(p.ended)
}

// askNode gives an order and waits for the answer. A node has one order at a time.
func (p *process) askNode(ctx context.Context, o order) (answer, error) {
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
	case <-time.After(o.For + patience):
		return answer{}, fmt.Errorf("%s: %w (%v)", o.Do, errSlow, o.For+patience)
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

// beginAll lets every node begin at once, and returns when that was.
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

// waitUntil blocks until is holds, and returns when the last node alive came to what
// it sees. is runs under the lock.
func (ps *processes) waitUntil(ctx context.Context, is func() bool) (int64, error) {
	late := time.After(patience)
	for {
		ps.mu.Lock()
		if is() {
			defer ps.mu.Unlock()
			var last int64
			for _, p := range ps.listAlive() {
				last = max(last, p.sees.At)
			}
			return last, nil
		}
		changed := ps.changed
		ps.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			return 0, fmt.Errorf("%w (%v)", errSlow, patience)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// listAlive lists the nodes that were not killed. It needs the lock.
func (ps *processes) listAlive() []*process {
	var all []*process
	for _, p := range ps.all {
		if !p.dead {
			all = append(all, p)
		}
	}
	return all
}

// doAgree reports whether the nodes alive see one quorate leader of a token above
// another, and so many active members, 0 for any number.
func (ps *processes) doAgree(above uint64, active int) bool {
	all := ps.listAlive()
	for _, p := range all {
		if p.sees.Leader == "" || p.sees.Token <= above || p.sees.Token != all[0].sees.Token ||
			active > 0 && p.sees.Active != active {
			return false
		}
	}
	return len(all) > 0
}

// isLost reports whether no node alive sees p as active, which all saw so before,
// and since when one does not, 0 for none.
func (ps *processes) isLost(p *process) (first int64, all bool) {
	all = true
	for _, other := range ps.listAlive() {
		switch at := other.sees.At; {
		case !slices.Contains(other.sees.Lost, p.address):
			all = false
		case first == 0 || at < first:
			first = at
		}
	}
	return first, all
}

// findLeader is the node that all follow, after agree.
func (ps *processes) findLeader() *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.listAlive() {
		if p.sees.Leader == p.address {
			return p
		}
	}
	return nil
}

// killNode sends a node the signal of its death, and returns when that was.
func (ps *processes) killNode(p *process, s syscall.Signal) (int64, error) {
	ps.mu.Lock()
	p.dead = true
	ps.mu.Unlock()
	at := readMonotonic()
	return at, p.cmd.Process.Signal(s)
}

// killAll kills every node and takes their stores away.
func (ps *processes) killAll() {
	for _, p := range ps.all {
		_ = p.cmd.Process.Kill() // fails only for one that has ended
	}
	ps.ended.Wait()
	_ = os.RemoveAll(ps.dir) // what is left is in a folder for temporary files
}
