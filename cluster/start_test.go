// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// TestFirstSeedStartsProvisionally checks that the first seed starts without the others, and has no
// authority before it reaches them.
func TestFirstSeedStartsProvisionally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		n, err := w.start(0, Config{})
		if err != nil {
			t.Fatalf("Start: %v", err)
		}
		defer n.Close()
		time.Sleep(time.Minute)
		if _, ok := n.Leader(); ok || n.View().Role != member.Provisional {
			t.Errorf("alone: got leader %v, role %v; want none, provisional", ok, n.View().Role)
		}
	})
}

// TestListeningMoreThanOnce checks that WithListening adds to earlier options instead of replacing
// them.
func TestListeningMoreThanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []int
		note := func(i int) Option { return WithListening(func(*Node) { order = append(order, i) }) }
		n, err := newWorld(t, 1).start(0, Config{}, note(1), note(2))
		if err != nil {
			t.Fatalf("Start: %v", err)
		}
		defer n.Close()
		if want := []int{1, 2}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

// TestAProvisionalLeaderHasNothingToHandOver checks that a provisional leader has no leadership to
// hand over, and that the error does not refer the caller to a provisional leader. The test uses a
// node that is alone in a cluster of one and will soon be elected, and a node that waits for more
// nodes.
func TestAProvisionalLeaderHasNothingToHandOver(t *testing.T) {
	for _, c := range []struct {
		size     int
		noLeader string
	}{
		{1,
			"leads provisionally until 1 of 1 members are up: 1 joined, but no leader has been elected yet"},
		{3, "leads provisionally until 2 of 3 members are up: 1 joined; waiting for " +
			"127.0.0.1:7002 (memnet: dial 127.0.0.1:7002: no node listens there), " +
			"127.0.0.1:7003 (memnet: dial 127.0.0.1:7003: no node listens there)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, c.size)
			defer w.close()
			n := w.add(0, Config{})
			if got := n.Status().NoLeader; got != c.noLeader {
				t.Errorf("%d: NoLeader right after Start: got %q, want %q", c.size, got, c.noLeader)
			}
			err := n.Transfer(t.Context(), member.Address{})
			e, ok := errors.AsType[*NotLeaderError](err)
			if !ok || !e.Provisional || e.Leader != n.cfg.self || strings.Contains(err.Error(), "ask") ||
				!strings.Contains(err.Error(), "127.0.0.1:7001 leads provisionally") {
				t.Errorf("%d: Transfer: got %v, want a NotLeaderError", c.size, err)
			}
		})
	}
}

// TestStartErrorListsAnswers checks that the error of a node that reaches no seed lists the
// answers.
func TestStartErrorListsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		cfg := w.config(7, Config{})
		_, err := Start(w.within(5*time.Second), cfg, w.options(7)...)
		join, ok := errors.AsType[*JoinError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || len(join.Asked) != 2 {
			t.Fatalf("Start: got %v, want a JoinError with both seeds", err)
		}
		for _, a := range join.Asked {
			if !strings.Contains(a.Err.Error(), "no node listens there") {
				t.Errorf("%s: got %v, want that no node listens there", a.From, a.Err)
			}
		}
	})
}

// TestStartFailsSoonWhenItCannotBelong checks that Start fails soon if the node cannot belong to
// the cluster, even if the context has no deadline. The error must name the field and its values.
func TestStartFailsSoonWhenItCannotBelong(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Config)
		theirs string
	}{
		{"Size", func(c *Config) { c.Size = 4 }, "3"},
		{"Cluster", func(c *Config) { c.Cluster = "other" }, DefaultCluster},
		{"LeaseTimeout", func(c *Config) { c.LeaseTimeout = 800 * time.Millisecond }, "700ms"},
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			cfg := w.config(7, Config{})
			c.change(&cfg)
			begin := time.Now()
			_, err := Start(t.Context(), cfg, w.options(7)...)
			mismatch, ok := errors.AsType[*ConfigMismatchError](err)
			if !ok || mismatch.Field != c.field || mismatch.Theirs != c.theirs {
				t.Errorf("%s: got %v, want a ConfigMismatchError with theirs %q", c.field, err, c.theirs)
			}
			// All three seeds must refuse the node, which dials another seed every half second.
			if took := time.Since(begin); took > 2*cfg.WithDefaults().RetryInterval {
				t.Errorf("%s: Start took %v, want at most two retry intervals", c.field, took)
			}
		})
	}
}

