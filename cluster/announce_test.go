// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport"
)

// killNode ends a node as if its process were killed.
func (w *world) killNode(n *Node) {
	w.net.Kill(n.cfg.self)
	<-n.Done()
}

// announceEnd announces that the process of a node has ended.
func (w *world) announceEnd(n *Node) error {
	i := int(n.cfg.self.Port) - 7001 - w.first
	return AnnounceEnd(w.t.Context(), w.config(i, w.profile), w.options(i)...)
}

// awaitNext waits until a node follows another leader than the given one, or leads.
func awaitNext(t *testing.T, n, led *Node) {
	t.Helper()
	for range n.Events(t.Context()) {
		if term, ok := n.Leader(); ok && term.Leader() != led.cfg.self.String() {
			return
		}
	}
}

// inDurableWorld is inWorld for nodes with data directories.
func inDurableWorld(t *testing.T, size int, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size)
		w.durable()
		defer w.close()
		w.form()
		test(t, w)
	})
}

// TestAnnouncedEndOfALeader checks that the members elect another leader immediately when the end
// of the leader's process is announced.
func TestAnnouncedEndOfALeader(t *testing.T) {
	for _, size := range []int{2, 3, 5, 9, 25} {
		inDurableWorld(t, size, func(t *testing.T, w *world) {
			led := w.leader()
			w.killNode(led)
			began := time.Now()
			announced := make(chan error, 1)
			go func() { announced <- w.announceEnd(led) }()
			for _, n := range w.others(led) {
				if size > 2 {
					awaitNext(t, n, led)
				}
			}
			took := time.Since(began)
			if err := <-announced; err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // for the next revision
			for _, n := range w.others(led) {
				if m, _ := n.View().Member(led.cfg.self); size > 2 && m.Status != member.Unreachable {
					t.Errorf("size %d: %v shows %v", size, n.cfg.self, m)
				}
			}
			t.Logf("size %d: %v", size, took)
			if took > 60*time.Millisecond {
				t.Errorf("size %d: another leader after %v", size, took)
			}
			w.book.wants("announced that the process of this node has ended", 1)
			// The node returns as the same member.
			i := int(led.cfg.self.Port) - 7001
			next, err := w.start(i, w.profile)
			if err != nil {
				t.Fatal(err)
			}
			w.nodes[i] = next
			if err := next.WaitActive(w.within(time.Minute), size); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestNoEndIsAnnouncedWhileAProcessRuns checks that AnnounceEnd changes nothing while a process has
// the lock of the data directory.
func TestNoEndIsAnnouncedWhileAProcessRuns(t *testing.T) {
	inDurableWorld(t, 3, func(t *testing.T, w *world) {
		led := w.leader()
		term, _ := led.Leader()
		before, _, _ := store.Peek(led.cfg.DataDir)
		if err := w.announceEnd(led); !errors.Is(err, ErrRunning) {
			t.Errorf("got %v, want ErrRunning", err)
		}
		time.Sleep(time.Minute)
		after, _, _ := store.Peek(led.cfg.DataDir)
		if !term.Valid() || after.Incarnation != before.Incarnation {
			t.Errorf("valid: %v, run %d became %d", term.Valid(), before.Incarnation, after.Incarnation)
		}
	})
}

// TestAnnouncedEndFreesRecords checks that records of a member whose end is announced are free
// immediately, whether it was the leader or not. Locks, jobs and shards are such records.
func TestAnnouncedEndFreesRecords(t *testing.T) {
	for _, leads := range []bool{false, true} {
		inDurableWorld(t, 3, func(t *testing.T, w *world) {
			owner, next := w.followers()[0], w.followers()[1]
			if leads {
				owner = w.leader()
			}
			acquire(t, session(owner), "k")
			w.killNode(owner)
			began := time.Now()
			if err := w.announceEnd(owner); err != nil {
				t.Fatal(err)
			}
			for r := range record.Watch(t.Context(), next.Records(), "k") {
				if len(r) == 0 {
					break
				}
			}
			if took := time.Since(began); took > 60*time.Millisecond {
				t.Errorf("led %v: free after %v", leads, took)
			}
			acquire(t, session(next), "k")
		})
	}
}

// TestAnnouncedEndMovesRequests checks that a request to the leader is answered by the next one
// immediately when the end of the leader's process is announced.
func TestAnnouncedEndMovesRequests(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		led := w.leader()
		asker := w.others(led)[0]
		w.killNode(led)
		answered := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := RequestLeader[total](w.within(time.Minute), asker, sum{A: 1}, Idempotent())
			answered <- err
		}()
		i := int(led.cfg.self.Port) - 7001
		ctx := store.NewContext(t.Context(), led.store)
		if err := AnnounceEnd(ctx, w.config(i, w.profile), w.options(i)...); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("got %v, want the answer of the next leader", err)
		}
		t.Logf("answered after %v", time.Since(began))
		if took := time.Since(began); took > 60*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
	})
}

