// SPDX-License-Identifier: Apache-2.0

package field

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// probeReadiness returns a function that reports whether a health check of a node passes.
func probeReadiness(n *cluster.Node) func(query string) bool {
	h := admin.New(n, "")
	return func(query string) bool {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz"+query, nil))
		return w.Code == 200
	}
}

// TestTransfersKeepMembersReady transfers leadership from member to member. No member may fail
// /readyz, and none may fail /readyz?votes for longer than five round trips.
// https://github.com/nats-io/nats-server/issues/6079
func TestTransfersKeepMembersReady(t *testing.T) {
	const bound = 10 * time.Millisecond // a round trip takes 2 ms
	athenatest.Run(t, athenatest.Options{}, func(t *testing.T, c *athenatest.Cluster) {
		var ready [3]func(string) bool
		for i := range ready {
			ready[i] = probeReadiness(c.Node(i))
		}
		c.Advance(2 * time.Second) // until all can vote
		for round := range 12 {
			led := c.Leader()
			done := make(chan error, 1)
			go func() { done <- c.Node(led).Transfer(t.Context(), c.Address((led+1+round%2)%3)) }()
			var failed [3]time.Duration
			for range 100 {
				for i, ready := range ready {
					if !ready("") {
						t.Fatalf("round %d: member %d is not ready\n%s", round, i, c)
					}
					if !ready("?votes") {
						failed[i] += time.Millisecond
					}
				}
				c.Advance(time.Millisecond)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if slices.Max(failed[:]) > bound {
				t.Errorf("round %d: the members could not vote for %v, want at most %v", round, failed, bound)
			}
			c.Advance(time.Second)
		}
	})
}

// TestRestartsAgainAndAgain crashes and starts one member many times, also before it has joined,
// and then all members at the same time. They are ready soon after the last start.
// https://github.com/nats-io/nats-server/issues/6217
func TestRestartsAgainAndAgain(t *testing.T) {
	athenatest.Run(t, athenatest.Options{}, func(t *testing.T, c *athenatest.Cluster) {
		const limit = 2 * time.Second // two LeaderTimeout
		for round := range 10 {
			members := []int{2}
			if round%2 == 1 {
				members = []int{0, 1, 2}
			}
			for _, runs := range []time.Duration{1, 3, 20, 100, 700, 0} {
				for _, i := range members {
					c.Crash(i)
				}
				c.Start(members...)
				c.Advance(runs * time.Millisecond)
			}
			for _, i := range members {
				ready := probeReadiness(c.Node(i))
				c.Within(limit, fmt.Sprint("readiness of member ", i), func() bool { return ready("?votes") })
			}
			c.WaitSettled()
		}
	})
}

// runNode runs a node until ctx is done.
func runNode(ctx context.Context, cfg cluster.Config, opts ...cluster.Option) error {
	n, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return n.Close()
}

// fullStore is a store on a full disk.
type fullStore struct{ store.Store }

func (fullStore) Save(store.Content) error { return syscall.ENOSPC }

// TestFailedStartKeepsTheStore lets starts of a member fail while its process ends: soon or late,
// cut off or not, with a full disk, or without a socket. Its store keeps its id, its vote and its
// state, and with it the member returns and counts.
// https://github.com/nats-io/nats-server/issues/5687
func TestFailedStartKeepsTheStore(t *testing.T) {
	ends := time.Hour // after which a process ends
	var full, socketless bool
	main := func(ctx context.Context, _ int, cfg cluster.Config, opts ...cluster.Option) error {
		ctx, stop := context.WithTimeout(ctx, ends)
		defer stop()
		if full {
			f, err := store.OpenFile(cfg.DataDir)
			if err != nil {
				return err
			}
			ctx = store.NewContext(ctx, fullStore{f})
		}
		if socketless {
			opts = append(opts, cluster.WithSocket(func(string) (net.PacketConn, error) {
				return nil, syscall.EADDRINUSE
			}))
		}
		return runNode(ctx, cfg, opts...)
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		led := c.Leader()
		i, other := (led+1)%3, (led+2)%3
		c.Crash(i)
		load := func() store.Content {
			content, known, err := store.Peek(c.DataDir(i))
			if err != nil || !known {
				t.Fatalf("the store of member %d: %v, %v", i, known, err)
			}
			return content
		}
		before := load()
		for try := range 32 {
			full, socketless = try%4 == 1, try%4 == 2
			ends = []time.Duration{0, 2 * time.Millisecond, 8 * time.Millisecond, 3 * time.Second}[try/4%4]
			if c.Partition(); try < 16 {
				c.Partition([]int{i})
			}
			c.Start(i)
			err := c.WaitEnd(i)
			if err == nil && (try < 16 || full || socketless) {
				t.Errorf("try %d: Start succeeded", try)
			}
			after := load()
			if after.StoreID != before.StoreID || after.Promised.Compare(before.Promised) < 0 ||
				after.Accepted.ID.Compare(before.Accepted.ID) < 0 || after.Held.Version < before.Held.Version {
				t.Fatalf("try %d (%v): the store has %+v, had %+v", try, err, after, before)
			}
			before = after
		}
		ends, full, socketless = time.Hour, false, false
		c.Heal()
		c.Restart(i)
		c.Crash(other)
		c.WaitActive(2)
		c.WaitSettled()
		if got := c.Node(i).Self().StoreID; got != before.StoreID {
			t.Errorf("the member returned with the store %v, had %v", got, before.StoreID)
		}
	})
}

