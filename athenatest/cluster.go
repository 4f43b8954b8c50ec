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
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
)

const (
	defaultSize  = 3                // of Options.Size
	defaultDelay = time.Millisecond // of Options.Delay
	// Spares is the number of nodes that may run in addition to Size. A full cluster refuses them, or
	// they replace other nodes. Their numbers begin at Size.
	Spares = 2
)

// Options configures a test. The zero value means three nodes with the defaults below.
type Options struct {
	// Size is the number of members. Default: 3.
	Size int
	// Delay is the delay of each packet. Default: 1 ms.
	Delay time.Duration
	// TLS makes the nodes use TLS on TCP (package tlsnet) instead of QUIC.
	TLS bool
	// Config changes the configuration of node i before each of its starts. For example, it sets the
	// Receiver, which must be new at every start. All nodes are seeds, with the timings of
	// cluster.DefaultConfig and a DataDir that is kept across restarts.
	Config func(i int, c *cluster.Config)
	// Main is the program under test. It starts one node with cfg and opts, and may add options. It
	// returns when ctx is done, as it would after an interrupt or SIGTERM. Main may return earlier
	// only if its node has ended, and must then return nil. After Leave it must return nil or
	// context.Canceled. Otherwise the test fails. By default, Main runs a node that leaves when ctx is
	// done.
	Main func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error
}

// Cluster is a cluster under test. Its methods must be called from the goroutine of the test. A
// method that waits in vain fails the test with the state of every node. The test also fails if two
// nodes ever lead with authority at the same instant.
type Cluster struct {
	t       testing.TB
	opts    Options
	packets *simnet.PacketNet
	dir     string         // directory of the stores
	slots   []slot         // indexed by the number of the node
	older   []*process     // replaced by TakeOver, but still running
	ghosts  sync.WaitGroup // waits for processes that are ending and for the observers of nodes
	leases  leases
	timings cluster.Config // timings of the last start, with defaults
}

// slot holds the state of one node.
type slot struct {
	addr    member.Address
	present *process // nil if none is running
	store   int      // number of its store; increases with each new store
}

// Run runs f in a bubble of testing/synctest with a cluster whose nodes are all running and active,
// and follow the same leader.
func Run(t *testing.T, opts Options, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(t, opts)
		c.Start()
		c.WaitSettled()
		f(t, c)
	})
}

// New returns a cluster without running nodes, for use in a bubble of the test. All nodes end
// with the test.
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
		t.Fatalf("athenatest: Options.Delay is %v, want 0 or more", opts.Delay)
	}
	wantBubble(t)
	c := &Cluster{
		t:       t,
		opts:    opts,
		packets: simnet.NewPacketNet(opts.Delay),
		dir:     t.TempDir(),
		slots:   make([]slot, opts.Size+Spares),
		leases:  leases{t: t},
		timings: cluster.DefaultConfig(),
	}
	for i := range c.slots {
		host := i + 1
		c.slots[i].addr = member.Address{
			Host: fmt.Sprintf("10.0.%d.%d", host>>8, host&0xff), Port: 7000,
		}
	}
	t.Cleanup(c.closeAll)
	return c
}

// wantBubble fails a test outside of a bubble immediately, before it waits in real time.
func wantBubble(t testing.TB) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("athenatest: %v: call Run, or call New inside testing/synctest.Test", r)
		}
	}()
	synctest.Wait()
}

// serveNode is the default Main.
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
		return nil // the test ended the node
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

// Size returns the size of the full cluster.
func (c *Cluster) Size() int { return c.opts.Size }

// Address returns the address of node i, whether or not it is running.
func (c *Cluster) Address(i int) member.Address {
	return c.slotOf(i).addr // slotOf fails the test if there is no node i
}

// DataDir returns the directory of the store of node i, for its current or its next run. To
// simulate the loss of a disk, remove the directory while the node is not running.
func (c *Cluster) DataDir(i int) string {
	return filepath.Join(c.dir, fmt.Sprintf("%d-%d", i, c.slotOf(i).store))
}

// configOf returns the configuration of node i.
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

// optionsOf returns the options that connect a node to this cluster.
func (c *Cluster) optionsOf(p *process) []cluster.Option {
	network := cluster.WithSocket(p.openSocket(c.packets))
	if c.opts.TLS {
		network = cluster.WithTransport(p.openTLS(c.packets))
	}
	return []cluster.Option{
		network,
		cluster.WithClock(p.clock.now),
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithListening(func(n *cluster.Node) {
			p.setListening(n)
			c.ghosts.Go(func() { c.leases.followNode(p, n) })
		}),
	}
}
