// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/supervised"
	"github.com/athena-go/athena/internal/adminapi"
)

// demoSeeds is how many nodes of the demo are seeds, where it has so many.
const demoSeeds = 3

// leavePatience is how long a node of the demo may take to leave in order.
const leavePatience = 10 * time.Second

// Errors of what is done to a node.
var (
	errRunning    = errors.New("it is running")
	errNotRunning = errors.New("it is not running")
)

// node is one node of the demo, running or not. Its fields are guarded by the
// fleet's lock.
type node struct {
	name    string
	address string
	proc    *process         // nil while it does not run
	ran     bool             // it was started before
	admin   string           // empty until it listens
	status  *adminapi.Status // nil while it is not known
	resumes int              // how often the process was paused and went on
	paused  bool
	cut     bool
}

// fleet is the nodes of the demo.
type fleet struct {
	dir   string // of secret, stores and logs
	nodes []*node
	tell  *narrator

	mu      sync.Mutex
	closing bool
	at      time.Time     // of the last change
	changed chan struct{} // closed at the next one
}

// newFleet prepares nodes n1, n2, ... on free ports of the loopback address,
// with a secret of their own in dir, which it makes. None runs yet.
func newFleet(dir string, size int, tell *narrator) (*fleet, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), cluster.NewSecret(), 0o600); err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(size)
	if err != nil {
		return nil, err
	}
	f := &fleet{dir: dir, tell: tell, changed: make(chan struct{})}
	for i, a := range addresses {
		f.nodes = append(f.nodes, &node{name: "n" + strconv.Itoa(i+1), address: a})
	}
	return f, nil
}

// freeAddresses finds addresses that nobody uses at the moment. Somebody may
// take one before a node does, which then fails to start.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer c.Close() // not before all are found, or one is found twice
		addresses = append(addresses, c.LocalAddr().String())
	}
	return addresses, nil
}

