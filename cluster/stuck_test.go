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

// withGate is like withReceivers, but with a channel that handlers wait on. The channel is closed
// at the end of the test.
func withGate(
	t *testing.T, size int,
	register func(i int, mux *receiver.Mux, gate <-chan struct{}),
	test func(*testing.T, *world),
) {
	t.Helper()
	gate := sync.OnceValue(func() chan struct{} { return make(chan struct{}) }) // in the bubble
	withReceivers(t, size, func(_ *testing.T, i int, mux *receiver.Mux) {
		register(i, mux, gate())
	}, func(t *testing.T, w *world) {
		defer close(gate())
		test(t, w)
	})
}

// fill sends events of the given size to a member until it accepts no more.
func fill(t *testing.T, w *world, from *Node, to member.Address, size int) {
	t.Helper()
	for {
		short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := from.Send(short, to, note{Text: string(make([]byte, size))})
		stop()
		if errors.Is(err, ErrNotDelivered) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStuckMemberDelaysNoCancels checks that a member that reads nothing does not delay
// cancels of calls to other members.
func TestStuckMemberDelaysNoCancels(t *testing.T) {
	ended := make(chan time.Time, 1)
	withGate(t, 3, func(i int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.Handle(mux, func(context.Context, member.Member, note) error {
			if i == 1 {
				<-gate
			}
			return nil
		})
		receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, _ sum) (total, error) {
			switch i {
			case 1:
				<-gate
			case 2:
				<-ctx.Done()
				ended <- time.Now()
			}
			return total{}, nil
		})
	}, func(t *testing.T, w *world) {
		n := w.nodes[0]
		for range receiver.QueueLength + 4 {
			if err := n.Send(t.Context(), address(1), note{}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		const calls = 20
		outcomes := make(chan error, calls+1)
		for range calls {
			go func() { _, err := Request[total](ctx, n, address(1), sum{}); outcomes <- err }()
		}
		synctest.Wait()
		fill(t, w, n, address(1), 60_000)
		fill(t, w, n, address(1), 0)
		cancel()
		for range calls {
			if err := <-outcomes; !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("to who takes nothing: got %v, want ErrUnknownOutcome", err)
			}
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() { _, err := Request[total](ctx, n, address(2), sum{}); outcomes <- err }()
		time.Sleep(10 * time.Millisecond)
		cancel()
		began := time.Now()
		if took := (<-ended).Sub(began); took > 10*time.Millisecond {
			t.Errorf("another member learned of a cancel after %v", took)
		}
	})
}

// TestOwnNodeThatTakesNothing checks that a node with full queues gets the same errors from calls
// to itself as other nodes do.
func TestOwnNodeThatTakesNothing(t *testing.T) {
	withGate(t, 1, func(_ int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.Handle(mux, func(context.Context, member.Member, note) error { <-gate; return nil },
			receiver.Queue(1, receiver.Block))
		receiver.HandleRequest(mux, func(context.Context, member.Member, sum) (total, error) {
			<-gate
			return total{}, nil
		}, receiver.Queue(1, receiver.Block), receiver.Concurrency(1))
	}, func(t *testing.T, w *world) {
		n := w.nodes[0]
		var send, ask error
		for range 10 { // one event runs, one waits to run, one is queued
			send = n.Send(w.within(time.Second), address(0), note{})
			_, ask = Request[total](w.within(time.Second), n, address(0), sum{})
		}
		if !errors.Is(send, ErrNotDelivered) || !errors.Is(send, context.DeadlineExceeded) {
			t.Errorf("Send: got %v, want ErrNotDelivered and DeadlineExceeded", send)
		}
		if !errors.Is(ask, ErrBusy) { // the handler has been running for more than 5 s
			t.Errorf("Request: got %v, want ErrBusy", ask)
		}
		if err := n.Send(t.Context(), address(0), flags{true}); !errors.Is(err, ErrUnknownType) {
			t.Errorf("without a handler: got %v, want ErrUnknownType", err)
		}
	})
}

// TestRequestLeaderLeavesItsOwnNode checks that RequestLeader asks the next leader if this node
// loses its authority while its own queue is full.
func TestRequestLeaderLeavesItsOwnNode(t *testing.T) {
	var stuck member.Address
	withGate(t, 3, func(i int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.HandleRequest(mux, func(_ context.Context, _ member.Member, s sum) (total, error) {
			if address(i) == stuck {
				<-gate
			}
			return total{s.A + s.B}, nil
		}, receiver.Queue(1, receiver.Block), receiver.Concurrency(1))
	}, func(t *testing.T, w *world) {
		old := w.leader()
		stuck = old.cfg.self
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 { // one event runs, one waits to run, one is queued
			go func() { _, _ = Request[total](ctx, old, stuck, sum{}) }()
			synctest.Wait()
		}
		done := make(chan error, 1)
		var got total
		go func() {
			var err error
			// Idempotent, because a connection that is made when the links heal may be given up again.
			got, err = RequestLeader[total](w.within(time.Minute), old, sum{A: 1, B: 2}, Idempotent())
			done <- err
		}()
		synctest.Wait()
		w.cut(old)
		time.Sleep(5 * time.Second) // the others elect a leader
		w.heal(old)
		if err := <-done; err != nil || got.Sum != 3 {
			t.Errorf("got %+v, %v, want the answer of the next leader", got, err)
		}
	})
}
