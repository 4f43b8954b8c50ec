// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport"
)

// elsewhere lists configuration changes that do not match the store of the node at address(1) in a
// cluster of three.
var elsewhere = []struct {
	name   string
	change func(c *Config)
	want   string
}{
	{"size", func(c *Config) { c.Size, c.Seeds = 1, c.Seeds[1:2] },
		"\nSize 1: the store was made for 3: start with that size and the seeds " +
			"of before, as on a node that still runs, also if fewer nodes are left; athena resize " +
			"is only for a whole, stopped cluster"},
	{"larger size", func(c *Config) { c.Size = 5 },
		"\nSize 5: the store was made for 3: start with that size and the seeds " +
			"of before, as on a node that still runs, also if fewer nodes are left; athena resize " +
			"is only for a whole, stopped cluster"},
	{"cluster", func(c *Config) { c.Cluster = "other" },
		"\nCluster \"other\": the store was made for \"athena\": start with that name"},
	{"address", func(c *Config) { c.Addr = address(2).String() },
		"\nAdvertise 127.0.0.1:7003: the store was made for 127.0.0.1:7002: start at that address, " +
			"the only one at which its vote counts, or empty the data directory: the node then joins " +
			"as a new member, in a full cluster once athena release has removed its former seat (a seed " +
			"of a cluster without a leader needs JoinOnly until it has joined)"},
	{"another name of the same host", func(c *Config) { c.Advertise = "localhost:7002" },
		"\nAdvertise localhost:7002: the store was made for 127.0.0.1:7002: start at that address, " +
			"the only one at which its vote counts, or empty the data directory: the node then joins " +
			"as a new member, in a full cluster once athena release has removed its former seat (a seed " +
			"of a cluster without a leader needs JoinOnly until it has joined)"},
	{"all of it", func(c *Config) { c.Size, c.Cluster, c.Addr = 5, "other", address(2).String() },
		"\nCluster \"other\": the store was made for \"athena\": start with that name" +
			"\nSize 5: the store was made for 3: start with that size and the seeds " +
			"of before, as on a node that still runs, also if fewer nodes are left; athena resize " +
			"is only for a whole, stopped cluster" +
			"\nAdvertise 127.0.0.1:7003: the store was made for 127.0.0.1:7002: start at that address, " +
			"the only one at which its vote counts, or empty the data directory: the node then joins " +
			"as a new member, in a full cluster once athena release has removed its former seat (a seed " +
			"of a cluster without a leader needs JoinOnly until it has joined)"},
}

// TestStoreOfSomethingElseIsRefused checks that a store that was made for another configuration is
// refused before the node listens. The store stays unchanged, so the node starts with the old
// configuration.
func TestStoreOfSomethingElseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.form()
		token := w.nodes[1].Status().Token
		w.end(w.nodes[1])
		state := filepath.Join(w.dir(1), "athena.state")
		before, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		listens := func(transport.Config) (transport.Network, error) {
			t.Error("the node listens")
			return nil, errBoom
		}
		for _, c := range elsewhere {
			cfg := w.config(1, Config{})
			c.change(&cfg)
			_, err := Start(t.Context(), cfg, append(w.options(1), WithTransport(listens))...)
			want := "cluster: the store was made for another configuration: " + w.dir(1) + c.want
			if _, ok := errors.AsType[*StoreMismatchError](err); !ok || err.Error() != want {
				t.Errorf("%s: got %v\nwant a StoreMismatchError: %s", c.name, err, want)
			}
			if err := cfg.CheckStore(); err == nil || err.Error() != want {
				t.Errorf("%s: CheckStore returns %v, want %s", c.name, err, want)
			}
			if after, err := os.ReadFile(state); err != nil || !bytes.Equal(after, before) {
				t.Errorf("%s: the state file changed, %v:\n%s", c.name, err, after)
			}
		}
		if w.nodes[1], err = w.start(1, Config{Cluster: DefaultCluster}); err != nil {
			t.Fatal(err)
		}
		if term, err := w.nodes[1].WaitLeader(t.Context()); err != nil || term.Token().Less(token) {
			t.Errorf("afterwards: token %v, %v, want at least %v", term.Token(), err, token)
		}
	})
}

// TestRestartAsClustersOfOne checks that two of three nodes cannot restart as clusters of one:
// otherwise both would lead.
func TestRestartAsClustersOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.durable()
		w.form()
		w.close()
		for i := range 2 {
			cfg := w.config(i, Config{})
			cfg.Size, cfg.Seeds = 1, nil
			n, err := Start(t.Context(), cfg, w.options(i)...)
			if err == nil {
				defer n.Close()
				time.Sleep(time.Second)
				_, leads := n.Leader()
				t.Errorf("node %d runs, and leads: %t; want it refused", i, leads)
			}
		}
	})
}

