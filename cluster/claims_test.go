// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/athena-go/athena/transport"
)

const (
	claimText = "address claimed"
	copyText  = "earlier run refused"
)

// watched forms a cluster of three nodes with stores and returns the warnings of the first two.
func watched(t *testing.T, w *world) (list []*journal) {
	t.Helper()
	w.durable()
	for i := range 3 {
		j, logger := keep(zerolog.WarnLevel)
		w.add(i, Config{}, logger)
		list = append(list, j)
	}
	for _, n := range w.nodes {
		if err := n.WaitActive(w.within(time.Minute), 3); err != nil {
			t.Fatal(err)
		}
	}
	return list[:2]
}

// copyStore copies the data directory of a node, as cp -a does.
func copyStore(t *testing.T, to, from string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	if err == nil {
		err = os.Chmod(filepath.Join(to, "athena.state"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecondProcessOfAnAddress tests protocol.md section 8. It lets another process, which listens
// elsewhere, advertise the address of a member. With a store of its own it ends, and nothing else
// changes. With a copy of the store of the member it is taken for the next run of the member. In
// both cases the other nodes warn, at most once a minute.
func TestSecondProcessOfAnAddress(t *testing.T) {
	for _, copied := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testSecondProcess(t, copied) })
	}
}

func testSecondProcess(t *testing.T, copied bool) {
	w := newWorld(t, 3)
	defer w.close()
	warnings := watched(t, w)
	victim := w.nodes[2]
	before := w.leader().View()
	cfg := w.config(9, Config{Advertise: address(2).String(), Name: "typo"})
	if copied {
		copyStore(t, cfg.DataDir, w.dir(2))
	}
	time.Sleep(time.Second)
	double, err := Start(w.within(time.Minute), cfg, w.options(9)...)
	if double != nil {
		defer double.Close()
		time.Sleep(10 * time.Second)
		err = double.Err()
	}
	warning := claimText
	if copied {
		warning = copyText
		if err, why := victim.Err(), victim.Status().NoLeader; !errors.Is(err, ErrAddressInUse) &&
			!strings.Contains(why, "knows a later run of this store") {
			t.Errorf("the member that was replaced: got %v and %q, want a later run", err, why)
		}
	} else {
		if !errors.Is(err, ErrAddressInUse) || !strings.Contains(err.Error(), address(2).String()) {
			t.Errorf("the process with the wrong address: got %v, want %v at %v",
				err, ErrAddressInUse, address(2))
		}
		for i, n := range w.nodes {
			after := n.View()
			after.Self, after.Role = before.Self, before.Role
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the view of node %d has changed:\n%s", i, diff)
			}
		}
	}
	told := 0
	for i, j := range warnings {
		lines, _ := j.about(warning)
		if len(lines) > 1 {
			t.Errorf("node %d logs it %d times, want once: %q", i, len(lines), lines)
		}
		for _, line := range lines {
			told++
			for _, a := range []string{address(2).String(), address(9).String()} {
				if !strings.Contains(line, a) {
					t.Errorf("node %d: got %s, want the address and the source %s", i, line, a)
				}
			}
		}
	}
	if told == 0 {
		t.Errorf("copied %v: no node logs %q", copied, warning)
	}
	if copied {
		if err := double.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-victim.Done()
		if err := victim.Err(); !errors.Is(err, ErrAddressInUse) ||
			!strings.Contains(err.Error(), "connected from "+address(9).String()) {
			t.Errorf("the member after the copy has left: got %v, want where the copy ran", err)
		}
		w.nodes = w.nodes[:2]
	}
}

// TestARestartIsNoSecondProcess checks that a node that restarts with its store causes no warning:
// right after a crash, after a normal stop, or much later. A node that leaves, loses its store and
// restarts causes no warning either.
func TestARestartIsNoSecondProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		warnings, empty := watched(t, w), t.TempDir()
		for _, c := range []struct {
			name  string
			end   func(*Node) error
			after time.Duration
			dir   func(int) string
		}{
			{"closed", (*Node).Close, 0, w.dir},
			{"left", func(n *Node) error { return n.Leave(t.Context()) }, 0, w.dir},
			{"silent", (*Node).Close, time.Minute, w.dir},
			{"left, and lost its store", func(n *Node) error { return n.Leave(t.Context()) }, 0,
				func(int) string { return filepath.Join(empty, "anew") }},
		} {
			if err := c.end(w.nodes[2]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.after)
			w.nodes, w.dir = w.nodes[:2], c.dir
			w.add(2, Config{})
			if err := w.nodes[2].WaitActive(w.within(time.Minute), 3); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			for i, j := range warnings {
				for _, text := range []string{claimText, copyText} {
					if lines, _ := j.about(text); len(lines) != 0 {
						t.Errorf("%s: node %d logs %q, want nothing", c.name, i, lines)
					}
				}
			}
		}
	})
}

