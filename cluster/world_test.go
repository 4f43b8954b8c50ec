// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster in a synctest bubble. Node i has port 7001+i, and all nodes are seeds.
type world struct {
	t     *testing.T
	net   *memnet.Network
	size  int
	first int // offset of the ports, if two clusters share a network
	nodes []*Node
	// receivers returns the receiver of node i.
	receivers func(i int) *receiver.Mux
	// dir returns the data directory of node i. If dir is nil, stores are in memory.
	dir func(i int) string
	// own returns an additional option for node i; may be nil.
	own func(i int) Option
	// profile is the configuration with which form starts each node.
	profile Config
	book    *book // what the nodes log
}

func newWorld(t *testing.T, size int) *world {
	return &world{
		t:         t,
		net:       memnet.New(),
		size:      size,
		receivers: func(int) *receiver.Mux { return receiver.NewMux() },
		book:      newBook(t),
	}
}

// inWorld runs a test with a number of nodes that have formed a cluster.
func inWorld(t *testing.T, size int, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size)
		defer w.close()
		w.form()
		test(t, w)
	})
}

// form starts all nodes and waits until they have a leader and are all active.
func (w *world) form() {
	w.t.Helper()
	w.nodes = make([]*Node, w.size)
	started := make(chan error)
	for i := range w.nodes {
		go func() {
			var err error
			w.nodes[i], err = w.start(i, w.profile)
			started <- err
		}()
	}
	for range w.nodes {
		if err := <-started; err != nil {
			w.t.Fatalf("Start: %v", err)
		}
	}
	for _, n := range w.nodes {
		if err := n.WaitActive(w.t.Context(), w.size); err != nil {
			w.t.Fatalf("WaitActive: %v", err)
		}
	}
}

// start starts node i with cfg, completed by the defaults of a world.
func (w *world) start(i int, cfg Config, opts ...Option) (*Node, error) {
	return Start(w.t.Context(), w.config(i, cfg), append(w.options(i), opts...)...)
}

// startOn is like start, but with the given store.
func (w *world) startOn(s store.Store, i int, cfg Config) (*Node, error) {
	return Start(store.NewContext(w.t.Context(), s), w.config(i, cfg), w.options(i)...)
}

// add starts node i and appends it to w.nodes.
func (w *world) add(i int, cfg Config, opts ...Option) *Node {
	w.t.Helper()
	n, err := w.start(i, cfg, opts...)
	if err != nil {
		w.t.Fatalf("node %d: Start: %v", i, err)
	}
	w.nodes = append(w.nodes, n)
	return n
}

// end closes a node.
func (w *world) end(n *Node) {
	w.t.Helper()
	if err := n.Close(); err != nil {
		w.t.Fatalf("%v: Close: %v", n.cfg.self, err)
	}
}

// durable gives each node its own data directory.
func (w *world) durable() {
	dir := w.t.TempDir()
	w.dir = func(i int) string { return filepath.Join(dir, address(i).String()) }
}

func (w *world) config(i int, cfg Config) Config {
	for s := range w.size {
		cfg.Seeds = append(cfg.Seeds, address(w.first+s).String())
	}
	cfg.Receiver = w.receivers(i)
	i += w.first
	cfg.Addr, cfg.Name, cfg.Size = address(i).String(), fmt.Sprint("n", i), w.size
	if w.dir != nil {
		cfg.DataDir = w.dir(i)
	}
	return cfg
}

func (w *world) options(i int) []Option {
	listen := func(transport.Config) (transport.Network, error) {
		return w.net.Listen(address(w.first + i))
	}
	opts := []Option{WithTransport(listen), WithClock(time.Now),
		WithLogger(logTo(zerolog.New(w.book)))}
	if w.own != nil {
		opts = append(opts, w.own(i))
	}
	return opts
}

// logTo returns a logger that writes lines of JSON to l.
func logTo(l zerolog.Logger) *slog.Logger { return slog.New(zslog.NewHandler(l)) }

func address(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7001 + i)}
}

// leader returns the node that leads, according to its own view.
func (w *world) leader() *Node {
	w.t.Helper()
	for _, n := range w.nodes {
		if term, ok := n.Leader(); ok && term.Valid() {
			return n
		}
	}
	w.t.Fatal("no node leads")
	return nil
}

// others returns all nodes except one.
func (w *world) others(but *Node) []*Node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *Node) bool { return n == but })
}

// cut disconnects a node from all others without an error; heal reconnects it.
func (w *world) cut(n *Node)  { w.eachLink(n, w.net.Cut) }
func (w *world) heal(n *Node) { w.eachLink(n, w.net.Heal) }

func (w *world) eachLink(n *Node, change func(from, to member.Address)) {
	for _, other := range w.others(n) {
		change(n.cfg.self, other.cfg.self)
		change(other.cfg.self, n.cfg.self)
	}
}

// close closes all nodes and checks that none returns an error.
func (w *world) close() {
	for i, n := range w.nodes {
		if n == nil {
			continue
		}
		if err := n.Close(); err != nil {
			w.t.Errorf("node %d: Close: got %v, want nil", i, err)
		}
	}
}

// within returns a context that times out after d.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	w.t.Cleanup(cancel)
	return ctx
}