// saves is a store that calls a function after each Save.
type saves struct {
	*store.Memory
	saved func(store.Content)
}

func (s saves) Save(c store.Content) error {
	err := s.Memory.Save(c)
	s.saved(c)
	return err
}

// TestAnnounceEndSavesFirst checks that the number of the run that announces an end is saved before
// it greets another node, and that nothing else changes.
func TestAnnounceEndSavesFirst(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		kept := store.NewMemory([32]byte{})
		w.end(w.nodes[2])
		n, err := w.startOn(kept, 2, w.profile)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[2] = n
		if err := n.WaitActive(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		before, _, _ := kept.Load()
		w.killNode(n)
		var during store.Content
		observed := saves{kept, func(c store.Content) {
			during = c
			time.Sleep(time.Second)
			for _, o := range w.nodes[:2] {
				if m, _ := o.View().Member(n.cfg.self); m.Incarnation != before.Incarnation {
					t.Errorf("%v knows of run %d before it was saved", o.cfg.self, m.Incarnation)
				}
			}
		}}
		ctx := store.NewContext(t.Context(), observed)
		if err := AnnounceEnd(ctx, w.config(2, w.profile), w.options(2)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // for the next revision
		during.Incarnation, before.Incarnation = before.Incarnation, during.Incarnation
		if before.Incarnation <= during.Incarnation || !cmp.Equal(before.Key, during.Key) ||
			during.Promised != before.Promised || during.Held.Number.IsZero() {
			t.Errorf("saved %+v, before %+v", during, before)
		}
		for _, o := range w.nodes[:2] {
			if m, _ := o.View().Member(n.cfg.self); m.Incarnation != before.Incarnation {
				t.Errorf("%v shows %+v, want run %d", o.cfg.self, m, before.Incarnation)
			}
		}
	})
}

// TestAnnounceEndInVain checks what AnnounceEnd does if no member answers, and that it saves and
// sends nothing with the configuration of another cluster or without a directory.
func TestAnnounceEndInVain(t *testing.T) {
	inDurableWorld(t, 3, func(t *testing.T, w *world) {
		for _, n := range w.nodes {
			w.killNode(n)
		}
		began := time.Now()
		err := w.announceEnd(w.nodes[0])
		if err == nil || !strings.Contains(err.Error(), "0 of 2 members know") {
			t.Errorf("got %v, want the number of members that know", err)
		}
		if took := time.Since(began); took > w.nodes[0].cfg.LeaderTimeout/2+tellPause {
			t.Errorf("took %v: the next run waits for it", took)
		}
		before, _, _ := store.Peek(w.dir(0))
		other := w.config(0, Config{Cluster: "other"})
		err = AnnounceEnd(t.Context(), other, w.options(0)...)
		if _, ok := errors.AsType[*StoreMismatchError](err); !ok {
			t.Errorf("another cluster: got %v", err)
		}
		if after, _, _ := store.Peek(w.dir(0)); after.Incarnation != before.Incarnation {
			t.Error("another cluster: the store has changed")
		}
		other.DataDir = ""
		if err := AnnounceEnd(t.Context(), other, w.options(0)...); err == nil {
			t.Error("without a directory: no error")
		}
		w.nodes = nil
	})
}

// TestAnnounceEndToAStranger checks that a node that holds no state logs and counts nothing when
// it refuses an announcement, which comes from another port than that of the address.
func TestAnnounceEndToAStranger(t *testing.T) {
	inDurableWorld(t, 3, func(t *testing.T, w *world) {
		for _, n := range w.nodes {
			w.killNode(n)
		}
		cfg := w.config(0, w.profile)
		w.durable() // other directories
		w.nodes = nil
		j, logger := keep(zerolog.WarnLevel)
		other := w.add(1, Config{}, logger)
		listen := func(transport.Config) (transport.Network, error) { return w.net.Listen(address(9)) }
		err := AnnounceEnd(t.Context(), cfg, append(w.options(0), WithTransport(listen))...)
		if err == nil || !strings.Contains(err.Error(), "0 of 2 members know") {
			t.Errorf("got %v, want that no node knows", err)
		}
		if lines, _ := j.about(claimText); len(lines) > 0 {
			t.Errorf("got %q, want no line", lines)
		}
		if n := other.Status().Transport.Handshakes["refused"]; n > 0 {
			t.Errorf("%d handshakes are counted as refused, want none", n)
		}
	})
}

