// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// TestAnswersToAMemberThatFlaps checks that a member which is unreachable for a moment, but keeps
// its connection, gets the answers that wait for room. It may not have noticed anything.
func TestAnswersToAMemberThatFlaps(t *testing.T) {
	withReceivers(t, 3, func(_ *testing.T, _ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(context.Context, member.Member, sum) (note, error) {
			time.Sleep(50 * time.Millisecond) // the member is cut off meanwhile
			return note{Text: string(make([]byte, 200_000))}, nil
		})
	}, func(t *testing.T, w *world) {
		const calls = 20
		n := w.leader()
		other := w.others(n)[0]
		var returned sync.WaitGroup
		for range calls {
			returned.Go(func() { _, _ = Request[note](w.within(time.Hour), other, n.cfg.self, sum{}) })
		}
		time.Sleep(20 * time.Millisecond)
		w.cut(other)
		began := time.Now()
		for n.activeMembers() == 3 {
			time.Sleep(10 * time.Millisecond)
		}
		w.heal(other)
		returned.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("calls returned after %v, want their answers", took)
		}
	})
}

// activeMembers returns the number of active members in the view of a node.
func (n *Node) activeMembers() (active int) {
	for _, m := range n.Members() {
		if m.Status == member.Active {
			active++
		}
	}
	return active
}

// TestProgressOfOthersHidesNoCircle checks that handlers without their contexts, which wait for
// each other in a circle, get ErrBusy although requests of other handlers are handled meanwhile.
func TestProgressOfOthersHidesNoCircle(t *testing.T) {
	withReceivers(t, 2, func(_ *testing.T, _ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(ctx context.Context, from member.Member, a ask) (total, error) {
			if a.Left == 0 {
				return total{}, nil
			}
			time.Sleep(10 * time.Millisecond)
			_, err := Request[total](context.Background(), FromContext(ctx), from.Address, ask{a.Left - 1})
			return total{}, err
		})
		receiver.Handle(mux, func(ctx context.Context, from member.Member, _ note) error {
			_, err := Request[total](ctx, FromContext(ctx), from.Address, ask{})
			return err
		})
	}, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for ctx.Err() == nil {
				_ = w.nodes[0].Send(ctx, address(1), note{})
				_ = w.nodes[1].Send(ctx, address(0), note{})
				time.Sleep(time.Second)
			}
		}()
		began := time.Now()
		var calls sync.WaitGroup
		for i, n := range w.nodes {
			for range 100 {
				calls.Go(func() { _, _ = Request[total](w.within(time.Hour), n, address(1-i), ask{1}) })
			}
		}
		calls.Wait()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v, want ErrBusy after about 5 s", took)
		}
		stop()
		time.Sleep(2 * time.Second)
	})
}

// TestEventsOfARequestTypeDelayNoRequest checks that events of a type that has a handler of
// requests do not make requests wait: these are refused as if there were no such events.
func TestEventsOfARequestTypeDelayNoRequest(t *testing.T) {
	withGate(t, 2, func(_ int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.HandleRequest(mux, func(context.Context, member.Member, sum) (total, error) {
			<-gate
			return total{}, nil
		})
	}, func(t *testing.T, w *world) {
		n := w.nodes[0]
		for range receiver.QueueLength + 12 {
			if err := n.Send(t.Context(), address(1), sum{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := Request[total](w.within(time.Hour), n, address(1), sum{}); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if err := n.Broadcast(t.Context(), note{}, Idempotent()); err == nil {
			t.Error("Broadcast accepts Idempotent")
		}
	})
}