// TestNodeMovesWithAnEmptyDirectory checks that a node can move to another address with an empty
// directory, as the error above advises: it gets a seat once that of its old address is released.
func TestNodeMovesWithAnEmptyDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.form()
		token := w.leader().Status().Token
		mover := w.others(w.leader())[0]
		w.end(mover)
		w.nodes = w.others(mover)
		cfg := w.config(7, Config{})
		ttl := cfg.WithDefaults().TTLTimeout
		if _, err := Start(w.within(2*ttl), cfg, w.options(7)...); err == nil ||
			!strings.Contains(err.Error(), "all seats are taken") {
			t.Fatalf("Start before the release: got %v, want that all seats are taken", err)
		}
		released := make(chan error, 1)
		go func() { // the member must be silent for TTLTimeout before its seat can go
			released <- w.leader().ReleaseSeats(w.within(2*ttl), 2)
		}()
		moved, err := Start(w.within(2*ttl), cfg, w.options(7)...)
		if err != nil {
			t.Fatalf("Start at another address: got %v, want nil", err)
		}
		w.nodes = append(w.nodes, moved)
		if err := <-released; err != nil {
			t.Errorf("ReleaseSeats: %v", err)
		}
		if err := moved.WaitActive(w.within(time.Second), 3); err != nil {
			t.Error(err)
		}
		if got := w.leader().Status().Token; got != token {
			t.Errorf("token: got %d, want %d as before the move", got, token)
		}
	})
}

// TestReleaseBeforeMembersHaveLeft checks that ReleaseSeats names the members that have not left,
// on the leader only.
func TestReleaseBeforeMembersHaveLeft(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader := w.leader()
		lost := w.others(leader)[0]
		w.cut(lost)
		time.Sleep(2 * DefaultConfig().HeartbeatTimeout)
		for _, n := range w.others(lost) {
			err := n.ReleaseSeats(t.Context(), 2)
			if _, ok := errors.AsType[*NotLeaderError](err); n != leader && !ok {
				t.Errorf("%v: got %v, want that it does not lead", n.cfg.self, err)
			}
			for _, want := range []string{
				"keep 2: 3 members have not left: ", leader.cfg.self.String() + " (active)",
				lost.cfg.self.String() + " (unreachable)", "10s after they fell silent",
			} {
				if n == leader && !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v: got %v, want %q in it", n.cfg.self, err, want)
				}
			}
		}
		w.heal(lost)
	})
}

// TestShorterLeaseWaitsForTheLonger restarts two of three nodes with shorter timings. They cannot
// reach the leader. The leader's authority must end before they elect another leader.
func TestShorterLeaseWaitsForTheLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.profile = WANConfig()
		w.form()
		old := w.leader()
		term, _ := old.Leader()
		for _, n := range w.others(old) {
			w.end(n)
		}
		var starts sync.WaitGroup
		for i, n := range w.nodes {
			if n == old {
				continue
			}
			starts.Go(func() {
				// A node that gives up the wait must wait just as long at the next start.
				cfg := w.config(i, LocalConfig())
				hasty, err := Start(w.within(time.Second), cfg, w.options(i)...)
				if err == nil {
					hasty.Close()
				}
				if !errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(err.Error(), "LeaseTimeout was 3.5s in the last run") {
					t.Errorf("Start within a second: got %v, want that it waits", err)
				}
				if w.nodes[i], err = w.start(i, LocalConfig()); err != nil {
					t.Errorf("Start: %v", err)
				}
			})
		}
		starts.Wait()
		for _, n := range w.others(old) {
			next, err := n.WaitLeader(w.within(time.Minute))
			if err != nil || !term.Token().Less(next.Token()) {
				t.Errorf("got token %v, %v, want one above %v", next.Token(), err, term.Token())
			}
		}
		if term.Valid() {
			t.Error("the old leader has authority beside the new one")
		}
		// Each of the two nodes starts twice.
		w.book.wants("waiting for leases granted under the old timeouts to expire", 4)
	})
}

