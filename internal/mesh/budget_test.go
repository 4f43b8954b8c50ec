// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"testing"
	"testing/synctest"
)

// TestBudgetIsGrantedInOrder checks that a small claim does not overtake a waiting large
// one, unless the link of the large one ends.
func TestBudgetIsGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{free: 10}
		forever, over := make(chan struct{}), make(chan struct{})
		if !b.acquire(8, forever) {
			t.Fatal("8 of 10 are not granted")
		}
		var large, small, last bool
		var done [3]chan struct{}
		for i, c := range []struct {
			bytes int
			end   chan struct{}
			got   *bool
		}{{9, over, &large}, {2, forever, &small}, {10, forever, &last}} {
			done[i] = make(chan struct{})
			go func() {
				*c.got = b.acquire(c.bytes, c.end)
				close(done[i])
			}()
			synctest.Wait()
		}
		if small {
			t.Error("2 of 2 are granted before 9, which waited first")
		}
		close(over)
		<-done[0]
		<-done[1]
		if large || !small {
			t.Errorf("after the end of the large claim: large %v, small %v; want false, true",
				large, small)
		}
		b.release(8)
		synctest.Wait()
		if last {
			t.Error("10 are granted while 2 are held")
		}
		b.release(2)
		<-done[2]
		if b.release(10); !last || b.free != 10 || len(b.waiting) != 0 {
			t.Errorf("in the end: last claim %v, %d free, %d waiting; want true, 10, 0",
				last, b.free, len(b.waiting))
		}
	})
}
