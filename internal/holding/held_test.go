// SPDX-License-Identifier: Apache-2.0

package holding_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const key = "latch/j/latch/l"

// leavingStore grants no lease, like the store of a node that is leaving.
type leavingStore struct{ record.Store }

func (s leavingStore) Session(lost record.LostFunc) record.Session {
	return leavingSession{s.Store.Session(lost)}
}

type leavingSession struct{ record.Session }

func (leavingSession) Hold(context.Context, string, member.Token) (*leader.Lease, error) {
	return nil, record.ErrNotActive
}

// TestNoLeaseIsGranted checks that AcquireHeld returns the error of the lease, and that no record
// remains.
func TestNoLeaseIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := record.NewMemory().Store("a")
		_, err := holding.AcquireHeld(t.Context(), leavingStore{s}, key)
		if !errors.Is(err, record.ErrNotActive) {
			t.Errorf("got %v, want ErrNotActive", err)
		}
		synctest.Wait()
		if _, err := record.Get(t.Context(), s, key); !errors.Is(err, record.ErrAbsent) {
			t.Errorf("Get: got %v, want ErrAbsent", err)
		}
	})
}

// TestHeldExcludes lets one session wait for a lock of another session, and a third session give
// up.
func TestHeldExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		first, err := holding.TryHeld(t.Context(), table.Store("a"), key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = holding.TryHeld(t.Context(), table.Store("b"), key)
		if !errors.Is(err, holding.ErrLocked) {
			t.Errorf("TryHeld: got %v, want ErrLocked", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := holding.AcquireHeld(ctx, table.Store("b"), key); !errors.Is(err, ctx.Err()) {
			t.Errorf("AcquireHeld: got %v, want the end of the context", err)
		}
		acquired := make(chan *holding.Held, 1)
		go func() {
			next, err := holding.AcquireHeld(t.Context(), table.Store("a"), key)
			if err != nil {
				t.Errorf("AcquireHeld: %v", err)
			}
			acquired <- next
		}()
		var used, late bool
		go func() {
			_ = first.Term().Do(t.Context(), func(ctx context.Context) error {
				used = true
				<-ctx.Done()
				time.Sleep(time.Minute) // the lock must stay held meanwhile
				late = len(acquired) > 0
				return nil
			})
		}()
		synctest.Wait()
		if err := first.Release(t.Context()); err != nil || !used || late {
			t.Errorf("Release: %v; used: %v, released too early: %v", err, used, late)
		}
		next := <-acquired
		if !first.Term().Token().Less(next.Term().Token()) || first.Term().Valid() {
			t.Errorf("token %v follows %v", next.Term().Token(), first.Term().Token())
		}
		table.Expire("a")
		if err := next.Release(t.Context()); !errors.Is(err, leader.ErrLeaseEnded) {
			t.Errorf("Release of a lost lock: got %v, want the reason", err)
		}
	})
}
