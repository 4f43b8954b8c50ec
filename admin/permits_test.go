// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// TestPermits checks that callers get permits in the order of their requests, through any node, and
// that a caller that disconnects leaves the queue.
func TestPermits(t *testing.T) {
	for permits := 1; permits <= 2; permits++ {
		inCluster(t, func(t *testing.T, a *testCluster) {
			var all []*attempt
			var stops []context.CancelFunc
			for i := range 6 {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				at := a.requestPermit(ctx, a.client(i%3, newNetwork()), "billing", "x", permits)
				time.Sleep(time.Second)
				all, stops = append(all, at), append(stops, stop)
			}
			var first adminapi.RecordToken
			for i, at := range all {
				h := <-at.seen
				switch {
				case i < permits && h != nil:
					t.Errorf("caller %d of %d permits: held by %+v, want nil", i, permits, h)
				case i >= permits && (h == nil || h.Name != "n0" || h.Token != first):
					t.Errorf("caller %d of %d permits: held by %+v, want n0, %v", i, permits, h, first)
				case i == 0:
					first = at.works()
				}
			}
			stops[3]()
			<-all[3].over
			for i, at := range all {
				if i == 3 {
					continue
				}
				if i > 0 {
					at.works()
				}
				for _, later := range all[min(i+permits+1, len(all)):] {
					later.waits()
				}
				at.leave <- nil
				if err := <-at.over; err != nil {
					t.Errorf("caller %d of %d permits: %v", i, permits, err)
				}
			}
			time.Sleep(time.Second)
			if records := a.nodes[0].recordsUnder(""); len(records) != 0 {
				t.Errorf("remaining: %+v", records)
			}
		})
	}
}

// TestFairLockIsTheLock checks that a lock with one permit excludes callers without a queue.
func TestFairLockIsTheLock(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		plain := a.lock(t.Context(), a.client(0, newNetwork()), "billing", "x")
		plain.works()
		fair := a.requestPermit(t.Context(), a.client(1, newNetwork()), "billing", "x", 1)
		time.Sleep(time.Minute)
		fair.waits()
		plain.leave <- nil
		<-plain.over
		fair.works()
		fair.leave <- nil
		<-fair.over
	})
}

// TestPermitsRefused checks that invalid numbers of permits are refused before the stream begins.
func TestPermitsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		for _, permits := range []int{-1, member.MaxRecords} {
			r := adminapi.LockRequest{Latch: "x", Permits: permits}
			err := a.client(0, newNetwork()).Lock(t.Context(), "a", r,
				func(adminapi.Waiting) {}, nil)
			told, _ := errors.AsType[*adminclient.Error](err)
			if told == nil || told.Code != adminapi.CodeBadRequest {
				t.Errorf("%d permits: got %v, want %s", permits, err, adminapi.CodeBadRequest)
			}
		}
	})
}

// hungStore is a Store whose commits block while it hangs.
type hungStore struct {
	record.Store
	hangs *atomic.Bool
}

func (s hungStore) Session(lost record.LostFunc) record.Session {
	return hungSession{s.Store.Session(lost), s.hangs}
}

type hungSession struct {
	record.Session
	hangs *atomic.Bool
}

func (s hungSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	for s.hangs.Load() {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return member.Token{}, errors.Join(record.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
	return s.Session.Commit(ctx, ops...)
}

// TestDisconnectedCallersAreBounded checks that callers that disconnect while nothing can be
// committed count as callers until their records are released.
func TestDisconnectedCallersAreBounded(t *testing.T) {
	var hangs atomic.Bool
	hangs.Store(true)
	inClusterOver(t, func(s record.Store) record.Store { return hungStore{s, &hangs} },
		func(t *testing.T, a *testCluster) {
			ctx, stop := context.WithCancel(t.Context())
			var all []*attempt
			for i := range maxHolds {
				name := fmt.Sprint("x", i) // callers of one name wait in one place
				all = append(all, a.requestPermit(ctx, a.client(0, newNetwork()), "lock", name, 2))
			}
			stop()
			for _, at := range all {
				<-at.over
			}
			synctest.Wait()
			short, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			err := a.client(0, newNetwork()).Elect(short, "job", func(*adminapi.Holder) {}, nil)
			if told, ok := errors.AsType[*adminclient.Error](err); !ok || told.Code != adminapi.CodeBusy {
				t.Errorf("one too many: %v, want %s", err, adminapi.CodeBusy)
			}
			hangs.Store(false)
			time.Sleep(time.Minute)
			at := a.requestPermit(t.Context(), a.client(0, newNetwork()), "lock", "x", 2)
			at.works()
			at.leave <- nil
			<-at.over
			time.Sleep(time.Minute)
			if records := a.nodes[0].recordsUnder(""); len(records) != 0 {
				t.Errorf("remaining: %+v", records)
			}
		})
}
