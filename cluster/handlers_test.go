// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// hop is an event, and ask a request, whose handlers send Left further ones.
type (
	hop struct {
		Left int
		Pad  []byte
	}
	ask struct{ Left int }
)

// padding makes an event so large that a few hundred fill all queues.
var padding = make([]byte, 4000)

// chainLoad is a test of handlers that send to each other.
type chainLoad struct {
	handled, busy atomic.Int64
	handle        func(ctx context.Context, n *Node, from member.Address, left int) error
}

func (l *chainLoad) registerHandlers(mux *receiver.Mux) {
	count := func(err error) error {
		if err == nil {
			l.handled.Add(1)
		} else if errors.Is(err, ErrBusy) {
			l.busy.Add(1)
		}
		return err
	}
	receiver.Handle(mux, func(ctx context.Context, from member.Member, e hop) error {
		return count(l.handle(ctx, FromContext(ctx), from.Address, e.Left))
	})
	receiver.HandleRequest(mux,
		func(ctx context.Context, from member.Member, e ask) (total, error) {
			if e.Left == 0 {
				return total{}, nil
			}
			_, err := Request[total](ctx, FromContext(ctx), from.Address, ask{e.Left - 1})
			return total{}, count(err)
		})
}

// next returns the member after a node, in a ring.
func next(n *Node, members int) member.Address {
	for i := range members {
		if address(i) == n.cfg.self {
			return address((i + 1) % members)
		}
	}
	return n.cfg.self
}

// TestHandlersThatSendGoOn checks that handlers that send to each other, with their contexts, never
// wait for each other in a circle: under a load that fills all queues, everything is handled or
// refused with ErrBusy, and no call waits for a timeout.
func TestHandlersThatSendGoOn(t *testing.T) {
	const events = 2000
	type handler = func(ctx context.Context, n *Node, from member.Address, left int) error
	replyOf := func(size int) handler {
		padding := make([]byte, size)
		return func(ctx context.Context, n *Node, from member.Address, left int) error {
			if left == 0 {
				return nil
			}
			return n.Send(ctx, from, hop{left - 1, padding})
		}
	}
	for name, c := range map[string]struct {
		members, left int
		handle        handler
	}{
		"a reply":       {2, 5, replyOf(len(padding))},
		"a small reply": {2, 5, replyOf(0)},
		"a large reply": {2, 1, replyOf(5 * len(padding))},
		"a reply to all": {3, 2, func(ctx context.Context, n *Node, _ member.Address, left int) error {
			if left == 0 {
				return nil
			}
			return n.Broadcast(ctx, hop{left - 1, padding})
		}},
		"a question": {2, 0, func(ctx context.Context, n *Node, from member.Address, _ int) error {
			_, err := Request[total](ctx, n, from, ask{})
			return err
		}},
		"a ring": {3, 5, func(ctx context.Context, n *Node, _ member.Address, left int) error {
			if left == 0 {
				return nil
			}
			return n.Send(ctx, next(n, 3), hop{left - 1, padding})
		}},
		"itself": {1, 5, replyOf(len(padding))},
	} {
		t.Run(name, func(t *testing.T) {
			load := &chainLoad{handle: c.handle}
			withReceivers(t, c.members, func(_ *testing.T, _ int, mux *receiver.Mux) {
				load.registerHandlers(mux)
			}, func(t *testing.T, w *world) {
				began := time.Now()
				var senders sync.WaitGroup
				for _, n := range w.nodes {
					senders.Go(func() {
						for range events {
							if err := n.Send(t.Context(), next(n, c.members), hop{c.left, padding}); err != nil {
								t.Errorf("Send: %v", err)
								return
							}
						}
					})
				}
				senders.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("took %v, want no wait for a timeout", took)
				}
				done := load.handled.Load() + load.busy.Load()
				if want := int64(events * c.members); done < want {
					t.Errorf("%d events were handled and %d refused, want %d or more in total",
						load.handled.Load(), load.busy.Load(), want)
				}
				t.Logf("%d handled, %d refused", load.handled.Load(), load.busy.Load())
			})
		})
	}
}

// TestRequestsThatAskBack checks that requests whose handlers ask back do not wait for each other,
// also if there are more of them than handlers.
func TestRequestsThatAskBack(t *testing.T) {
	for _, depth := range []int{1, 2, 3, 6} {
		load := &chainLoad{}
		withReceivers(t, 2, func(_ *testing.T, _ int, mux *receiver.Mux) {
			load.registerHandlers(mux)
		}, func(t *testing.T, w *world) {
			const calls = 180
			began, failed := time.Now(), make(chan error, calls)
			for range calls {
				go func() {
					_, err := Request[total](t.Context(), w.nodes[0], address(1), ask{depth})
					failed <- err
				}()
			}
			failures := 0
			for range calls {
				if err := <-failed; err != nil {
					failures++
				}
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("depth %d: took %v, want no wait for a timeout", depth, took)
			}
			if depth < receiver.MaxDepth && failures > 0 {
				t.Errorf("depth %d: %d of %d failed, want none", depth, failures, calls)
			}
		})
	}
}

