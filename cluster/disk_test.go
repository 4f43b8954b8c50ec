// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
)

// frozenStore is a store on a disk that can stop answering: writes neither succeed nor fail.
type frozenStore struct {
	*store.Memory
	writes atomic.Int64  // that have begun
	disk   chan struct{} // has an entry while a write uses the disk
}

func (s *frozenStore) write() {
	s.writes.Add(1)
	s.freezeDisk()
	s.thawDisk()
}

func (s *frozenStore) freezeDisk() { s.disk <- struct{}{} }
func (s *frozenStore) thawDisk()   { <-s.disk }

func (s *frozenStore) Save(c store.Content) error {
	s.write()
	return s.Memory.Save(c)
}

func (s *frozenStore) Probe() error {
	s.write()
	return nil
}

const diskStalled = "the disk does not answer: this node cannot save and is not ready"

// inFrozenWorld runs a test with three nodes. The first one leads and has the store.
func inFrozenWorld(t *testing.T, test func(t *testing.T, w *world, s *frozenStore)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		s := &frozenStore{Memory: new(store.Memory), disk: make(chan struct{}, 1)}
		defer w.close()
		started := make(chan *Node)
		for i := range w.size {
			go func() {
				ctx := t.Context()
				if i == 0 {
					ctx = store.NewContext(ctx, s)
				}
				n, err := Start(ctx, w.config(i, Config{}), w.options(i)...)
				if err != nil {
					t.Errorf("node %d: Start: %v", i, err)
				}
				started <- n
			}()
		}
		for range w.size {
			w.nodes = append(w.nodes, <-started)
		}
		for _, n := range w.nodes {
			if err := n.WaitActive(t.Context(), w.size); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * w.nodes[0].cfg.HeartbeatInterval) // each member has answered the leader
		if w.leader().cfg.self != address(0) {
			if err := w.leader().Transfer(t.Context(), address(0)); err != nil {
				t.Fatal(err)
			}
		}
		test(t, w, s)
	})
}

// find returns the node with an address.
func (w *world) find(a member.Address) *Node {
	for _, n := range w.nodes {
		if n.cfg.self == a {
			return n
		}
	}
	return nil
}

// TestSaveThatHangs checks that a node whose save does not end reports it after HeartbeatTimeout,
// blames no other node, and recovers.
func TestSaveThatHangs(t *testing.T) {
	inFrozenWorld(t, func(t *testing.T, w *world, s *frozenStore) {
		n := w.find(address(0))
		limit := n.cfg.HeartbeatTimeout
		s.freezeDisk()
		before := s.writes.Load()
		go n.SetLabels(t.Context(), map[string]string{"zone": "a"})
		for s.writes.Load() == before {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(limit - 2*time.Millisecond)
		if got := n.Status(); got.NotSaving != "" || got.SavePending < limit/2 {
			t.Errorf("after %v: %q", got.SavePending, got.NotSaving)
		}
		time.Sleep(2*limit + 25*time.Second)
		got := n.Status()
		if got.NotSaving == "" || got.SavePending < 25*time.Second || got.NoLeader != got.NotSaving {
			t.Errorf("after %v: cannot save %q, no leader %q", got.SavePending, got.NotSaving, got.NoLeader)
		}
		w.book.mu.Lock()
		if lines := w.book.lines[diskStalled]; len(lines) != 2 {
			t.Errorf("%d warnings in 25 s, want 2: %v", len(lines), lines)
		}
		w.book.mu.Unlock()
		if l := w.leader(); l == n {
			t.Error("the node that cannot save still leads")
		}
		s.thawDisk()
		time.Sleep(10 * time.Second)
		got = n.Status()
		if got.NotSaving != "" || got.SavePending != 0 || got.Self.Status != member.Active {
			t.Errorf("10 s after the disk answers: %q, %v", got.NotSaving, got.Self)
		}
	})
}

// TestIdleDiskThatHangs checks that a node that saves nothing notices within probeInterval and a
// HeartbeatTimeout that its disk does not answer, and continues to lead. It writes once in
// probeInterval, and Close does not wait for the disk for long.
func TestIdleDiskThatHangs(t *testing.T) {
	inFrozenWorld(t, func(t *testing.T, w *world, s *frozenStore) {
		n := w.find(address(0))
		time.Sleep(time.Minute)
		before := s.writes.Load()
		time.Sleep(time.Minute)
		if n := s.writes.Load() - before; n < 11 || n > 13 {
			t.Errorf("an idle node wrote %d times in a minute, want 12", n)
		}
		s.freezeDisk()
		time.Sleep(probeInterval + n.cfg.HeartbeatTimeout)
		if got := n.Status(); got.NotSaving == "" || got.NoLeader != "" {
			t.Errorf("cannot save %q, no leader %q", got.NotSaving, got.NoLeader)
		}
		time.Sleep(time.Hour)
		if w.leader() != n {
			t.Error("the node lost the leadership while nothing was saved")
		}
		began := time.Now()
		w.end(n)
		if took := time.Since(began); took > closeTimeout+time.Second {
			t.Errorf("Close took %v with a disk that does not answer", took)
		}
		s.thawDisk()
	})
}

// throttledStore is a store on a disk that needs a while for each save.
type throttledStore struct {
	*store.Memory
	takes atomic.Int64 // nanoseconds
}

func (s *throttledStore) Save(c store.Content) error {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.Memory.Save(c)
}

// TestElectionsOutlastSlowDisks checks that a leader that is cut off is replaced within
// LeaderTimeout + 3 intervals + 8 saves. The saves on all disks take
// equally long, from half an interval to two times LeaderTimeout.
func TestElectionsOutlastSlowDisks(t *testing.T) {
	for _, ms := range []int{50, 170, 300, 800, 2000} {
		for _, size := range []int{3, 5} {
			takes := time.Duration(ms) * time.Millisecond
			t.Run(fmt.Sprintf("%d members, %v", size, takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { electOnSlowDisks(t, size, takes) })
			})
		}
	}
}