// TestOneRefusingSeedDoesNotEndStart checks that Start does not give up if one seed refuses the
// node, since the other seed may accept it.
func TestOneRefusingSeedDoesNotEndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		cfg := w.config(2, Config{})
		cfg.Size = 5
		odd, err := Start(t.Context(), cfg, w.options(2)...)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, odd)
		for i := range 2 {
			n, err := w.start(i, Config{})
			if err != nil {
				t.Fatalf("Start of node %d: %v", i, err)
			}
			w.nodes = append(w.nodes, n)
		}
		term, err := w.nodes[1].WaitLeader(w.within(time.Minute))
		if err != nil || term.Leader() == odd.cfg.self.String() {
			t.Errorf("got leader %v, %v; want one of the two that agree", term.Leader(), err)
		}
	})
}

func TestAddressInUse(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.start(0, Config{})
		if !errors.Is(err, ErrAddressInUse) || !strings.Contains(err.Error(), "127.0.0.1:7001") {
			t.Errorf("Start: got %v, want ErrAddressInUse with the address", err)
		}
	})
}

// brokenStore fails to load, or fails to save from a given call on.
type brokenStore struct {
	*store.Memory
	loadErr error
	saves   int // that succeed
	closed  int
}

func (s *brokenStore) Load() (store.Content, bool, error) {
	return store.Content{}, false, s.loadErr
}

func (s *brokenStore) Save(c store.Content) error {
	if s.saves--; s.saves < 0 {
		return errBoom
	}
	return s.Memory.Save(c)
}

func (s *brokenStore) Close() error {
	s.closed++
	return nil
}

// TestStoreThatFails checks that a store that fails stops the node with an error that names the
// store.
func TestStoreThatFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		store *brokenStore
	}{
		{"Load", &brokenStore{loadErr: errBoom}},
		{"first Save", &brokenStore{}},
		{"Save of the first state", &brokenStore{saves: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.store.Memory = store.NewMemory([32]byte{})
			w := newWorld(t, 1)
			_, err := w.startOn(c.store, 0, Config{})
			if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "cannot ") {
				t.Errorf("%s: got %v, want an error of the store", c.name, err)
			}
			if c.store.closed != 1 {
				t.Errorf("%s: closed %d times, want once", c.name, c.store.closed)
			}
			// The address of the node is free again.
			n, err := w.start(0, Config{})
			if err != nil {
				t.Fatalf("%s: then Start: %v", c.name, err)
			}
			n.Close()
		})
	}
}

// TestNodeEndsWithItsStore checks that a failing Save stops a running node before it sends a
// message that depends on that Save.
func TestNodeEndsWithItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		s := &brokenStore{Memory: store.NewMemory([32]byte{}), saves: 1 << 20}
		n, err := w.startOn(s, 0, Config{})
		if err != nil {
			t.Fatal(err)
		}
		term, err := n.WaitLeader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := n.net.Stats()
		s.saves = 0
		err = n.runInLoop(t.Context(), func(time.Time) (statemachine.Output, error) {
			d := n.machine.Durable()
			hasty := message.Message{From: d.Held.LeaderIdentity(), To: address(1),
				Body: message.SeedKeepAlive{}}
			return statemachine.Output{Persist: &d, Send: []message.Message{hasty}}, nil
		})
		if !errors.Is(err, errBoom) {
			t.Errorf("the caller got %v, want the error of the store", err)
		}
		<-n.Done()
		if got := n.net.Stats(); got.Dials != before.Dials {
			t.Error("a message left although the state before it was not saved")
		}
		if !errors.Is(n.Err(), errBoom) || term.Valid() {
			t.Errorf("got %v, term valid %v; want the error of the store, false", n.Err(), term.Valid())
		}
	})
}