// TestRefusalsOfRequestsOfHandlersWaitForNoRoom checks that two members which refuse each other's
// requests of handlers do not wait for each other, although these requests fill the connection.
func TestRefusalsOfRequestsOfHandlersWaitForNoRoom(t *testing.T) {
	const calls = 200
	withReceivers(t, 2, func(_ *testing.T, _ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(ctx context.Context, from member.Member, _ ask) (total, error) {
			return Request[total](ctx, FromContext(ctx), from.Address, hop{Pad: padding})
		}, receiver.Concurrency(2*calls))
		receiver.HandleRequest(mux, func(context.Context, member.Member, hop) (total, error) {
			time.Sleep(time.Millisecond)
			return total{}, nil
		}, receiver.Concurrency(1), receiver.Queue(1, receiver.Reject))
	}, func(t *testing.T, w *world) {
		began := time.Now()
		var asks sync.WaitGroup
		for range calls {
			for i, n := range w.nodes {
				asks.Go(func() { _, _ = Request[total](w.within(time.Minute), n, address(1-i), ask{}) })
			}
		}
		asks.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v, want no wait for a timeout", took)
		}
	})
}

// TestRequestsBehindHungHandlersAreRefused checks that the requests of one member get ErrBusy if
// its earlier requests occupy all handlers, also if the type has few of them.
func TestRequestsBehindHungHandlersAreRefused(t *testing.T) {
	for _, handlers := range []int{1, 2, 64} {
		withGate(t, 1, func(_ int, mux *receiver.Mux, gate <-chan struct{}) {
			receiver.HandleRequest(mux, func(context.Context, member.Member, sum) (total, error) {
				<-gate
				return total{}, nil
			}, receiver.Concurrency(handlers))
		}, func(t *testing.T, w *world) {
			n := w.nodes[0]
			for range handlers {
				go func() { _, _ = Request[total](t.Context(), n, address(0), sum{}) }()
			}
			synctest.Wait()
			_, err := Request[total](w.within(time.Minute), n, address(0), sum{})
			if !errors.Is(err, ErrBusy) {
				t.Errorf("%d handlers: got %v, want ErrBusy", handlers, err)
			}
		})
	}
}

