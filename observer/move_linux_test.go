// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/test/children"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

var (
	observers = flag.Int("observers", 50, "observers in TestObserversMove")
	idle      = flag.Duration("idle", 0, "how long TestObserversMove measures idle observers")
)

// nodeVariable contains the task of a process that runs a node for a test.
const nodeVariable = "ATHENA_OBSERVER_TEST_NODE"

type nodeTask struct {
	Addr    string
	Seeds   []string
	Secret  []byte
	DataDir string
}

func init() { //nolint:gochecknoinits // TestMain is in a file for all systems
	if text := os.Getenv(nodeVariable); text != "" {
		fmt.Fprintln(os.Stderr, runNode(text))
		os.Exit(1)
	}
}

// runNode runs a node until the process is killed.
func runNode(text string) error {
	var task nodeTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	rx := receiver.NewMux()
	receiver.HandleRequest(rx, func(_ context.Context, _ member.Member, a ask) (int, error) {
		return a.N + 1, nil
	})
	n, err := cluster.Start(context.Background(), cluster.Config{
		Addr: task.Addr, Size: len(task.Seeds), Seeds: task.Seeds, Secret: task.Secret, Receiver: rx,
		DataDir: task.DataDir,
	}, cluster.WithWorkers(1000), cluster.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	if err := n.WaitActive(context.Background(), len(task.Seeds)); err != nil {
		return err
	}
	fmt.Println("active")
	<-n.Done()
	return n.Err()
}

// startNodes starts a cluster whose nodes are processes, and waits until all are active.
func startNodes(t *testing.T, size int, secret []byte) (addrs []string, nodes []*children.Process) {
	t.Helper()
	for range size {
		addrs = append(addrs, freeAddress(t))
	}
	group, active := children.NewGroup(), 0
	t.Cleanup(group.KillAll)
	for _, addr := range addrs {
		cmd, err := children.Command(nodeVariable, nodeTask{Addr: addr, Seeds: addrs, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		p, err := group.Start(cmd, func([]byte) { group.Change(func() { active++ }) })
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, p)
	}
	isActive := func() bool { return active == size }
	if err := group.WaitUntil(t.Context(), time.Minute, isActive); err != nil {
		t.Fatal(err)
	}
	return addrs, nodes
}

// packetCounter counts the packets of all observers.
type packetCounter struct{ packets, bytes atomic.Int64 }

// countedSocket is the socket of an observer.
type countedSocket struct {
	net.PacketConn
	of *packetCounter
}

func (c countedSocket) countPacket(n int) {
	c.of.packets.Add(1)
	c.of.bytes.Add(int64(n))
}

func (c countedSocket) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	n, from, err = c.PacketConn.ReadFrom(b)
	c.countPacket(n)
	return n, from, err
}

func (c countedSocket) WriteTo(b []byte, to net.Addr) (int, error) {
	c.countPacket(len(b))
	return c.PacketConn.WriteTo(b, to)
}

func (of *packetCounter) openNetwork(c transport.Config) (transport.Network, error) {
	made, named, err := c.TLS()
	if err != nil {
		return nil, err
	}
	socket, err := quicnet.Listen(c.Addr)
	if err != nil {
		return nil, err
	}
	return quicnet.New(quicnet.Config{
		Config: c, Conn: countedSocket{socket, of}, Kernel: true, TLS: made, Named: named,
	})
}

// startObservers starts observers of one member at the same time.
func startObservers(ctx context.Context, t *testing.T, c Config) []*Observer {
	t.Helper()
	all := make([]*Observer, *observers)
	var work sync.WaitGroup
	for i := range all {
		work.Go(func() {
			o, err := Start(ctx, c)
			if all[i] = o; err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	t.Cleanup(func() {
		for _, o := range all {
			if o != nil {
				work.Go(func() { o.Close() })
			}
		}
		work.Wait()
	})
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// awaitMoves waits until all observers follow another member than home, and see a leader other than
// home that has authority. It returns their times in ascending order.
func awaitMoves(ctx context.Context, all []*Observer, home member.Address) []time.Duration {
	began, took := time.Now(), make([]time.Duration, len(all))
	var work sync.WaitGroup
	for i, o := range all {
		work.Go(func() {
			for v := range o.Views(ctx) {
				if o.currentHome() != home && v.Authority && v.Leader != home {
					took[i] = time.Since(began)
					return
				}
			}
		})
	}
	work.Wait()
	slices.Sort(took)
	return took
}

// TestObserversMove kills the member that all observers follow. All must follow another one, and
// see its leader. With -observers 1000 -idle 30s the test measures what they cost.
func TestObserversMove(t *testing.T) {
	secret := cluster.NewSecret()
	addrs, nodes := startNodes(t, 3, secret)
	home, err := member.ParseAddress(addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	usage := func() (cpu, mebibytes float64) {
		cpu, memory, err := nodes[0].Usage()
		if err != nil {
			t.Fatal(err)
		}
		return cpu / 1e9, memory / (1 << 20)
	}
	cpu0, rss0 := usage()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var of packetCounter
	began := time.Now()
	all := startObservers(ctx, t, Config{
		Cluster: cluster.DefaultCluster, Members: addrs[:1], Secret: secret, Transport: of.openNetwork,
	})
	cpu, rss := usage()
	t.Logf("%d observers started in %v; the member: %.1f CPU seconds, %.0f MiB, before %.0f",
		len(all), time.Since(began), cpu-cpu0, rss, rss0)
	if *idle > 0 {
		before := [2]int64{of.packets.Load(), of.bytes.Load()}
		<-time.After(*idle)
		cpu0, s := cpu, idle.Seconds()
		cpu, rss = usage()
		t.Logf("idle: %.0f packets and %.0f bytes a second, %.1f %% of a core, %.0f MiB",
			float64(of.packets.Load()-before[0])/s, float64(of.bytes.Load()-before[1])/s,
			100*(cpu-cpu0)/s, rss)
	}
	if _, err := nodes[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	took := awaitMoves(ctx, all, home)
	if took[0] == 0 {
		t.Errorf("%d observers follow no other member", slices.IndexFunc(append(took, 1),
			func(d time.Duration) bool { return d > 0 }))
	}
	t.Logf("followed another member: first after %v, half %v, last %v", took[0], took[len(took)/2],
		took[len(took)-1])
}
