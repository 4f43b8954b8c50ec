// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
)

// TestIntrudersOfAnIsland cuts a follower off for longer than TTLTimeout, while an intruder reaches
// it from an address of its own, from that of the leader, or from that of the other follower. When
// the follower is back, the others still have the same leader and version, and it has its place
// (protocol.md 3).
func TestIntrudersOfAnIsland(t *testing.T) {
	for _, as := range []string{"stranger", "leader", "follower"} {
		t.Run(as, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) { testIsland(t, w, as) })
		})
	}
}

func testIsland(t *testing.T, w *world, as string) {
	leader := w.leader()
	island, other := w.others(leader)[0], w.others(leader)[1]
	from := map[string]member.Address{
		"leader": leader.cfg.self, "follower": other.cfg.self, "stranger": address(20),
	}[as]
	held := leader.currentSnapshot().held
	w.cut(island)
	time.Sleep(DefaultConfig().TTLTimeout + 2*time.Second)
	term, ok := leader.Leader()
	if !ok {
		t.Fatal("the leader of the others has no term")
	}
	in := w.intrude(from, 1<<40, leader)
	for _, up := range []uint64{1, 1 << 10, 9_000_000} {
		for name, body := range in.lies(held, up) {
			claim := member.Claim{Chosen: true, Version: held.Version + up, Leader: from}
			if body != nil {
				in.say(t, island, held, claim, body)
				synctest.Wait()
			}
			if got := island.currentSnapshot().held; got.Version != held.Version {
				t.Errorf("after %s the follower holds version %v", name, got.Number)
			}
		}
		time.Sleep(3 * time.Second) // as long as the node asks who has the address
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	before := other.View()
	w.heal(island)
	time.Sleep(30 * time.Second)
	if !term.Valid() {
		t.Error("the leader lost its term")
	}
	for _, n := range w.nodes {
		after := n.View()
		after.Self, after.Role, after.Revision = before.Self, before.Role, before.Revision
		after.Members = before.Members
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the view of %v has changed, -before +after:\n%s", n.cfg.self, diff)
		}
	}
	for _, m := range leader.View().Members {
		if m.Status != member.Active {
			t.Errorf("got %v %v, want active", m.Address, m.Status)
		}
	}
}
