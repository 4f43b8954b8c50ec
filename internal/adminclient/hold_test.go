// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// trustedHere is the TrustedMS of the events in these tests.
const trustedHere = 900 * time.Millisecond

// TestLockAfterAPause checks the lock of a process that was paused. A queued EventAlive must not
// confirm the expired lock, whether the expiry or the event is handled first.
func TestLockAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{nodes: []*endpoint{{}}}
		s := holdSession{client: c, once: true, expiry: time.NewTimer(maxTrusted)}
		s.returned = make(chan error, 1)
		ended := make(chan error, 1)
		s.fn = func(ctx context.Context, _ adminapi.RecordToken) error {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}
		grant := adminapi.Grant{TrustedMS: adminapi.Milliseconds(trustedHere)}
		s.handleEvent(t.Context(), holdEvent{at: time.Now(), kind: adminapi.EventHeld, grant: grant})
		time.Sleep(trustedHere - 1)
		s.handleEvent(t.Context(), holdEvent{at: time.Now(), kind: adminapi.EventAlive, grant: grant})
		time.Sleep(trustedHere + 1) // the expiry has passed but is not handled yet
		s.handleEvent(t.Context(), holdEvent{at: time.Now(), kind: adminapi.EventAlive, grant: grant})
		if err := <-ended; !errors.Is(err, ErrUntrusted) || !errors.Is(s.final, ErrUntrusted) {
			t.Errorf("got %v and %v, want %v", err, s.final, ErrUntrusted)
		}
	})
}

// TestLateGrant checks that fn does not run if the grant has expired in transit.
func TestLateGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{nodes: []*endpoint{{}}}
		s := holdSession{client: c, once: true, expiry: time.NewTimer(maxTrusted)}
		s.returned = make(chan error, 1)
		s.fn = func(context.Context, adminapi.RecordToken) error {
			t.Error("fn was called")
			return nil
		}
		late := holdEvent{at: time.Now(), kind: adminapi.EventHeld,
			grant: adminapi.Grant{TrustedMS: adminapi.Milliseconds(trustedHere)}}
		time.Sleep(trustedHere)
		s.handleEvent(t.Context(), late)
		synctest.Wait()
		select {
		case <-s.expiry.C:
		default:
			t.Error("the grant does not expire")
		}
	})
}
