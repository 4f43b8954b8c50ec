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

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// TestOneMistypedListIsSaidByAll: node 2 has one seed wrong, so that it cannot
// found a cluster with node 0. Both say whose list is another. Once nodes 0 and 1
// have a leader, the status says it, until the list is mended.
func TestOneMistypedListIsSaidByAll(t *testing.T) {
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
			want := said + " has other seeds: give every node the same list, " +
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

// startEarly starts node i, which may never join.
func (w *world) startEarly(i int, cfg Config, opts ...Option) *Node {
	var n *Node
	opts = append(w.options(i), append(opts, WithListening(func(early *Node) { n = early }))...)
	go func() { _, _ = Start(w.t.Context(), cfg, opts...) }()
	synctest.Wait()
	return n
}

// TestWhoHasOtherSeedsIsBounded: a seed stays named however long it is silent, a
// stranger for a minute after its last word, and any number of them is no more
// than there is room for.
func TestWhoHasOtherSeedsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s notes
		s.start(addresses(1, 2), addresses(1)[0])
		seed, stranger := addresses(2)[0], addresses(9)[0]
		s.greeted(seed, false)
		s.greeted(stranger, false)
		want := func(what string, want ...member.Address) {
			t.Helper()
			if got := s.otherSeeds(); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		want("greeted", seed, stranger)
		time.Sleep(oddFresh)
		s.message(message.Message{From: at(9, 0).Identity, Body: message.LeaderQuery{}})
		time.Sleep(oddFresh)
		want("a minute after its word", seed, stranger)
		time.Sleep(time.Nanosecond)
		want("later", seed)
		for port := range uint16(3 * maxOdd) {
			s.greeted(addresses(1000 + port)[0], false)
		}
		if got := s.otherSeeds(); len(got) > maxOdd || !slices.Contains(got, seed) {
			t.Errorf("got %d, with the seed: %t; want at most %d with it",
				len(got), slices.Contains(got, seed), maxOdd)
		}
		s.greeted(seed, true)
		if slices.Contains(s.otherSeeds(), seed) {
			t.Error("a seed greeted with the same list: got it named, want not")
		}
	})
}
