// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// rwTest checks who holds an RWLock.
type rwTest struct {
	t       *testing.T
	mu      sync.Mutex
	readers []context.Context
	writer  context.Context
	most    int          // the greatest number of readers at a time
	written member.Token // of the last writer
	last    member.Token // the greatest of all
}

// holdLock checks that a function may run, and blocks until it has held the lock.
func (x *rwTest) holdLock(
	ctx context.Context, write bool, token member.Token, holds time.Duration,
) {
	ctx, end := context.WithTimeout(ctx, holds)
	defer end()
	x.mu.Lock()
	live := x.readers[:0]
	for _, c := range x.readers {
		if c.Err() == nil {
			live = append(live, c)
		}
	}
	x.readers = live
	switch {
	case x.writer != nil && x.writer.Err() == nil:
		x.t.Error("a writer holds the lock")
	case write && len(live) > 0:
		x.t.Errorf("%d readers hold the lock beside a writer", len(live))
	case write && !x.last.Less(token), !x.written.Less(token):
		x.t.Errorf("token %v after %v, the last of a writer is %v", token, x.last, x.written)
	}
	if write {
		x.writer, x.written = ctx, token
	} else {
		x.readers = append(live, ctx)
	}
	x.most = max(x.most, len(x.readers))
	if x.last.Less(token) {
		x.last = token
	}
	x.mu.Unlock()
	<-ctx.Done()
}

// TestRWLock draws readers and writers on several hosts. Some hosts crash. No writer runs beside
// another caller, readers run together, and all are served.
func TestRWLock(t *testing.T) {
	most := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { most = max(most, drawReaders(t, seed)) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if most < 3 {
		t.Errorf("at most %d readers run at a time", most)
	}
}

func drawReaders(t *testing.T, seed uint64) (most int) {
	r := rand.New(rand.NewPCG(seed, 7))
	x, table := &rwTest{t: t}, newFaulty(t, seed)
	ctx, stop := context.WithTimeout(t.Context(), drawnLimit)
	defer stop()
	var handles [3]*RWLock
	for i := range handles {
		var err error
		if handles[i], err = NewRWLock(table.openStore(fmt.Sprint("host-", i)), "a"); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 40 {
		i, write := r.IntN(3), r.IntN(4) == 0
		holds := time.Duration(r.IntN(300)) * time.Millisecond
		do := handles[i].DoRead
		if write {
			do = handles[i].DoWrite
		}
		all.Go(func() {
			err := do(ctx, func(ctx context.Context, term leader.Term) error {
				x.holdLock(ctx, write, term.Token(), holds)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		if r.IntN(20) == 0 {
			host := fmt.Sprint("host-", r.IntN(3))
			table.Cut(host)
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
			table.Heal(host)
		}
	}
	all.Wait()
	for _, h := range handles {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	table.checkEmpty()
	return x.most
}