// TestHandlersWithoutTheirContexts checks that handlers which send with another context than their
// own wait for each other for about 5 s at most, and then continue.
func TestHandlersWithoutTheirContexts(t *testing.T) {
	load := &chainLoad{}
	load.handle = func(_ context.Context, n *Node, from member.Address, left int) error {
		if left == 0 {
			return nil
		}
		return n.Send(context.Background(), from, hop{left - 1, padding})
	}
	withReceivers(t, 2, func(_ *testing.T, _ int, mux *receiver.Mux) {
		load.registerHandlers(mux)
	}, func(t *testing.T, w *world) {
		const events = 5000
		var senders sync.WaitGroup
		for i, n := range w.nodes {
			senders.Go(func() {
				for sent := 0; sent < events && t.Context().Err() == nil; {
					if err := n.Send(t.Context(), address(1-i), hop{1, padding}); err == nil {
						sent++
					} else {
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { senders.Wait(); close(done) }()
		for before := int64(-1); ; {
			select {
			case <-done:
				return
			case <-time.After(7 * time.Second):
			}
			now := load.handled.Load() + load.busy.Load()
			if now == before {
				t.Fatalf("nothing was handled for 7 s after %d events", now)
			}
			before = now
		}
	})
}

// TestHungHandlersDelayNoOther checks that hung handlers of events delay no request, those of
// requests no event, and neither a request of Athena itself.
func TestHungHandlersDelayNoOther(t *testing.T) {
	own := eventname.AdminStatus
	withGate(t, 2, func(_ int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.Handle(mux, func(context.Context, member.Member, note) error { <-gate; return nil })
		receiver.HandleRequest(mux, func(context.Context, member.Member, sum) (total, error) {
			<-gate
			return total{}, nil
		})
		receiver.HandleRequest(mux, func(context.Context, member.Member, ask) (total, error) {
			return total{}, nil
		}, receiver.Named(own))
	}, func(t *testing.T, w *world) {
		n := w.nodes[0]
		fill(t, w, n, address(1), 60_000)
		if _, err := Request[total](w.within(time.Second), n, address(1), hop{}); !errors.Is(
			err, ErrUnknownType) {
			t.Errorf("a request behind full queues of events: got %v, want ErrUnknownType", err)
		}
		for range 1000 {
			go func() { _, _ = Request[total](t.Context(), n, address(1), sum{}) }()
		}
		synctest.Wait()
		if _, err := Request[total](w.within(time.Second), n, address(1), ask{}); err != nil {
			t.Errorf("a request of Athena behind full queues: %v", err)
		}
		began := time.Now()
		err := n.Send(t.Context(), address(1), note{Text: string(make([]byte, 60_000))})
		if took := time.Since(began); !errors.Is(err, ErrBusy) || took > 6*time.Second {
			t.Errorf("an event to hung handlers: got %v after %v, want ErrBusy after 5 s", err, took)
		}
		_, err = Request[total](t.Context(), n, address(1), sum{})
		if took := time.Since(began); !errors.Is(err, ErrBusy) || took > 12*time.Second {
			t.Errorf("a request to hung handlers: got %v after %v, want ErrBusy after 5 s", err, took)
		}
	})
}

// TestWaitsEndWithTheMember checks that calls, Sends that wait for room and streams end when the
// member is no longer active, each with its error, before its connection is given up.
func TestWaitsEndWithTheMember(t *testing.T) {
	withGate(t, 3, func(_ int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.HandleStream(mux, "s", func(context.Context, member.Member, receiver.Stream) error {
			<-gate
			return nil
		})
		receiver.Handle(mux, func(context.Context, member.Member, note) error { <-gate; return nil })
		receiver.HandleRequest(mux, func(context.Context, member.Member, sum) (total, error) {
			<-gate
			return total{}, nil
		})
	}, func(t *testing.T, w *world) {
		n := w.leader()
		other := w.others(n)[0]
		to := other.cfg.self
		s, err := n.OpenStream(t.Context(), to, "s")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		fill(t, w, n, to, 60_000)
		w.cut(other)
		limit := n.cfg.timings.HeartbeatTimeout + 2*n.cfg.HeartbeatInterval
		var waits sync.WaitGroup
		wait := func(want error, f func() error) {
			began := time.Now()
			waits.Go(func() {
				if err := f(); !errors.Is(err, want) || time.Since(began) > limit {
					t.Errorf("got %v after %v, want %v within %v", err, time.Since(began), want, limit)
				} else if want != ErrNotActive && errors.Is(err, ErrNotActive) {
					t.Errorf("%v also is ErrNotActive: no handler has run", err)
				}
			})
		}
		wait(ErrNotActive, func() error {
			return n.Send(t.Context(), to, note{Text: string(make([]byte, 60_000))})
		})
		wait(ErrUnknownOutcome, func() error {
			_, err := Request[total](t.Context(), n, to, sum{})
			return err
		})
		wait(ErrStreamCut, func() error {
			_, err := s.Read(make([]byte, 1))
			return err
		})
		waits.Wait()
		w.heal(other)
	})
}

// TestBroadcastEndsWithTheMember checks that a Broadcast to a member that accepts nothing and then
// disappears ends when the member is no longer active, and that the other member gets the event
// without delay.
func TestBroadcastEndsWithTheMember(t *testing.T) {
	const size = 60_000
	var gone member.Address
	arrived := make(chan time.Time, 1)
	withGate(t, 3, func(_ int, mux *receiver.Mux, gate <-chan struct{}) {
		receiver.Handle(mux, func(ctx context.Context, _ member.Member, _ note) error {
			if FromContext(ctx).cfg.self == gone {
				<-gate
			} else {
				arrived <- time.Now()
			}
			return nil
		})
	}, func(t *testing.T, w *world) {
		n := w.leader()
		other := w.others(n)[0]
		gone = other.cfg.self
		fill(t, w, n, gone, size)
		w.cut(other)
		began, limit := time.Now(), n.cfg.timings.HeartbeatTimeout+2*n.cfg.HeartbeatInterval
		err := n.Broadcast(t.Context(), note{Text: string(make([]byte, size))})
		if took := time.Since(began); !errors.Is(err, ErrNotActive) || took > limit {
			t.Errorf("got %v after %v, want ErrNotActive of %v within %v", err, took, gone, limit)
		}
		if took := (<-arrived).Sub(began); took > n.cfg.HeartbeatInterval/10 {
			t.Errorf("the other member got the event after %v", took)
		}
		w.heal(other)
	})
}
