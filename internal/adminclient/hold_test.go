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

// trustedHere is how long the node of these tests relies on what it holds.
const trustedHere = 900 * time.Millisecond

// TestLockAfterAPause: a sign of life that a process finds when it goes on revives
// nothing that has lapsed, whichever of the two it looks at first.
func TestLockAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pursuit{client: &Client{}, once: true, expiry: time.NewTimer(maxTrusted)}
		p.returned = make(chan error, 1)
		ended := make(chan error, 1)
		p.fn = func(ctx context.Context, _ adminapi.RecordToken) error {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}
		grant := adminapi.Grant{TrustedMS: adminapi.Milliseconds(trustedHere)}
		p.handleNews(t.Context(), news{at: time.Now(), kind: adminapi.EventHeld, grant: grant})
		time.Sleep(trustedHere - 1)
		p.handleNews(t.Context(), news{at: time.Now(), kind: adminapi.EventAlive, grant: grant})
		time.Sleep(trustedHere + 1) // the expiry has passed, and nobody has seen that
		p.handleNews(t.Context(), news{at: time.Now(), kind: adminapi.EventAlive, grant: grant})
		if err := <-ended; !errors.Is(err, ErrUntrusted) || !errors.Is(p.over, ErrUntrusted) {
			t.Errorf("got %v and %v, want %v", err, p.over, ErrUntrusted)
		}
	})
}

// TestGrantThatComesLate runs nothing: what it grants has lapsed.
func TestGrantThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pursuit{client: &Client{}, once: true, expiry: time.NewTimer(maxTrusted)}
		p.returned = make(chan error, 1)
		p.fn = func(context.Context, adminapi.RecordToken) error {
			t.Error("it runs")
			return nil
		}
		late := news{at: time.Now(), kind: adminapi.EventHeld,
			grant: adminapi.Grant{TrustedMS: adminapi.Milliseconds(trustedHere)}}
		time.Sleep(trustedHere)
		p.handleNews(t.Context(), late)
		synctest.Wait()
		select {
		case <-p.expiry.C:
		default:
			t.Error("it does not lapse")
		}
	})
}
