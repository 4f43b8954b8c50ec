// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// distantStore is the store of a member whose commits take some time.
type distantStore struct {
	record.Store
	delay time.Duration
}

type distantSession struct {
	record.Session
	delay time.Duration
}

func (s distantStore) Session(lost record.LostFunc) record.Session {
	return distantSession{s.Store.Session(lost), s.delay}
}

func (s distantSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	time.Sleep(s.delay)
	token, err := s.Session.Commit(ctx, ops...)
	time.Sleep(s.delay)
	return token, err
}

// TestLockIsFair checks that a distant member gets a lock as often as without the others, which
// want it all the time.
func TestLockIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		table, all := record.NewMemory(), sync.WaitGroup{}
		var held [3]int
		for i := range held {
			delay := time.Millisecond
			if i == 2 {
				delay = 20 * time.Millisecond
			}
			l, err := New(distantStore{table.Store(fmt.Sprint(i)), delay}, "a")
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for ctx.Err() == nil {
					_ = l.Do(ctx, func(context.Context, leader.Term) error {
						held[i]++
						time.Sleep(5 * time.Millisecond)
						return nil
					})
				}
			})
		}
		all.Wait()
		// Its three commits take 40 ms each.
		if most := int(time.Minute / (125 * time.Millisecond)); held[2] < most*9/10 {
			t.Errorf("the members got the lock %v times, the distant one could %d times", held, most)
		}
		time.Sleep(time.Minute) // the records are dropped in the background
	})
}
