// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAMistakenSeedIsRefusedByName restarts a node with a list of seeds that contains a seed of
// another cluster with the same name and secret. The node must rejoin its own cluster, both
// clusters must keep their leaders, and both nodes must log why they refuse each other.
func TestAMistakenSeedIsRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := newWorld(t, 3), newWorld(t, 3)
		other.net, other.book, other.first = w.net, w.book, 3
		for _, c := range []*world{w, other} {
			defer c.close()
			c.durable()
			c.form()
		}
		before := other.leader().Status()
		if id := w.nodes[0].Status().ClusterID; id.IsZero() || id == before.ClusterID {
			t.Fatalf("the clusters have the ids %v and %v, want two", id, before.ClusterID)
		}
		back := w.others(w.leader())[0]
		i := int(back.cfg.self.Port - address(0).Port)
		w.end(back)
		cfg := w.config(i, Config{})
		cfg.Seeds[2] = address(3).String()
		var err error
		if w.nodes[i], err = Start(t.Context(), cfg, w.options(i)...); err != nil {
			t.Fatalf("Start: %v", err)
		}
		for _, c := range []*world{w, other} {
			if err := c.nodes[i].WaitActive(t.Context(), 3); err != nil {
				t.Fatalf("WaitActive: %v", err)
			}
		}
		time.Sleep(time.Minute)
		after := other.leader().Status()
		if after.Token != before.Token || after.View.Leader != before.View.Leader {
			t.Errorf("the other cluster went from %v, token %v, to %v, token %v",
				before.View.Leader, before.Token, after.View.Leader, after.Token)
		}
		if got := w.nodes[i].View().Leader; got != w.leader().cfg.self {
			t.Errorf("the node follows %v, want %v", got, w.leader().cfg.self)
		}
		refused := map[string]bool{} // names of nodes
		w.book.mu.Lock()
		defer w.book.mu.Unlock()
		for _, line := range w.book.lines["peer refused"] {
			text, _ := line["error"].(string)
			if node, _ := line["node"].(string); strings.Contains(text, "ClusterID differs") {
				refused[node] = true
			}
		}
		if name := other.nodes[0].cfg.Name; !refused[w.nodes[i].cfg.Name] || !refused[name] {
			t.Errorf("refusals for another cluster id were logged by %v, want %s and %s",
				refused, w.nodes[i].cfg.Name, name)
		}
	})
}

// TestFormerMemberIsRefusedByName lets two of three nodes lose their disks while the third is down.
// They found a new cluster. When the third one returns, Start fails with the reason, and the new
// leader stays.
func TestFormerMemberIsRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.form()
		former := w.nodes[2].Status().ClusterID
		for _, n := range w.nodes {
			w.end(n)
		}
		w.nodes = nil
		for i := range 2 {
			if err := os.RemoveAll(w.dir(i)); err != nil {
				t.Fatal(err)
			}
			w.add(i, Config{})
		}
		if err := w.nodes[0].WaitActive(w.within(time.Minute), 2); err != nil {
			t.Fatal(err)
		}
		before := w.leader().Status()
		_, err := w.start(2, Config{})
		if err == nil || !strings.Contains(err.Error(), "ClusterID differs: "+former.String()) {
			t.Errorf("Start of the former member: got %v, want that the ClusterID differs", err)
		}
		if after := w.leader().Status(); after.Token != before.Token {
			t.Errorf("the new cluster went from token %v to %v", before.Token, after.Token)
		}
	})
}
