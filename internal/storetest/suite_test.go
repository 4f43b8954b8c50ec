// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

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