// startNode starts a node that does not run.
func (f *fleet) startNode(n *node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.proc != nil || f.closing {
		return errRunning
	}
	log, err := os.OpenFile(f.logOf(n), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	n.proc, err = startProcess(f.nodeFlags(n), log,
		func(r supervised.Report) { f.onReport(n, r) },
		func(err error) { f.onExit(n, err) })
	if err != nil {
		return err
	}
	if n.ran { // what is started first is told together
		f.tell.printLine(time.Now(), "%s is started again, process %d", n.name, n.proc.processID())
	}
	n.ran = true
	return nil
}

func (f *fleet) logOf(n *node) string { return filepath.Join(f.dir, n.name+".log") }

func (f *fleet) nodeFlags(n *node) []string {
	var seeds []string
	for _, s := range f.nodes[:min(demoSeeds, len(f.nodes))] {
		seeds = append(seeds, s.address)
	}
	return []string{
		"--addr", n.address, "--name", n.name, "--cluster", "demo",
		"--size", strconv.Itoa(len(f.nodes)), "--seeds", strings.Join(seeds, ","),
		"--secret-file", filepath.Join(f.dir, "secret"), "--data-dir", filepath.Join(f.dir, n.name),
		"--admin", "127.0.0.1:0", "--admin-write", "--log-format", "json",
	}
}

func (f *fleet) onReport(n *node, r supervised.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Admin != "" {
		n.admin = r.Admin
	}
	if r.Status != nil && r.Asked == n.resumes { // else of before it stood still
		n.status = r.Status
	}
	f.noteChange()
}

func (f *fleet) onExit(n *node, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n = node{name: n.name, address: n.address, ran: n.ran}
	if !f.closing {
		f.tell.tellExit(n, err)
	}
	f.noteChange()
}

// noteChange tells the story on and wakes who waits.
func (f *fleet) noteChange() {
	f.at = time.Now()
	if !f.closing {
		f.tell.compareNodes(f.at, f.nodes)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// waitUntil blocks until is holds, and returns when it came to hold. is runs under
// the lock.
func (f *fleet) waitUntil(ctx context.Context, is func() bool) (time.Time, error) {
	for {
		f.mu.Lock()
		if is() {
			defer f.mu.Unlock()
			return f.at, nil
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// findNode returns a node by its name, nil when there is none.
func (f *fleet) findNode(name string) *node {
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return f.nodes[i]
}

// reachableNodes lists the nodes that answer, the leader first. It takes the lock.
func (f *fleet) reachableNodes() []node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []node
	leader := leaderOf(f.nodes)
	for _, n := range f.nodes {
		switch {
		case n.proc == nil || n.paused || n.admin == "":
		case n == leader:
			all = append([]node{*n}, all...)
		default:
			all = append(all, *n)
		}
	}
	return all
}

// killNode ends a node as a crash does.
func (f *fleet) killNode(n *node) error { return f.signalNode(n, syscall.SIGKILL) }

// pauseNode stops a node as a machine that hangs does; its socket stays open.
func (f *fleet) pauseNode(n *node) error { return f.signalNode(n, syscall.SIGSTOP) }

// resumeNode lets a paused node go on.
func (f *fleet) resumeNode(n *node) error { return f.signalNode(n, syscall.SIGCONT) }

func (f *fleet) signalNode(n *node, s syscall.Signal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.proc == nil {
		return errNotRunning
	}
	f.tell.tellSignal(n, s)
	if err := n.proc.sendSignal(s); err != nil {
		return err
	}
	return f.noteSignal(n, s)
}

// noteSignal is what follows from a signal that was sent. The caller holds the lock.
func (f *fleet) noteSignal(n *node, s syscall.Signal) error {
	if s == syscall.SIGCONT {
		// What it told before may be over: it has to tell anew.
		if err := n.proc.giveOrder(supervised.OrderReport, strconv.Itoa(n.resumes+1)); err != nil {
			return err
		}
		n.resumes++
		if n.paused {
			n.status = nil
		}
	}
	n.paused = s == syscall.SIGSTOP
	f.noteChange()
	return nil
}

// restartNode starts a node again; one that runs is killed first.
func (f *fleet) restartNode(n *node) error {
	f.mu.Lock()
	p := n.proc
	f.mu.Unlock()
	if p != nil {
		p.killAndWait()
		if _, err := f.waitUntil(context.Background(), func() bool { return n.proc != p }); err != nil {
			return err
		}
	}
	return f.startNode(n)
}

// letLeave lets a node leave in order, and waits until it is gone.
func (f *fleet) letLeave(ctx context.Context, n *node) error {
	f.mu.Lock()
	p := n.proc
	f.mu.Unlock()
	if p == nil {
		return errNotRunning
	}
	if err := p.sendSignal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leavePatience,
		fmt.Errorf("%s has not left after %v", n.name, leavePatience))
	defer cancel()
	_, err := f.waitUntil(ctx, func() bool { return n.proc != p })
	return err
}

// cutLinks cuts the links between the named nodes and all others.
func (f *fleet) cutLinks(group ...*node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	words := []string{supervised.OrderCut}
	for _, n := range f.nodes {
		if !slices.Contains(group, n) {
			words = append(words, n.address)
		}
	}
	for _, n := range group {
		if n.proc == nil {
			return errNotRunning
		}
		if err := n.proc.giveOrder(words...); err != nil {
			return err
		}
		n.cut = true
	}
	f.tell.tellCut(group)
	f.noteChange()
	return nil
}

// healLinks undoes part for the named nodes.
func (f *fleet) healLinks(group ...*node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range group {
		if n.proc == nil {
			return errNotRunning
		}
		if err := n.proc.giveOrder(supervised.OrderHeal); err != nil {
			return err
		}
		n.cut = false
	}
	f.tell.tellHealed(group)
	f.noteChange()
	return nil
}

// killAll kills every node and waits until all are gone.
func (f *fleet) killAll() {
	f.mu.Lock()
	f.closing = true
	var running []*process
	for _, n := range f.nodes {
		if n.proc != nil {
			running = append(running, n.proc)
		}
	}
	f.mu.Unlock()
	for _, p := range running {
		p.killAndWait()
	}
}