// TestACrashIsNoSecondProcess checks that a crash causes no warning, even if the next run starts
// before the others have noticed the silence.
func TestACrashIsNoSecondProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		warnings := watched(t, w)
		crashed := w.nodes[2]
		w.cut(crashed)
		// The calls of the old run fail, and its address becomes free.
		listen := func(transport.Config) (transport.Network, error) { return w.net.Listen(address(9)) }
		cfg := w.config(2, Config{})
		copied := t.TempDir()
		copyStore(t, copied, cfg.DataDir)
		cfg.Addr, cfg.Advertise, cfg.DataDir = address(9).String(), address(2).String(), copied
		next, err := Start(w.within(time.Minute), cfg, append(w.options(2), WithTransport(listen))...)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes[:2:2], next)
		time.Sleep(time.Minute)
		for i, j := range warnings {
			if lines, _ := j.about(copyText); len(lines) != 0 {
				t.Errorf("node %d logs %q, want nothing", i, lines)
			}
		}
		w.end(crashed)
	})
}

// TestMistypedAddresses starts two daemons that advertise the addresses of two members and listen
// elsewhere, under a supervisor that starts them again a second after they end. The leader, its
// version and all votes stay, and the members elect after a restart of all of them.
func TestMistypedAddresses(t *testing.T) {
	for _, c := range []struct {
		size          int
		pause, during time.Duration // between the first starts; of the supervisors
	}{
		{3, 0, 2 * time.Minute},
		{3, 5 * time.Second, 20 * time.Second},
		{5, 0, 20 * time.Second},
		{5, 5 * time.Second, 20 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d nodes, %v apart", c.size, c.pause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testMistyped(t, c.size, c.pause, c.during) })
		})
	}
}

func testMistyped(t *testing.T, size int, pause, during time.Duration) {
	w := newWorld(t, size)
	defer w.close()
	w.durable()
	w.form()
	leader := w.leader()
	before := leader.View()
	victims := []*Node{leader, w.others(leader)[0]}
	var work sync.WaitGroup
	for i, victim := range victims {
		cfg := w.config(9-i, Config{Advertise: victim.cfg.self.String(), Name: "typo"})
		work.Go(func() { superviseTypo(t, w, 9-i, cfg, during) })
		time.Sleep(pause)
	}
	work.Wait()
	for _, n := range w.nodes {
		after := n.View()
		after.Self, after.Role = before.Self, before.Role
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the view of %v has changed:\n%s", n.cfg.self, diff)
		}
	}
	for i, n := range w.nodes {
		w.end(n)
		w.nodes[i] = nil
	}
	w.form()
	if got := w.leader().View().Version; got != before.Version+1 {
		t.Errorf("after a restart of all members the version is %d, want %d", got, before.Version+1)
	}
}

// TestMistypedAddressesAtTheFirstStart starts the first node of a new cluster together with daemons
// that advertise the addresses of the others by mistake. They form no cluster. The others, which
// start later, do.
func TestMistypedAddressesAtTheFirstStart(t *testing.T) {
	for _, pause := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3)
			defer w.close()
			w.durable()
			w.add(0, Config{})
			var typos []*Node
			for i := range 2 {
				cfg := w.config(9-i, Config{Advertise: address(1 + i).String(), Name: "typo"})
				n, err := Start(t.Context(), cfg, w.options(9-i)...)
				if err != nil {
					t.Fatal(err)
				}
				typos = append(typos, n)
				time.Sleep(pause)
			}
			time.Sleep(30 * time.Second)
			for _, n := range append(typos, w.nodes...) {
				if held := n.currentSnapshot().held; held.Version != 0 {
					t.Errorf("%s holds %v before the other members have started", n.cfg.self, held)
				}
			}
			for i := 1; i < w.size; i++ {
				w.add(i, Config{})
				time.Sleep(pause)
			}
			for _, n := range typos {
				select {
				case <-n.Done():
				case <-time.After(time.Minute):
				}
				if !errors.Is(n.Err(), ErrAddressInUse) {
					t.Errorf("typo of %v: got %v, want %v", n.cfg.self, n.Err(), ErrAddressInUse)
				}
				_ = n.Close()
			}
			for _, n := range w.nodes {
				if err := n.WaitActive(w.within(time.Minute), w.size); err != nil {
					t.Fatal(err)
				}
			}
			held := w.leader().currentSnapshot().held
			for _, n := range w.nodes {
				if !held.Roster.IsVoter(n.View().Self.Voter()) {
					t.Errorf("%v is no voter of %v", n.cfg.self, held.Roster)
				}
			}
			if held.Version != 1 {
				t.Errorf("the version is %d, want 1", held.Version)
			}
		})
	}
}

// superviseTypo runs a node with a mistyped address for the given time, and again a second after
// each end.
func superviseTypo(t *testing.T, w *world, i int, cfg Config, during time.Duration) {
	for stop := time.Now().Add(during); time.Now().Before(stop); time.Sleep(time.Second) {
		n, err := Start(w.within(time.Minute), cfg, w.options(i)...)
		if n != nil {
			select {
			case <-n.Done():
			case <-time.After(10 * time.Second):
			}
			err = n.Err()
			_ = n.Close()
		}
		if !errors.Is(err, ErrAddressInUse) {
			t.Errorf("the process with the address %s: got %v, want %v", cfg.Advertise, err,
				ErrAddressInUse)
		}
	}
}
