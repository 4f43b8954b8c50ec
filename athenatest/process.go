// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// process is one run of Main.
type process struct {
	host  int
	clock clock
	stop  context.CancelFunc
	ended chan struct{} // closed when Main has returned
	err   error         // the error that Main returned; written before ended is closed

	mu   sync.Mutex
	node *cluster.Node // nil until the node listens
}

func (p *process) setListening(n *cluster.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = n
}

// listeningNode returns the node of the process, or nil if it does not listen yet.
func (p *process) listeningNode() *cluster.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// joinedNode returns the node of the process, or nil if the node is not an active member.
func (p *process) joinedNode() *cluster.Node {
	n := p.listeningNode()
	if n == nil {
		return nil
	}
	v := n.View()
	m, _ := v.Member(v.Self.Address)
	if v.Leader.IsZero() || m.Identity != v.Self || m.Status != member.Active {
		return nil
	}
	return n
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (c *Cluster) slotOf(i int) *slot {
	if i < 0 || i >= len(c.slots) {
		c.t.Helper()
		c.t.Fatalf("athenatest: there is no node %d, want 0 to %d", i, len(c.slots)-1)
	}
	return &c.slots[i]
}

// processOf returns the process of node i.
func (c *Cluster) processOf(i int) *process {
	c.t.Helper()
	p := c.slotOf(i).present
	if p == nil {
		c.t.Fatalf("athenatest: node %d is not running%s", i, c)
	}
	return p
}

// awakeProcess returns the process of node i, which must not be paused.
func (c *Cluster) awakeProcess(i int) *process {
	c.t.Helper()
	p := c.processOf(i)
	if p.clock.isShut() {
		c.t.Fatalf("athenatest: node %d is paused: call Resume first", i)
	}
	return p
}

// Start starts the given nodes, each with the store of its last run, without waiting for them.
// Without arguments it starts all nodes of the full cluster that are not running.
func (c *Cluster) Start(nodes ...int) {
	c.t.Helper()
	if len(nodes) == 0 {
		for i := range c.opts.Size {
			if c.slots[i].present == nil {
				nodes = append(nodes, i)
			}
		}
	}
	for _, i := range nodes {
		if c.slotOf(i).present != nil {
			c.t.Fatalf("athenatest: node %d is already running", i)
		}
		// This context must outlive that of the test, which ends before the nodes do.
		ctx, stop := context.WithCancel(context.Background())
		p := &process{host: i, stop: stop, ended: make(chan struct{})}
		c.slots[i].present = p
		cfg := c.configOf(i)
		c.timings = cfg.WithDefaults()
		go func() {
			defer close(p.ended)
			p.err = c.opts.Main(ctx, i, cfg, c.optionsOf(p)...)
		}()
	}
}

// Restart starts one node and waits until it is an active member.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.Start(i)
	c.Within(c.waitLimit(), fmt.Sprintf("membership of node %d", i), func() bool {
		return c.processOf(i).joinedNode() != nil
	})
}

// Crash ends node i, if it is running, like SIGKILL: the other nodes receive nothing more
// from it, and its store stays as it is. Because goroutines cannot be killed, the context of Main
// ends and its node is closed. Until Main returns, it cannot affect the cluster, but it may still
// change state that it shares with the test.
func (c *Cluster) Crash(i int) {
	c.t.Helper()
	synctest.Wait()
	before := c.DataDir(i)
	if p := c.cutOff(i); p != nil {
		c.slots[i].store++
		c.copyStore(before, c.DataDir(i))
		c.reapProcess(p)
	}
}

// TakeOver starts a second process as node i while the first one keeps running, as if a
// supervisor replaced a process that it cannot reach. It returns the node of the older
// process. The newer process gets all packets for the address, and begins with an empty store. If
// copied is set, it begins with a copy of the older process's store, and the authority of the older
// process is not checked: in production, the lock of the store keeps two processes from using one
// store.
func (c *Cluster) TakeOver(i int, copied bool) (older *cluster.Node) {
	c.t.Helper()
	older = c.Node(i)
	s, before := c.slotOf(i), c.DataDir(i)
	c.older = append(c.older, s.present)
	s.present = nil
	s.store++
	if copied {
		c.leases.forgetProcess(c.older[len(c.older)-1])
		c.copyStore(before, c.DataDir(i))
	}
	c.Start(i)
	return older
}

// cutOff removes a process from the cluster.
func (c *Cluster) cutOff(i int) *process {
	p := c.slots[i].present
	if p == nil {
		return nil
	}
	c.packets.Kill(c.Address(i))
	c.slots[i].present = nil
	return p
}

// reapProcess ends a process in the background, because ending it takes time.
func (c *Cluster) reapProcess(p *process) {
	c.leases.forgetProcess(p)
	p.clock.goOn()
	p.stop()
	limit := c.waitLimit() // based on the current timings
	c.ghosts.Go(func() {
		if n := p.listeningNode(); n != nil {
			if err := n.Close(); err != nil {
				c.t.Errorf("athenatest: node %d: Close: %v", p.host, err)
			}
		}
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			c.t.Errorf("athenatest: Main of node %d has not returned %v after its context ended",
				p.host, limit)
		}
	})
}

// Leave ends node i like SIGTERM: the context of its Main ends, and Main must leave the cluster
// and return.
func (c *Cluster) Leave(i int) {
	c.t.Helper()
	c.awakeProcess(i).stop()
	if err := c.WaitEnd(i); err != nil && !errors.Is(err, context.Canceled) {
		c.t.Fatalf("athenatest: Main of node %d returned after its context ended: %v%s", i, err, c)
	}
}

// WaitEnd waits until Main of node i has returned, and returns its error. Use it for nodes
// that are expected to fail at start.
func (c *Cluster) WaitEnd(i int) error {
	c.t.Helper()
	p := c.processOf(i)
	begin := time.Now()
	for synctest.Wait(); !p.hasEnded(); synctest.Wait() {
		if time.Since(begin) >= c.waitLimit() {
			c.t.Fatalf("athenatest: Main of node %d has not returned within %v%s", i, c.waitLimit(), c)
		}
		time.Sleep(step)
	}
	c.slots[i].present = nil
	return p.err
}

func (c *Cluster) copyStore(from, to string) {
	c.t.Helper()
	files, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return // there is no store yet
	}
	err = errors.Join(err, os.Mkdir(to, 0o700))
	for _, f := range files {
		content, unread := os.ReadFile(filepath.Join(from, f.Name()))
		err = errors.Join(err, unread, os.WriteFile(filepath.Join(to, f.Name()), content, 0o600))
	}
	if err != nil {
		c.t.Fatalf("athenatest: copy the store: %v", err)
	}
}
