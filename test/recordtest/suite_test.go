// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	leases "github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestL32Memory(t *testing.T) {
	Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		synctest.Test(t, func(t *testing.T) {
			m := record.NewMemory()
			var stores []record.Store
			for i := range Members {
				stores = append(stores, m.Store(fmt.Sprint("n", i)))
			}
			test(t, stores)
		})
	})
}

func TestL32Cluster(t *testing.T) {
	Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		inWorld(t, Members, func(t *testing.T, w *world) {
			var stores []record.Store
			for _, n := range w.nodes {
				stores = append(stores, n.Records())
			}
			test(t, stores)
		})
	})
}

// TestWatchReportsRevocations checks that Watch reports that a record was revoked. Its owner is cut
// off, so that the record stays.
func TestWatchReportsRevocations(t *testing.T) {
	t.Run("cluster", func(t *testing.T) {
		inWorld(t, Members, func(t *testing.T, w *world) {
			f := w.followers()
			owner, leader, other := w.nodes[f[0]], w.nodes[w.leader()], w.nodes[f[1]]
			seesRevocation(t, owner.Records(), leader.Records(), other.Records(), func() { w.cut(f[0]) })
		})
	})
	t.Run("service", func(t *testing.T) {
		inService(t, Members, func(t *testing.T, clients []*client, stores []*leases.Store) {
			seesRevocation(t, stores[0], stores[1], stores[2], func() {
				clients[0].set(func(c *client) { c.cut = true })
			})
		})
	})
	t.Run("memory", func(t *testing.T) { // drops the record immediately
		inMemory(t, func(t *testing.T, m *record.Memory) {
			seesRevocation(t, m.Store("a"), m.Store("b"), m.Store("c"), func() {})
		})
	})
}

// seesRevocation revokes a record after its owner was cut off, and checks what a watch reports.
func seesRevocation(t *testing.T, owner, other, watching record.Store, cut func()) {
	t.Helper()
	const key = "test/k"
	token, err := owner.Session(nil).Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "record", func() bool {
		r, err := record.Get(t.Context(), watching, key)
		return err == nil && r.Token == token
	})
	cut()
	changed := watching.Watch(t.Context(), key)
	<-changed // the initial value
	drop := record.Op{Kind: record.Drop, Key: key}
	if _, err := other.Session(nil).Commit(t.Context(), drop); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(heartbeat):
		t.Fatal("Watch does not report that the record was revoked")
	}
	r, err := record.Get(t.Context(), watching, key)
	if !errors.Is(err, record.ErrAbsent) && (err != nil || !r.Revoked || r.Token != token) {
		t.Errorf("got %+v, %v, want the record revoked or gone", r, err)
	}
}
