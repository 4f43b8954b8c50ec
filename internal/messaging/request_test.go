// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

type note struct{ Text string }

type sum struct {
	A, B int
	Text string
}

type total struct{ Sum int }

// bulk requests an answer of the given number of bytes.
type bulk struct{ Bytes int }

func addHandlers(_ int, mux *receiver.Mux) {
	receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, s sum) (total, error) {
		switch s.Text {
		case "fail":
			return total{}, errBoom
		case "panic":
			panic("boom")
		case "wait":
			<-ctx.Done()
			return total{}, context.Cause(ctx)
		}
		return total{s.A + s.B}, nil
	})
	receiver.HandleRequest(mux, func(_ context.Context, _ member.Member, b bulk) ([]byte, error) {
		return make([]byte, b.Bytes), nil
	})
	receiver.Handle(mux, func(context.Context, member.Member, note) error { return nil })
}

// TestRequestsLeaveNothingPending checks that no call stays pending, regardless of how a request
// ends.
func TestRequestsLeaveNothingPending(t *testing.T) {
	inWorld(t, addHandlers, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		for _, to := range []member.Address{address(0), address(1), address(9)} {
			for _, req := range []any{
				sum{A: 1, B: 2}, sum{Text: "panic"}, sum{Text: "fail"}, sum{Text: "wait"}, note{},
				struct{}{}, receiver.Raw{Name: "sum", Payload: []byte{0x01}}, receiver.Raw{Name: "other"},
				bulk{2 * MaxEventBytes}, sum{Text: strings.Repeat("x", MaxEventBytes)},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				var got total
				err := n.Request(ctx, to, req, &got, Options{})
				cancel()
				if ok := req == any(sum{A: 1, B: 2}) && to != address(9); (err == nil) != ok {
					t.Errorf("%T %.20v to %v: got %v, %v", req, req, to, got, err)
				}
				synctest.Wait()
				if left := len(n.pending.calls) + len(n.pending.room); left != 0 {
					t.Fatalf("%T %.20v to %v: %d calls are pending, want none", req, req, to, left)
				}
			}
		}
	})
}

// TestLostRequestIsCanceled checks that a handler is canceled if the request was sent on a new
// connection before the loss of the earlier one was reported.
func TestLostRequestIsCanceled(t *testing.T) {
	handler := make(chan error, 1)
	inWorld(t, func(_ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, _ sum) (total, error) {
			<-ctx.Done()
			handler <- context.Cause(ctx)
			return total{}, nil
		})
	}, func(t *testing.T, nodes []*node) {
		asked := make(chan error, 1)
		go func() { asked <- nodes[0].Request(t.Context(), address(1), sum{}, &total{}, Options{}) }()
		synctest.Wait()
		nodes[0].Lost(nodes[0].Members()[1].Identity)
		if err := <-asked; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("Request: got %v, want ErrUnknownOutcome", err)
		}
		synctest.Wait()
		if len(handler) == 0 {
			t.Error("the handler still runs")
		}
	})
}

// TestSlowMemberGetsCancels checks that a handler is canceled although its member is slow to handle
// events.
func TestSlowMemberGetsCancels(t *testing.T) {
	handler := make(chan error, 1)
	inWorld(t, func(_ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, _ sum) (total, error) {
			<-ctx.Done()
			handler <- context.Cause(ctx)
			return total{}, nil
		})
		receiver.Handle(mux, func(context.Context, member.Member, note) error {
			time.Sleep(2 * time.Second) // longer than the test sends
			return nil
		})
	}, func(t *testing.T, nodes []*node) {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() { asked <- nodes[0].Request(ctx, address(1), sum{}, &total{}, Options{}) }()
		synctest.Wait()
		sending, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		failed := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				err = nodes[0].Send(sending, address(1), note{strings.Repeat("x", 100_000)}, Options{})
			}
			failed <- err
		}()
		time.Sleep(time.Second)
		cancel()
		if err := <-asked; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("Request: got %v, want ErrUnknownOutcome", err)
		}
		if err := <-failed; !errors.Is(err, ErrNotDelivered) {
			t.Errorf("Send to a slow member: got %v, want ErrNotDelivered", err)
		}
		time.Sleep(time.Minute) // until the notes are handled
		if len(handler) == 0 {
			t.Error("the handler still runs")
		}
	})
}

// TestCancelsPassFullQueues cancels more requests than a member handles and queues. Their handlers
// wait for the cancels, so that no event behind them is read.
func TestCancelsPassFullQueues(t *testing.T) {
	const requests = 2000
	var running atomic.Int64
	noted := make(chan bool, 1)
	inWorld(t, func(_ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, _ sum) (total, error) {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return total{}, nil
		})
		receiver.Handle(mux, func(context.Context, member.Member, note) error {
			noted <- true
			return nil
		})
	}, func(t *testing.T, nodes []*node) {
		ctx, cancel := context.WithCancel(t.Context())
		var asked sync.WaitGroup
		for range requests {
			asked.Go(func() { _ = nodes[0].Request(ctx, address(1), sum{}, &total{}, Options{}) })
		}
		time.Sleep(time.Second)
		if got := running.Load(); got != 64 {
			t.Errorf("%d handlers run, want 64", got)
		}
		cancel()
		asked.Wait()
		if err := nodes[0].Send(t.Context(), address(1), note{}, Options{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := running.Load(); got != 0 || len(noted) != 1 {
			t.Errorf("%d handlers still run, %d of 1 later events were handled", got, len(noted))
		}
	})
}

