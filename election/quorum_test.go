// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"testing"
	"time"

	"github.com/athena-go/athena/leader"
)

// If no other member can lead, failed work runs again in the same term after a pause.
func TestQuorumRetriesIfNoOtherCanLead(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		failing := workWith(t, w.open(0, "group", byQuorum()), fails)
		last := failing.next(t)
		for _, want := range []time.Duration{100, 120, 144} {
			next := failing.next(t)
			if took := next.at.Sub(last.at); took != want*time.Millisecond || next.term != last.term {
				t.Errorf("runs again after %v, want %v, in the same term", took, want*time.Millisecond)
			}
			last = next
		}
	})
}

// When the work of one group fails, the leader of the cluster hands over. The work of the program
// and of another group ends too, and all groups have the same new leader.
func TestQuorumBesideOthers(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.openAll("a", byQuorum()), w.openAll("b", byQuorum())
		i := leaderOf(t, a)
		own := make(chan context.Context, 1)
		go func() {
			_ = w.nodes[i].WhileLeader(t.Context(), func(ctx context.Context, _ leader.Term) error {
				own <- ctx
				<-ctx.Done()
				return nil
			})
		}()
		program, other := <-own, work(t, b[i]).next(t)
		workWith(t, a[i], fails).next(t)
		<-program.Done()
		<-other.ctx.Done()
		if j := leaderOf(t, a); j == i || leaderOf(t, b) != j {
			t.Errorf("nodes %d and %d lead, want the same, not %d", j, leaderOf(t, b), i)
		}
	})
}

// Close hands over the leadership of the cluster if another member can lead. If no active member
// can lead, Close waits five seconds. Without a lease it does not wait.
func TestQuorumClose(t *testing.T) {
	for _, c := range []struct {
		name        string
		before      func(t *testing.T, w *world, i int)
		least, most time.Duration
	}{
		{"another leads", func(*testing.T, *world, int) {}, 0, time.Second},
		{"cut off a moment ago", func(_ *testing.T, w *world, i int) {
			w.cutBetween([]int{i}, without(3, i), true)
		}, 5 * time.Second, 5 * time.Second},
		{"alone for long", func(t *testing.T, w *world, i int) {
			w.cutBetween([]int{i}, without(3, i), true)
			pause(t, time.Minute)
		}, 0, 0},
	} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			all := w.openAll("group", byQuorum())
			i := leaderOf(t, all)
			c.before(t, w, i)
			began := time.Now()
			if err := all[i].Close(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("%s: Close took %v, want %v to %v", c.name, took, c.least, c.most)
			}
		})
	}
}
