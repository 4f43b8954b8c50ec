// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/latch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestL32Memory(t *testing.T) {
	Suite(t, func(t *testing.T, test func(*testing.T, []latch.Store)) {
		synctest.Test(t, func(t *testing.T) {
			m := latch.NewMemory()
			var stores []latch.Store
			for i := range Members {
				stores = append(stores, m.Store(fmt.Sprint("n", i)))
			}
			test(t, stores)
		})
	})
}

func TestL32Cluster(t *testing.T) {
	Suite(t, func(t *testing.T, test func(*testing.T, []latch.Store)) {
		inWorld(t, Members, func(t *testing.T, w *world) {
			var stores []latch.Store
			for _, n := range w.nodes {
				stores = append(stores, latch.Cluster(n))
			}
			test(t, stores)
		})
	})
}
