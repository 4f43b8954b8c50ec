// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/transporttest"
	"github.com/athena-go/athena/member"
)

const (
	defaultSize  = 3                // of Options without a Size
	defaultDelay = time.Millisecond // of Options without a Delay
	// Spares is how many nodes there may be beyond Size, numbered from Size on: for
	// one that finds the cluster full, or takes the place of another.
	Spares = 2
)

// Options say what is tested. The zero value is three plain nodes.
type Options struct {
	// Size is the number of members. Default: 3.
	Size int
	// Delay is what each packet takes. Default: 1 ms.
	Delay time.Duration
	// Config changes the configuration of node i before each of its starts; its
	// Receiver for example, which every start needs anew. All nodes are seeds, with
	// the timings of cluster.DefaultConfig and a DataDir that is kept over restarts.
	Config func(i int, c *cluster.Config)
	// Main is a process of the program under test. It starts one node with cfg and opts,
	// to which it may add, and returns when ctx ends, which stands for an interrupt or
	// SIGTERM. Returning earlier fails the test, unless Main returns nil after its node
	// has ended. So does an error after a Leave other than context.Canceled. Default: a
	// node and nothing else, which leaves in order.
	Main func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error
}

// Cluster is what a test has in its hands. Its methods are for the goroutine of the
// test alone. They fail it where something does not happen, and say then what every
// node believes. A test also fails where two nodes lead with authority at one instant,
// whatever it does meanwhile.
type Cluster struct {
	t       testing.TB
	opts    Options
	packets *transporttest.PacketNet
	dir     string         // of the stores
	slots   []slot         // by the number of the node
	older   []*process     // those that TakeOver left behind
	ghosts  sync.WaitGroup // what is left of those that ended, and who follows nodes
	leases  leases
	timings cluster.Config // of the last start, with its defaults
}

// slot is the place of one node.
type slot struct {
	present *process // nil where none runs
	store   int      // grows whenever the store is another one
}

// Run runs f in a bubble with a cluster that has formed: all nodes run, are active,
// and follow one leader.
func Run(t *testing.T, opts Options, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(t, opts)
		c.Start()
		c.WaitSettled()
		f(t, c)
	})
}

// New makes a cluster for use in a bubble of the test's own. No node runs yet. It
// ends all that run when the test does.
func New(t testing.TB, opts Options) *Cluster {
	t.Helper()
	opts.Size = cmp.Or(opts.Size, defaultSize)
	opts.Delay = cmp.Or(opts.Delay, defaultDelay)
	if opts.Main == nil {
		opts.Main = serveNode
	}
	if opts.Size < 1 || opts.Size > member.MaxMembers {
		t.Fatalf("athenatest: Options.Size is %d, want 1 to %d", opts.Size, member.MaxMembers)
	}
	if opts.Delay < 0 {
		t.Fatalf("athenatest: Options.Delay is %v, want none below 0", opts.Delay)
	}
	wantBubble(t)
	c := &Cluster{
		t:       t,
		opts:    opts,
		packets: transporttest.NewPacketNet(opts.Delay),
		dir:     t.TempDir(),
		slots:   make([]slot, opts.Size+Spares),
		leases:  leases{t: t},
		timings: cluster.DefaultConfig(),
	}
	t.Cleanup(c.closeAll)
	return c
}

// wantBubble fails a test that is in none, before something waits in real time.
func wantBubble(t testing.TB) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("athenatest: %v: call Run, or New within testing/synctest.Test", r)
		}
	}()
	synctest.Wait()
}

// serveNode is the Main of those who have none.
func serveNode(ctx context.Context, _ int, cfg cluster.Config, opts ...cluster.Option) error {
	n, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return n.Leave(context.WithoutCancel(ctx))
	case <-n.Done():
	}
	if errors.Is(n.Err(), cluster.ErrLeft) || errors.Is(n.Err(), cluster.ErrClosed) {
		return nil // the test said so
	}
	return n.Err()
}

// closeAll ends everything.
func (c *Cluster) closeAll() {
	for i := range c.slots {
		if p := c.cutOff(i); p != nil {
			c.reapProcess(p)
		}
	}
	for _, p := range c.older {
		c.reapProcess(p)
	}
	c.ghosts.Wait()
}

// Size is that of the full cluster.
func (c *Cluster) Size() int { return c.opts.Size }

// Address is that of node i, at which nothing has to run.
func (c *Cluster) Address(i int) member.Address {
	c.t.Helper()
	c.slotOf(i) // fails where there is none
	host := i + 1
	return member.Address{Host: fmt.Sprintf("10.0.%d.%d", host>>8, host&0xff), Port: 7000}
}

// DataDir is the directory of the store of node i, of its present run or of the next
// one. To remove it while the node does not run is to lose the disk.
func (c *Cluster) DataDir(i int) string {
	return filepath.Join(c.dir, fmt.Sprintf("%d-%d", i, c.slotOf(i).store))
}

// configOf is what node i starts with.
func (c *Cluster) configOf(i int) cluster.Config {
	cfg := cluster.DefaultConfig()
	cfg.Addr, cfg.Name, cfg.Size = c.Address(i).String(), fmt.Sprint("n", i), c.opts.Size
	cfg.Secret = []byte("DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg=")
	cfg.DataDir = c.DataDir(i)
	for seed := range c.opts.Size {
		cfg.Seeds = append(cfg.Seeds, c.Address(seed).String())
	}
	if c.opts.Config != nil {
		c.opts.Config(i, &cfg)
	}
	return cfg
}

// optionsOf are those that make node i part of this cluster.
func (c *Cluster) optionsOf(p *process) []cluster.Option {
	return []cluster.Option{
		cluster.WithSocket(p.openSocket(c.packets)),
		cluster.WithClock(p.clock.now),
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithListening(func(n *cluster.Node) {
			p.setListening(n)
			c.ghosts.Go(func() { c.leases.followNode(p, n) })
		}),
	}
}