// shown holds what each member has shown in all of its runs since the cluster formed. Before, a
// provisional table may be discarded.
type shown struct {
	t      *testing.T
	formed atomic.Bool

	mu     sync.Mutex
	newest map[string]member.Token // by member and kind of table
}

// noteToken fails the test if a member shows an earlier table than before.
func (s *shown) noteToken(what string, now member.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.newest[what]; s.formed.Load() && now.Less(before) {
		s.t.Errorf("%s show %v after %v", what, now, before)
	}
	s.newest[what] = now
}

// watchTables reads the tables of a node until it ends, and changes a record all the time.
func (s *shown) watchTables(all *sync.WaitGroup, i int, n *cluster.Node) {
	ctx := context.Background()
	all.Go(func() {
		known := false // a run shows no records until it knows which are committed
		for records := range record.Watch(ctx, n.Records(), "x") {
			var token member.Token
			if known = known || len(records) > 0; len(records) > 0 {
				token = records[0].Token
			}
			if known {
				s.noteToken(fmt.Sprintf("the records of member %d", i), token)
			}
		}
	})
	all.Go(func() {
		for range n.Events(ctx) {
			if v := n.View(); v.Role != member.Provisional { // such a table may be discarded
				now := member.Token{Version: v.Version, Revision: v.Revision}
				s.noteToken(fmt.Sprintf("the members of member %d", i), now)
			}
		}
	})
	all.Go(func() {
		for session := n.Records().Session(nil); n.Err() == nil; <-time.After(80 * time.Millisecond) {
			ctx, stop := context.WithTimeout(ctx, 500*time.Millisecond)
			_, _ = session.Commit(ctx, record.Op{Kind: record.Set, Key: "x"}) // fails while cut off
			stop()
		}
	})
}

// TestTablesNeverGoBack cuts off, pauses and crashes one member after the other while all change a
// record. The member catches up over a path that reorders packets. In all of its runs, it never
// shows an earlier table of records or members than before.
// https://github.com/etcd-io/etcd/issues/15271
// https://github.com/etcd-io/etcd/issues/19487
func TestTablesNeverGoBack(t *testing.T) {
	s := shown{t: t, newest: map[string]member.Token{}}
	var stores [3]store.Memory
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		var all sync.WaitGroup
		defer all.Wait()
		opts = append(opts, cluster.WithListening(func(n *cluster.Node) { s.watchTables(&all, i, n) }))
		return runNode(store.NewContext(ctx, &stores[i]), cfg, opts...)
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		s.formed.Store(true)
		faults := []struct{ begin, end func(i int) }{
			{func(i int) { c.Partition([]int{i}) }, func(int) {}},
			{c.Pause, c.Resume},
			{c.Crash, func(i int) { c.Start(i) }},
		}
		for round := range 9 {
			i, fault := round%3, faults[(round+round/3)%3]
			fault.begin(i)
			c.Advance([]time.Duration{300, 2000, 11_000}[round/3] * time.Millisecond)
			c.Heal()
			for other := range 3 {
				if other != i {
					c.SetPath(other, i, athenatest.Path{Jitter: 30 * time.Millisecond, Loss: 0.05})
				}
			}
			fault.end(i)
			c.Advance(time.Second)
			c.Heal()
			c.WaitSettled()
		}
	})
}