// TestAnnounceEndToSlowMembers checks that members are informed if they answer before half of
// LeaderTimeout, and that AnnounceEnd does not wait longer for members that do not answer.
func TestAnnounceEndToSlowMembers(t *testing.T) {
	inDurableWorld(t, 3, func(t *testing.T, w *world) {
		led := w.leader()
		limit := led.cfg.LeaderTimeout / 2
		w.killNode(led)
		w.cut(led)
		began := time.Now()
		err := w.announceEnd(led)
		if took := time.Since(began); err == nil || took > limit+tellPause {
			t.Errorf("without an answer: %v after %v, want an error after %v", err, took, limit)
		}
		heal := time.AfterFunc(limit*3/4, func() { w.heal(led) })
		defer heal.Stop()
		if err := w.announceEnd(led); err != nil {
			t.Errorf("with an answer after %v: %v", limit*3/4, err)
		}
	})
}

// TestGathering checks when the message is sent to four members. Three are enough.
func TestGathering(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ arrive, open []time.Duration }{
		{[]time.Duration{0, 10 * ms, 20 * ms, 30 * ms}, []time.Duration{30 * ms}},
		{[]time.Duration{0, 10 * ms, 100 * ms}, []time.Duration{200 * ms}},
		{[]time.Duration{0, 10 * ms, 400 * ms}, []time.Duration{500 * ms}},
		{[]time.Duration{0, 10 * ms}, []time.Duration{500 * ms}},
		{[]time.Duration{0, 10 * ms, 20 * ms, 90 * ms}, []time.Duration{40 * ms, 90 * ms}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := newGathering(t.Context(), 4, 3, 500*ms)
			opened := make(chan time.Duration)
			for _, after := range c.arrive {
				time.AfterFunc(after, func() {
					g.arrive()
					opened <- time.Since(began)
				})
			}
			var got []time.Duration
			for range c.arrive {
				got = append(got, <-opened)
			}
			if got = slices.Compact(got); !slices.Equal(got, c.open) {
				t.Errorf("arrived after %v: sent after %v, want %v", c.arrive, got, c.open)
			}
		})
	}
}

// TestAnnounceEndOnAStuckDisk checks that AnnounceEnd returns if the disk does not answer, and that
// it informs no member of a run that is not saved.
func TestAnnounceEndOnAStuckDisk(t *testing.T) {
	inFrozenWorld(t, func(t *testing.T, w *world, s *frozenStore) {
		led := w.nodes[0]
		w.killNode(led)
		before, _, _ := s.Load()
		s.freezeDisk()
		began := time.Now()
		err := AnnounceEnd(store.NewContext(t.Context(), s), w.config(0, Config{}), w.options(0)...)
		if err == nil || !strings.Contains(err.Error(), "the disk does not answer") {
			t.Errorf("got %v, want that the disk does not answer", err)
		}
		if took := time.Since(began); took != announceTimeout {
			t.Errorf("took %v, want %v", took, announceTimeout)
		}
		s.thawDisk()
		synctest.Wait()
		for _, n := range w.others(led) {
			if m, _ := n.View().Member(led.cfg.self); m.Incarnation != before.Incarnation {
				t.Errorf("%v knows of run %d, which was not saved in time", n.cfg.self, m.Incarnation)
			}
		}
	})
}

// TestAnnounceEndWithoutProof checks that AnnounceEnd refuses a file system whose locks do not
// prove that a process has ended, before it uses the directory.
func TestAnnounceEndWithoutProof(t *testing.T) {
	cfg := Config{Addr: "127.0.0.1:7001", Size: 1, DataDir: "/proc/athena", Insecure: true}
	err := AnnounceEnd(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "prove") {
		t.Errorf("got %v, want that the lock proves nothing", err)
	}
	if guard := Guard(cfg); guard == nil || !strings.Contains(guard.Error(), "prove") {
		t.Errorf("Guard: got %v, want that the lock proves nothing", guard)
	}
}

// TestAnnounceEndWithoutDirectory checks that a misspelled directory is an error and not created.
func TestAnnounceEndWithoutDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "misspelled")
	cfg := Config{Addr: "127.0.0.1:7001", Size: 1, DataDir: dir, Insecure: true}
	err := AnnounceEnd(t.Context(), cfg)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want that %s does not exist", err, dir)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v, want that it does not exist", dir, err)
	}
}

// TestStartWaitsForAnAnnouncement checks that a start waits for a process that keeps the lock for a
// moment.
func TestStartWaitsForAnAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.durable()
		defer w.close()
		guard, err := store.OpenFile(w.dir(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.start(0, w.profile); !errors.Is(err, store.ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
		time.AfterFunc(100*time.Millisecond, func() { _ = guard.Close() })
		w.add(0, w.profile)
	})
}