// startOnSlowDisks starts a cluster. Once all members are active, each save takes as long. The
// function that it returns makes the saves fast again.
func startOnSlowDisks(t *testing.T, size int, takes time.Duration) (w *world, heal func()) {
	t.Helper()
	w = newWorld(t, size)
	stores := make([]throttledStore, size)
	w.nodes = make([]*Node, size)
	started := make(chan error)
	for i := range stores {
		stores[i].Memory = new(store.Memory)
		go func() {
			var err error
			w.nodes[i], err = w.startOn(&stores[i], i, Config{})
			started <- err
		}()
	}
	for range stores {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range w.nodes {
		if err := n.WaitActive(t.Context(), size); err != nil {
			t.Fatal(err)
		}
	}
	setTime := func(d time.Duration) {
		for i := range stores {
			stores[i].takes.Store(int64(d))
		}
	}
	setTime(takes)
	return w, func() { setTime(0) }
}

func electOnSlowDisks(t *testing.T, size int, takes time.Duration) {
	w, heal := startOnSlowDisks(t, size, takes)
	defer w.close()
	defer heal()
	old := w.leader()
	cfg, began := old.cfg.Config, time.Now()
	w.cut(old)
	limit, told := cfg.LeaderTimeout+3*cfg.HeartbeatInterval+8*takes, false
	for !slices.ContainsFunc(w.others(old), isLeading) {
		if time.Since(began) > limit {
			t.Fatalf("no leader after %v: %s", limit, w.others(old)[0].Status().NoLeader)
		}
		if why := w.others(old)[0].Status().NoLeader; strings.Contains(why, "disk of this node is slow") {
			told = true
		}
		time.Sleep(cfg.HeartbeatInterval / 10)
	}
	if !told && takes > cfg.HeartbeatInterval && takes < cfg.HeartbeatTimeout {
		t.Error("NoLeader never named the slow disk")
	}
	t.Logf("a leader after %v of %v", time.Since(began), limit)
}

// TestCommitsOutlastSlowDisks checks that the outcome of a commit is known although its two saves,
// one after the other, take LeaderTimeout or longer. The first commit measures the disks.
func TestCommitsOutlastSlowDisks(t *testing.T) {
	for _, ms := range []int{300, 500, 900, 2000} {
		synctest.Test(t, func(t *testing.T) {
			w, heal := startOnSlowDisks(t, 3, time.Duration(ms)*time.Millisecond)
			defer w.close()
			defer heal()
			_, _ = session(w.leader()).Commit(t.Context(), set("first", nil))
			for i, n := range w.nodes {
				began := time.Now()
				if _, err := session(n).Commit(t.Context(), set(fmt.Sprint("k", i), nil)); err != nil {
					t.Errorf("saves of %d ms, %s: got %v after %v", ms, n.cfg.Name, err, time.Since(began))
				}
			}
		})
	}
}

// isLeading reports whether a node leads with authority.
func isLeading(n *Node) bool {
	term, ok := n.Leader()
	return ok && term.Valid()
}