// TestRestartKeepsStoreAndRaisesIncarnation checks that a restart keeps the store and raises the
// incarnation, and that the next leader has a greater token.
func TestRestartKeepsStoreAndRaisesIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		dir := t.TempDir()
		var last Status
		for range 3 {
			n, err := w.start(0, Config{DataDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.WaitLeader(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := n.Status()
			if s.Self.StoreID.IsZero() || s.Self.Incarnation <= last.Self.Incarnation ||
				!last.Token.Less(s.Token) {
				t.Errorf("got %v, token %v; want them above %v, %v",
					s.Self.Identity, s.Token, last.Self.Identity, last.Token)
			}
			if !last.Self.StoreID.IsZero() && s.Self.StoreID != last.Self.StoreID {
				t.Errorf("got another store id, %v after %v", s.Self.StoreID, last.Self.StoreID)
			}
			last = s
			w.end(n)
		}
	})
}

// TestIncarnationGrows checks that the incarnation grows with the wall clock, and even if that
// clock was set back.
func TestIncarnationGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := uint64(time.Now().UnixMilli())
		for _, c := range []struct{ stored, want uint64 }{
			{0, now}, {now - 1, now}, {now, now + 1}, {now + 1000, now + 1001},
		} {
			s := store.NewMemory([32]byte{})
			stored := paxos.Durable{StoreID: member.StoreID{1}, Incarnation: c.stored}
			if err := s.Save(store.Content{Durable: stored}); err != nil {
				t.Fatal(err)
			}
			n := &Node{store: s, reporter: diagnosis.New(diagnosis.Config{HeartbeatTimeout: time.Second})}
			if d, _, err := n.beginRun(t.Context()); err != nil || d.Incarnation != c.want {
				t.Errorf("stored %d: got %d, %v; want %d", c.stored, d.Incarnation, err, c.want)
			}
			if saved, _, _ := s.Load(); saved.Incarnation != c.want {
				t.Errorf("stored %d: saved %d, want %d", c.stored, saved.Incarnation, c.want)
			}
		}
	})
}

// TestStartWaitsForThisRun checks that Start waits until this run is an active member. In the
// loaded state, the previous run is active.
func TestStartWaitsForThisRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.form()
		old := w.others(w.leader())[0]
		i := int(old.cfg.self.Port - address(0).Port)
		w.end(old)
		n, err := w.start(i, Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[i] = n
		if self, view := n.Self(), n.View(); self.Identity != view.Self ||
			self.Incarnation <= old.Self().Incarnation || self.Status != member.Active {
			t.Errorf("got %v in status %v, want %v active, above %v",
				self.Identity, self.Status, view.Self, old.Self().Identity)
		}
	})
}

// TestRosterLostIsReported lets two of three nodes lose their disks. The third node must report
// that it can never elect a leader.
func TestRosterLostIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		before, after := t.TempDir(), t.TempDir()
		w.dir = func(i int) string { return filepath.Join(before, address(i).String()) }
		w.form()
		w.close()
		w.dir = func(i int) string {
			if i == 0 {
				return filepath.Join(before, address(i).String())
			}
			return filepath.Join(after, address(i).String())
		}
		ctx := w.within(20 * time.Second)
		ended := make(chan error)
		for i := range 3 {
			go func() {
				cfg := w.config(i, Config{JoinOnly: i > 0})
				_, err := Start(ctx, cfg, w.options(i)...)
				if lost := errors.Is(err, ErrRosterLost); lost != (i == 0) {
					t.Errorf("node %d: got %v; want ErrRosterLost on node 0 alone", i, err)
				}
				ended <- err
			}()
		}
		for range 3 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of the context", err)
			}
		}
		w.book.wants("no leader can be elected: too many data directories are lost; "+
			"restore them, or run athena recover on every node", 1)
	})
}