// TestShorterHoldWaitsForTheLonger restarts two of three nodes with a shorter LeaderTimeout. They
// cannot reach the third node, which holds a record. The lease of the record must end before the
// two nodes free it.
func TestShorterHoldWaitsForTheLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.profile = Config{LeaderTimeout: 10 * time.Second, LeaseTimeout: time.Second}
		w.form()
		owner := w.followers()[0]
		h := acquire(t, session(owner), "k")
		for _, n := range w.others(owner) {
			w.end(n)
		}
		began := time.Now()
		var starts sync.WaitGroup
		for i, n := range w.nodes {
			if n == owner {
				continue
			}
			starts.Go(func() {
				var err error
				if w.nodes[i], err = w.start(i, Config{LeaseTimeout: time.Second}); err != nil {
					t.Errorf("Start: %v", err)
				}
			})
		}
		starts.Wait()
		next := w.others(owner)[0]
		if _, err := next.WaitLeader(w.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for records := range record.Watch(t.Context(), next.Records(), "k") {
			if len(records) == 0 {
				break
			}
		}
		if h.Valid() || time.Since(began) < 9*time.Second {
			t.Errorf("free after %v, and held by another %v", time.Since(began), h.Valid())
		}
		w.book.wants("waiting for leases granted under the old timeouts to expire", 2)
	})
}

// TestShorterTimingsWaitForBoth restarts three of five nodes with shorter timings while they cannot
// reach the other two. One of those two leads, and the other holds a record. The leader keeps its
// authority for a while, since the three acknowledged it, and extends the record's lease.
func TestShorterTimingsWaitForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		defer w.close()
		w.durable()
		w.profile = Config{
			LeaderTimeout: 10 * time.Second, LeaseTimeout: 10 * time.Second, TTLTimeout: 30 * time.Second,
		}
		w.form()
		old, owner := w.leader(), w.followers()[0]
		h := acquire(t, session(owner), "k")
		began, last := time.Now(), 0
		var starts sync.WaitGroup
		for i, n := range w.nodes {
			if n == old || n == owner {
				continue
			}
			last = i
			w.end(n)
			starts.Go(func() {
				n, err := w.start(i, Config{LeaseTimeout: time.Second, TTLTimeout: 30 * time.Second})
				if err != nil {
					t.Errorf("Start: %v", err)
				}
				w.nodes[i] = n
			})
		}
		starts.Wait()
		next := w.nodes[last]
		if _, err := next.WaitLeader(w.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for records := range record.Watch(t.Context(), next.Records(), "k") {
			if len(records) == 0 {
				break
			}
		}
		if took := time.Since(began); h.Valid() || took < 29*time.Second {
			t.Errorf("free after %v, and held by another %v", took, h.Valid())
		}
	})
}

// TestWaitOfShorterTimings checks the wait after LeaseTimeout or HoldTimeout became shorter, even
// if the other timing became longer.
func TestWaitOfShorterTimings(t *testing.T) {
	own := message.Timings{
		LeaderTimeout: 2 * time.Second, LeaseTimeout: time.Second, TTLTimeout: 10 * time.Second,
	}
	for _, tc := range []struct {
		size              int
		lease, hold, want time.Duration
	}{
		{3, 1000, 3000, 0},
		{3, 2500, 3000, 1500},
		{3, 1000, 20_000, 17_000},
		{3, 500, 20_000, 17_000},
		{3, 8000, 20_000, 24_000},
		{3, 1500, 2500, 500},
		{3, 4000, 0, 4000}, // an old store without HoldTimeout
		{1, 8000, 20_000, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &Node{store: new(store.Memory), log: slog.New(slog.DiscardHandler),
				reporter: diagnosis.New(diagnosis.Config{HeartbeatTimeout: time.Second}), cfg: settings{
					Config: Config{Size: tc.size, LeaseTimeout: own.LeaseTimeout}, timings: own,
				}}
			began, c := time.Now(), store.Content{
				LeaseTimeout: tc.lease * time.Millisecond, HoldTimeout: tc.hold * time.Millisecond,
			}
			err := n.waitOldLeases(t.Context(), c)
			if took := time.Since(began); err != nil || took != tc.want*time.Millisecond {
				t.Errorf("%+v: waited %v, %v", tc, took, err)
			}
		})
	}
}

// TestWaitForALeaseGoesOn checks that a node that is restarted every few seconds completes the
// wait, and that a cluster of one does not wait.
func TestWaitForALeaseGoesOn(t *testing.T) {
	for _, tc := range []struct{ size, starts int }{{3, 14}, {1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, tc.size)
			defer w.close()
			dir := t.TempDir()
			w.dir = func(int) string { return dir }
			n, err := w.start(0, ClassicConfig())
			if err != nil {
				t.Fatal(err)
			}
			w.end(n)
			began, starts := time.Now(), 0
			for ; ; starts++ {
				n, err := Start(w.within(12*time.Second), w.config(0, DefaultConfig()), w.options(0)...)
				if err == nil {
					w.nodes = append(w.nodes, n)
					break
				}
				if !errors.Is(err, context.DeadlineExceeded) || starts > tc.starts {
					t.Fatalf("start %d: %v", starts, err)
				}
			}
			if took := time.Since(began); tc.size > 1 && took < 150*time.Second {
				t.Errorf("it waited %v in all, want what is left of before, 62 s and 88 s", took)
			}
			if starts != tc.starts {
				t.Errorf("size %d: got %d starts cut off, want %d", tc.size, starts, tc.starts)
			}
		})
	}
}

