// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// TestBarrier draws callers on several hosts with unknown outcomes. They run in whole groups, and
// no group begins before the last one has ended.
func TestBarrier(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { drawBarrier(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func drawBarrier(t *testing.T, seed uint64) {
	r, table := rand.New(rand.NewPCG(seed, 13)), newFaulty(t, seed)
	ctx, stop := context.WithTimeout(t.Context(), drawnLimit)
	defer stop()
	parties, groups := 1+r.IntN(5), 4
	var mu sync.Mutex
	var all sync.WaitGroup
	began, inside := 0, 0
	for range parties * groups {
		b, err := NewBarrier(table.openStore(fmt.Sprint("host-", r.IntN(3))), "a", parties)
		if err != nil {
			t.Fatal(err)
		}
		holds := time.Duration(r.IntN(300)) * time.Millisecond
		all.Go(func() {
			err := b.Do(ctx, func(context.Context) error {
				mu.Lock()
				if began%parties == 0 && inside > 0 {
					t.Errorf("a group begins while %d callers of the last are inside", inside)
				}
				began++
				inside++
				mu.Unlock()
				time.Sleep(holds)
				mu.Lock()
				inside--
				mu.Unlock()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	}
	all.Wait()
	table.checkEmpty()
}

// TestBarrierWithoutAParty checks that no caller waits for a member that has crashed inside, and
// that a caller leaves when its context is done.
func TestBarrierWithoutAParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		open := func(host string) *Barrier {
			b, err := NewBarrier(table.Store(host), "j/x", 2)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		a, b := open("a"), open("b")
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := a.Do(short, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do without the other party: got %v", err)
		}
		synctest.Wait()
		crashed, dies := context.WithCancel(t.Context())
		go func() {
			_ = b.Do(t.Context(), func(context.Context) error { <-crashed.Done(); return nil })
		}()
		began := time.Now()
		err := a.Do(t.Context(), func(context.Context) error {
			table.Cut("b")
			return nil
		})
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("Do beside a crash: %v after %v", err, took)
		}
		dies()
		table.Heal("b")
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.Do(t.Context(), nil); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("Do after Close: got %v, want ErrClosed", err)
		}
		for _, parties := range []int{0, maxParties + 1} {
			if _, err := NewBarrier(table.Store("a"), "x", parties); err == nil {
				t.Errorf("%d parties: no error", parties)
			}
		}
		for _, name := range []string{"", "j/", strings.Repeat("x", 300)} {
			if _, err := NewBarrier(table.Store("a"), name, 2); err == nil {
				t.Errorf("name %.10q: no error", name)
			}
		}
	})
}
