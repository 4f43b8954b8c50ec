// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/transport"
)

const conflictText = "another process joined under this address; " +
	"unless it restarted, two processes advertise the same address"

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

// TestSecondProcessOfAddressCausesWarning lets another process advertise the address of a member
// and take its seat. The member must stop. The leader and every node that the member dials must log
// a warning, at most once a minute.
func TestSecondProcessOfAddressCausesWarning(t *testing.T) {
	for _, c := range []struct {
		name string
		copy bool // copy the store of the running node
		why  string
	}{
		{"another store", false, "it has a different store"},
		{"a copied store", true, "an earlier run still dials or answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSecondProcess(t, c.copy, c.why) })
		})
	}
}

func testSecondProcess(t *testing.T, copied bool, why string) {
	w := newWorld(t, 3)
	defer w.close()
	warnings := watched(t, w)
	victim := w.nodes[2]
	if w.leader() == victim { // let the leader see that the member loses its seat
		if err := victim.Transfer(w.within(time.Minute), address(0)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := w.config(9, Config{Advertise: address(2).String()})
	if copied {
		if err := os.CopyFS(cfg.DataDir, os.DirFS(w.dir(2))); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	double, err := Start(w.within(time.Minute), cfg, w.options(9)...)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes = append(w.nodes[:2:2], double)
	time.Sleep(10 * time.Second)
	if err, why := victim.Err(), victim.Status().NoLeader; !errors.Is(err, ErrAddressInUse) &&
		!strings.Contains(why, "knows a later run of this address") {
		t.Errorf("the member that was pushed out: got %v and %q, want a later run", err, why)
	}
	_ = victim.Close()
	told := 0
	for i, j := range warnings {
		lines, _ := j.about(conflictText)
		if len(lines) > 1 {
			t.Errorf("node %d logs it %d times, want once: %q", i, len(lines), lines)
		}
		for _, line := range lines {
			told++
			if !strings.Contains(line, `"peer":"127.0.0.1:7003","name":"n`) {
				t.Errorf("node %d: got %s, want the address and the name", i, line)
			}
		}
		if _, ok := w.nodes[i].Leader(); !ok {
			t.Fatal("no node leads")
		}
		lines, _ = j.about(why)
		if w.nodes[i] == w.leader() && len(lines) != 1 {
			t.Errorf("the leader logs %q, want one line with %q", lines, why)
		}
	}
	if told == 0 {
		t.Error("no node warns")
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
				if lines, _ := j.about(conflictText); len(lines) != 0 {
					t.Errorf("%s: node %d logs %q, want nothing", c.name, i, lines)
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
		if err := os.CopyFS(copied, os.DirFS(cfg.DataDir)); err != nil {
			t.Fatal(err)
		}
		cfg.Addr, cfg.Advertise, cfg.DataDir = address(9).String(), address(2).String(), copied
		next, err := Start(w.within(time.Minute), cfg, append(w.options(2), WithTransport(listen))...)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes[:2:2], next)
		time.Sleep(time.Minute)
		for i, j := range warnings {
			if lines, _ := j.about(conflictText); len(lines) != 0 {
				t.Errorf("node %d logs %q, want nothing", i, lines)
			}
		}
		w.end(crashed)
	})
}
