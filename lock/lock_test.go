// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// slowStore is a store that drops records after a delay.
type slowStore struct {
	record.Store
	delay time.Duration
}

type slowSession struct {
	record.Session
	delay time.Duration
}

func (s slowStore) Session(lost record.LostFunc) record.Session {
	return slowSession{s.Store.Session(lost), s.delay}
}

func (s slowSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	if slices.ContainsFunc(ops, func(o record.Op) bool { return o.Kind == record.Drop }) {
		time.Sleep(s.delay)
	}
	return s.Session.Commit(ctx, ops...)
}

// TestPauseAfterRelease checks how long the next call of Do waits after a release, which gives the
// lock to others: twice as long as the release took, and at most LookInterval.
func TestPauseAfterRelease(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 200 * time.Millisecond,
		900 * time.Millisecond: jobrecord.LookInterval,
	} {
		synctest.Test(t, func(t *testing.T) {
			l, err := New(slowStore{record.NewMemory().Store("a"), took}, "a")
			if err != nil {
				t.Fatal(err)
			}
			var calls []time.Time
			for range 2 {
				err := l.Do(t.Context(), func(context.Context, leader.Term) error {
					calls = append(calls, time.Now())
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := calls[1].Sub(calls[0]) - took; got != want {
				t.Errorf("a release took %v: the next call paused for %v, want %v", took, got, want)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