// TestLeaderAloneTakesLeaderRequests checks that other members refuse a request to the leader
// because they do not lead.
func TestLeaderAloneTakesLeaderRequests(t *testing.T) {
	inWorld(t, addHandlers, func(t *testing.T, nodes []*node) {
		for i, n := range nodes {
			var got total
			err := n.RequestLeader(t.Context(), sum{A: 1, B: 2}, &got, Options{})
			if err != nil || got.Sum != 3 {
				t.Errorf("node %d asks the leader: got %v, %v, want 3", i, got, err)
			}
			led := &Leadership{Leader: address(1), Done: n.led}
			err = n.request(t.Context(), address(1), sum{}, &got, led, Options{})
			refused, ok := errors.AsType[*leader.NotLeaderError](err)
			if !ok || refused.Leader != address(0) || i != 1 && refused.Asked != address(1) {
				t.Errorf("node %d asks node 1 as the leader: got %v, want *NotLeaderError", i, err)
			}
		}
	})
}

// TestSendsAreBounded checks that events and requests beyond MaxSending fail with ErrBusy.
func TestSendsAreBounded(t *testing.T) {
	inWorld(t, addHandlers, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		n.sending.Add(MaxSending)
		if err := n.Send(t.Context(), address(1), note{}, Options{}); !errors.Is(err, ErrBusy) {
			t.Errorf("Send with %d in flight: got %v, want ErrBusy", MaxSending, err)
		}
		err := n.Request(t.Context(), address(1), sum{}, &total{}, Options{})
		if !errors.Is(err, ErrBusy) {
			t.Errorf("Request with %d in flight: got %v, want ErrBusy", MaxSending, err)
		}
		n.sending.Add(-MaxSending)
		if err := n.Send(t.Context(), address(1), note{}, Options{}); err != nil {
			t.Errorf("Send afterwards: got %v, want nil", err)
		}
	})
}

// TestSendsFollowTheView checks that a member is looked up again in each view.
func TestSendsFollowTheView(t *testing.T) {
	inWorld(t, addHandlers, func(t *testing.T, nodes []*node) {
		n, all := nodes[0], nodes[0].Members()
		left := slices.Clone(all)
		left[1].Status = member.Leaving
		for i, view := range []struct {
			members member.Roster
			want    error
		}{
			{all, nil}, {all.Without(address(1)), ErrNotActive}, {left, ErrNotActive},
			{nil, ErrNotActive}, {all, nil},
		} {
			n.setMembers(view.members)
			if err := n.Send(t.Context(), address(1), note{}, Options{}); !errors.Is(err, view.want) {
				t.Errorf("view %d: got %v, want %v", i, err, view.want)
			}
		}
	})
}

// TestContactsAreKept checks that contacts stay the same if a new view has an equal roster. Each
// change of a record produces such a view.
func TestContactsAreKept(t *testing.T) {
	inWorld(t, addHandlers, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		before := n.contactOf(address(1))
		n.setMembers(slices.Clone(n.Members()))
		if got := n.contactOf(address(1)); got != before {
			t.Error("an equal roster replaced the contact")
		}
		next := slices.Clone(n.Members())
		next[1].Incarnation++
		n.setMembers(next)
		if got := n.contactOf(address(1)); got == before || got.Incarnation != before.Incarnation+1 {
			t.Errorf("a later run has the contact of run %d", got.Incarnation)
		}
	})
}

// TestPendingCallsAreBounded checks that a call beyond MaxPending waits for room.
func TestPendingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPendingCalls()
		first := p.lastID
		for range MaxPending {
			if _, err := p.add(t.Context(), nil, pendingCall{to: address(1)}); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
		defer cancel()
		if _, err := p.add(short, nil, pendingCall{}); !errors.Is(err, errBoom) {
			t.Errorf("one too many: got %v, want the cause of its context", err)
		}
		quit := make(chan struct{})
		close(quit)
		if _, err := p.add(t.Context(), quit, pendingCall{}); !errors.Is(err, ErrClosed) {
			t.Errorf("one too many at the end: got %v, want ErrClosed", err)
		}
		added := make(chan uint64)
		go func() {
			id, _ := p.add(t.Context(), nil, pendingCall{})
			added <- id
		}()
		synctest.Wait()
		if !p.remove(first+7) || p.remove(first+7) {
			t.Error("remove: want true, then false")
		}
		if got := <-added; got != first+MaxPending+1 {
			t.Errorf("added %d, want %d", got, first+MaxPending+1)
		}
	})
}

// TestForgedAnswersAreDropped checks that a member cannot answer in place of another member.
func TestForgedAnswersAreDropped(t *testing.T) {
	inWorld(t, addHandlers, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			answered <- n.Request(ctx, address(1), sum{Text: "wait"}, &total{}, Options{})
		}()
		synctest.Wait()
		for id := range n.pending.calls {
			nodes[2].sendAnswer(address(0), wire.Answer{ID: id, Payload: []byte{0x80}}, false)
		}
		synctest.Wait()
		if got := n.drops(DropNotAwaited); got != 1 {
			t.Errorf("%d answers were dropped, want the forged one", got)
		}
		cancel()
		if err := <-answered; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
