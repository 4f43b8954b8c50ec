// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/member"
)

// TestMistypedSeedIsReportedByAll gives node 2 a wrong seed, so that it cannot found a cluster with
// node 0. Both nodes must report which node's list differs. After nodes 0 and 1 have a leader, the
// status must still report the difference until the list is corrected.
func TestMistypedSeedIsReportedByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		warnings, logger := keep(zerolog.WarnLevel)
		wrong := w.config(2, Config{})
		wrong.Seeds[2] = address(7).String()
		one, err := w.start(0, Config{}, logger)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, one)
		third := w.startEarly(2, wrong, logger)
		err = third.Send(t.Context(), address(0), note{})
		if !errors.Is(err, ErrNotActive) || !strings.Contains(err.Error(), "this node is not") {
			t.Errorf("Send before it has joined: got %v, want that this node is not active", err)
		}
		time.Sleep(20 * time.Second)
		for i, said := range []string{address(2).String(), address(0).String()} {
			want := said + " has a different list of seeds: give every node the same list, " +
				"without nodes of other clusters"
			lines, _ := warnings.about(want)
			lines = slices.DeleteFunc(lines, func(l string) bool {
				return !strings.Contains(l, fmt.Sprintf(`"node":"n%d"`, 2*i))
			})
			if len(lines) == 0 {
				t.Errorf("node %d does not say %q", 2*i, want)
			}
		}
		own := `"seeds":"127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003"`
		lines, _ := warnings.about("seeds differ")
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, own) }) {
			t.Errorf("got %q, want the list of this node in one of them", lines)
		}

		w.end(third)
		two, err := w.start(1, Config{}, logger)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, two)
		if _, err := one.WaitLeader(w.within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		third = w.startEarly(2, wrong, logger)
		time.Sleep(20 * time.Second)
		for _, n := range w.nodes {
			s := n.Status()
			if s.NoLeader != "" || !slices.Equal(s.OtherSeeds, []member.Address{address(2)}) {
				t.Errorf("%s: no leader %q, other seeds %v; want a leader, and that of node 2",
					n.cfg.Name, s.NoLeader, s.OtherSeeds)
			}
		}
		w.end(third)
		w.nodes = append(w.nodes, w.startEarly(2, w.config(2, Config{}), logger))
		time.Sleep(20 * time.Second)
		for _, n := range w.nodes {
			if s := n.Status(); len(s.OtherSeeds) != 0 {
				t.Errorf("%s: the list is mended: other seeds %v, want none", n.cfg.Name, s.OtherSeeds)
			}
		}
	})
}

// startEarly starts node i without waiting for it to join, which it may never do.
func (w *world) startEarly(i int, cfg Config, opts ...Option) *Node {
	var n *Node
	opts = append(w.options(i), append(opts, WithListening(func(early *Node) { n = early }))...)
	go func() { _, _ = Start(w.t.Context(), cfg, opts...) }()
	synctest.Wait()
	return n
}
