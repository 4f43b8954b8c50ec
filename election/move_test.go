// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// TestMoveWithTwoLeaders lets one member lead the job in the old store, and another one in the new
// store. The leader in the new store must work, and after it the other.
func TestMoveWithTwoLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := record.NewMemory(), record.NewMemory()
		var working []string
		work := func(host string) func(context.Context, leader.Term) error {
			return func(ctx context.Context, _ leader.Term) error {
				working = append(working, host)
				<-ctx.Done()
				working = slices.DeleteFunc(working, func(h string) bool { return h == host })
				return context.Cause(ctx)
			}
		}
		wantWork := func(host string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !slices.Equal(working, []string{host}) {
				t.Errorf("%q work, want %s alone", working, host)
			}
		}
		ended := make(chan error, 3)
		moving := func(host string) (stop context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			go func() { ended <- move(ctx, from.Store(host), to.Store(host), "job", work(host)) }()
			synctest.Wait()
			return stop
		}
		stopFirst := moving("host-1")
		wantWork("host-1")
		stopSecond := moving("host-2")
		moved, err := election.OpenJob(t.Context(), to.Store("host-3"), "job", election.JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stopThird := context.WithCancel(t.Context())
		go func() { ended <- moved.WhileLeader(ctx, work("host-3")) }()
		wantWork("host-1")
		stopFirst()
		<-ended
		wantWork("host-3") // host-2 leads in the old store
		if err := moved.Resign(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		wantWork("host-2")
		stopSecond()
		<-ended
		wantWork("host-3")
		stopThird()
		<-ended
		if err := moved.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