// TestUnusedStoreIsInitializedAgain starts a node with a wrong name, which the other nodes refuse,
// and then with the right name. Its unused store is then initialized again.
func TestUnusedStoreIsInitializedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		for i := range 2 {
			w.add(i, Config{})
		}
		if _, err := w.nodes[0].WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := w.start(2, Config{Cluster: "othre"})
		if _, ok := errors.AsType[*JoinError](err); !ok {
			t.Fatalf("Start with another name: got %v, want a JoinError", err)
		}
		first := loadStore(t, w.dir(2))
		n, err := w.start(2, Config{})
		if err != nil {
			t.Fatalf("Start with the right name: got %v, want nil", err)
		}
		w.nodes = append(w.nodes, n)
		if err := n.WaitActive(w.within(time.Minute), 3); err != nil {
			t.Error(err)
		}
		if self := n.Self(); self.StoreID == first.StoreID || self.Incarnation <= first.Incarnation {
			t.Errorf("got %v, want another store id than %v and a later run", self, first.StoreID)
		}
	})
}

// TestUnusedStoreKeepsItsName checks that a seed that has saved only its identity restarts with the
// same store id. Others may have founded the cluster with it as a voter.
func TestUnusedStoreKeepsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		n, err := w.start(0, Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.end(n)
		before := loadStore(t, w.dir(0))
		if !before.IsUnused() {
			t.Fatalf("a seed alone saved %+v, want nothing but who it is", before)
		}
		if n, err = w.start(0, Config{}); err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, n)
		if self := n.Self(); self.StoreID != before.StoreID || self.Incarnation <= before.Incarnation {
			t.Errorf("got %v, want store id %v and a later run", self, before.StoreID)
		}
	})
}

// loadStore returns the content of the store of a closed node.
func loadStore(t *testing.T, dir string) store.Content {
	t.Helper()
	s, err := store.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, _, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStoreOfTheCallerIsCompared checks that a store from the context is checked like one in a
// directory.
func TestStoreOfTheCallerIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		s := store.NewMemory([32]byte{})
		n, err := w.startOn(s, 0, Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.end(n)
		saved, _, _ := s.Load()
		want := store.Origin{Cluster: DefaultCluster, Size: 1, Address: address(0)}
		if saved.Origin != want || saved.StoreID.IsZero() {
			t.Errorf("saved %+v, want origin %+v and a store id", saved, want)
		}
		_, err = w.startOn(s, 0, Config{Cluster: "other"})
		mismatch, ok := errors.AsType[*StoreMismatchError](err)
		if !ok || mismatch.Made != StoreOrigin(want) || mismatch.Given.Cluster != "other" ||
			mismatch.Dir != "" {
			t.Errorf("Start for another cluster: got %v, want a StoreMismatchError", err)
		}
	})
}

// TestRestartWithMemoryIsNoticed checks that the peers notice immediately that a node with a memory
// store has restarted, because the store has the reset key of the previous run.
func TestRestartWithMemoryIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const oneWay = time.Millisecond
		p := simnet.NewPacketNet(oneWay)
		start := func(i int) *Node {
			t.Helper()
			cfg := quicConfig(i, clusterSecret)
			cfg.Seeds = cfg.Seeds[:1]
			n, err := Start(t.Context(), cfg,
				WithSocket(p.Open), WithClock(time.Now), WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		var nodes []*Node
		for i := range 3 {
			nodes = append(nodes, start(i+1))
		}
		for _, n := range nodes {
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		peer := nodes[1]
		dials := peer.net.Stats().Dials
		p.Kill(nodes[0].cfg.self)
		nodes[0].Close()
		nodes[0] = start(1)
		begin := time.Now()
		for peer.net.Stats().Dials == dials && time.Since(begin) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		// Let the third heartbeat and the reset arrive.
		if took, most := time.Since(begin), 3*peer.cfg.HeartbeatInterval+2*oneWay; took > most {
			t.Errorf("a peer dialed the new run after %v, want at most %v", took, most)
		}
		for _, n := range nodes {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
