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

// maxSeeds is the maximum number of seeds in a demo.
const maxSeeds = 3

// leaveTimeout limits how long a node may take to leave.
const leaveTimeout = 10 * time.Second

// Errors of fault injection.
var (
	errRunning    = errors.New("the node is already running")
	errNotRunning = errors.New("the node is not running")
)

// node is a node of the demo, whether it is running or not. The lock of the fleet guards its
// fields.
type node struct {
	name    string
	address string
	proc    *process         // nil while the node is not running
	ran     bool             // whether the node has ever been started
	admin   string           // empty until the node listens
	status  *adminapi.Status // nil while unknown
	resumes int              // how often the process was resumed
	paused  bool
	cut     bool
}

// fleet is the set of nodes of the demo.
type fleet struct {
	dir   string // directory of the secret, stores and logs
	nodes []*node
	tell  *narrator

	mu      sync.Mutex
	closing bool
	at      time.Time     // time of the last change
	changed chan struct{} // closed at the next change
}

// newFleet creates nodes n1, n2, ... on free loopback ports, and the directory dir with a new
// secret. It does not start the nodes.
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

// freeAddresses returns free loopback addresses. If another process takes one of them before the
// node does, the node fails to start.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer c.Close() // stays open until the end, so that all addresses differ
		addresses = append(addresses, c.LocalAddr().String())
	}
	return addresses, nil
}

// startNode starts a node that is not running.
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
	defer log.Close() // the child process has a copy
	n.proc, err = startProcess(f.nodeFlags(n), log,
		func(r supervised.Report) { f.onReport(n, r) },
		func(err error) { f.onExit(n, err) })
	if err != nil {
		return err
	}
	if n.ran { // printHelp reports the first start
		f.tell.printLine(time.Now(), "%s restarted, process %d", n.name, n.proc.processID())
	}
	n.ran = true
	return nil
}

func (f *fleet) logOf(n *node) string { return filepath.Join(f.dir, n.name+".log") }

func (f *fleet) nodeFlags(n *node) []string {
	var seeds []string
	for _, s := range f.nodes[:min(maxSeeds, len(f.nodes))] {
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
	if r.Status != nil && r.Asked == n.resumes { // ignore statuses from before a pause
		n.status = r.Status
	}
	f.noteChange()
}

func (f *fleet) onExit(n *node, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n = node{name: n.name, address: n.address, ran: n.ran}
	if !f.closing {
		f.tell.printExit(n, err)
	}
	f.noteChange()
}

// noteChange prints the changes and wakes waitUntil. f.mu must be held.
func (f *fleet) noteChange() {
	f.at = time.Now()
	if !f.closing {
		f.tell.compareNodes(f.at, f.nodes)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// waitUntil blocks until the condition returns true, and returns the time of the change that made
// it true. It calls the condition with f.mu held.
func (f *fleet) waitUntil(ctx context.Context, condition func() bool) (time.Time, error) {
	for {
		f.mu.Lock()
		if condition() {
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

// findNode returns the node with the given name, or nil.
func (f *fleet) findNode(name string) *node {
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return f.nodes[i]
}

// reachableNodes returns copies of the running nodes that listen, with the leader first.
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

// killNode kills a node, as in a crash.
func (f *fleet) killNode(n *node) error { return f.signalNode(n, syscall.SIGKILL) }

// pauseNode pauses a node, as if its machine hung; its socket stays open.
func (f *fleet) pauseNode(n *node) error { return f.signalNode(n, syscall.SIGSTOP) }

// resumeNode resumes a paused node.
func (f *fleet) resumeNode(n *node) error { return f.signalNode(n, syscall.SIGCONT) }

func (f *fleet) signalNode(n *node, s syscall.Signal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.proc == nil {
		return errNotRunning
	}
	f.tell.printSignal(n, s)
	if err := n.proc.sendSignal(s); err != nil {
		return err
	}
	return f.noteSignal(n, s)
}

// noteSignal updates the state of a node after a signal. f.mu must be held.
func (f *fleet) noteSignal(n *node, s syscall.Signal) error {
	if s == syscall.SIGCONT {
		// Reports from before the pause may be outdated, so request a new one.
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

// restartNode starts a node, and kills it first if it is running.
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

// stopNode makes a node leave the cluster, and waits until it has exited.
func (f *fleet) stopNode(ctx context.Context, n *node) error {
	f.mu.Lock()
	p := n.proc
	f.mu.Unlock()
	if p == nil {
		return errNotRunning
	}
	if err := p.sendSignal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leaveTimeout,
		fmt.Errorf("%s has not exited after %v", n.name, leaveTimeout))
	defer cancel()
	_, err := f.waitUntil(ctx, func() bool { return n.proc != p })
	return err
}

// cutLinks drops all packets between the nodes in a group and all other nodes.
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
	f.tell.printCut(group)
	f.noteChange()
	return nil
}

// healLinks undoes cutLinks for the nodes in a group.
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
	f.tell.printHealed(group)
	f.noteChange()
	return nil
}

// killAll kills all nodes and waits until they have exited.
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
