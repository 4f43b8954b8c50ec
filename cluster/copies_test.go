// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// TestRestoredDirectoryBecomesANewMember restores the data directory of a node from a copy that was
// made before its last run. The node gets another store and its place again, and both sides log an
// error that names it.
func TestRestoredDirectoryBecomesANewMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.durable()
		defer w.close()
		w.form()
		dir, earlier := w.dir(0), t.TempDir()+"/copy"
		before := w.nodes[0].Status().Self
		w.end(w.nodes[0])
		if err := os.CopyFS(earlier, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		restart := func() Status {
			time.Sleep(time.Second) // runs are numbered by the clock
			n, err := w.start(0, w.profile)
			if err != nil {
				t.Fatal(err)
			}
			w.nodes[0] = n
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			return n.Status()
		}
		if s := restart(); s.Self.StoreID != before.StoreID || s.Counts.Copies != 0 {
			t.Errorf("got store %v after a restart, want %v", s.Self.StoreID, before.StoreID)
		}
		w.end(w.nodes[0])
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(earlier)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/athena.state", 0o600); err != nil {
			t.Fatal(err)
		}
		s := restart()
		if s.Self.StoreID == before.StoreID || s.Self.Status != member.Active || s.Counts.Copies != 1 {
			t.Errorf("got %+v, want an active member with another store", s.Self)
		}
		found := 0
		for _, n := range w.nodes[1:] {
			found += int(n.Status().Counts.Copies)
		}
		lines := w.book.count("a data directory was restored from an earlier copy: its node becomes a " +
			"new member; delete no other directory")
		if found == 0 || lines != found+1 {
			t.Errorf("found by %d others, logged %d times", found, lines)
		}
		// The new store is kept.
		w.end(w.nodes[0])
		if again := restart(); again.Self.StoreID != s.Self.StoreID {
			t.Errorf("got store %v after the next start, want %v", again.Self.StoreID, s.Self.StoreID)
		}
	})
}
