// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// sum is a request. Its text selects what the handler does.
type sum struct {
	A, B int
	Text string
}

type total struct{ Sum int }

// bulk is a request for an answer of Bytes bytes.
type bulk struct{ Bytes int }

// desk counts the requests that ran, and records why "wait" requests ended.
type desk struct {
	mu    sync.Mutex
	ran   int
	ended []error
	meta  map[string]string
}

func (d *desk) register(_ *testing.T, _ int, mux *receiver.Mux) {
	receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, s sum) (total, error) {
		d.mu.Lock()
		d.ran++
		d.meta = receiver.Metadata(ctx)
		d.mu.Unlock()
		switch s.Text {
		case "fail":
			return total{}, errors.New("out of \x1b[31mstock")
		case "panic":
			panic("boom")
		case "wait":
			<-ctx.Done()
			d.mu.Lock()
			defer d.mu.Unlock()
			d.ended = append(d.ended, context.Cause(ctx))
			return total{}, context.Cause(ctx)
		}
		return total{s.A + s.B}, nil
	})
	receiver.HandleRequest(mux, func(_ context.Context, _ member.Member, b bulk) ([]byte, error) {
		return make([]byte, b.Bytes), nil
	})
	receiver.Handle(mux, func(_ context.Context, _ member.Member, m note) error {
		if m.Text == "fail" {
			return errBoom
		}
		return nil
	})
}

func (d *desk) seen() (ran int, ended []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ran, slices.Clone(d.ended)
}

func withDesk(t *testing.T, test func(t *testing.T, w *world, d *desk)) {
	t.Helper()
	var d desk
	withReceivers(t, 3, d.register, func(t *testing.T, w *world) { test(t, w, &d) })
}

func TestRequestIsAnswered(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, d *desk) {
		for to := range 3 {
			got, err := Request[total](t.Context(), w.nodes[0], address(to), sum{A: 2, B: 3},
				WithMetadata(map[string]string{"trace": "00f1"}))
			if err != nil || got.Sum != 5 {
				t.Errorf("asking node %d: got %+v, %v, want 5", to, got, err)
			}
			if want := map[string]string{"trace": "00f1"}; !maps.Equal(d.meta, want) {
				t.Errorf("asking node %d: its handler saw %v, want %v", to, d.meta, want)
			}
		}
		got, err := Request[[]byte](t.Context(), w.nodes[0], address(1), bulk{100_000})
		if err != nil || len(got) != 100_000 {
			t.Errorf("a large answer: got %d bytes, %v", len(got), err)
		}
	})
}

func TestRequestSaysWhatHappened(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		n := w.nodes[0]
		for _, to := range []member.Address{address(0), address(1)} {
			for _, c := range []struct {
				req  any
				want error
				text string
			}{
				{sum{Text: "panic"}, nil, "panicked: boom"},
				{sum{Text: "fail"}, nil, `failed: out of \x1b[31mstock`},
				{note{}, ErrUnknownType, "no handler that answers"},
				{flags{}, ErrUnknownType, "flags"},
				{struct{}{}, ErrUnknownType, "name"},
				{receiver.Raw{Name: "sum", Payload: []byte{0x01}}, ErrUnknownType, "malformed"},
				{bulk{2 * MaxEventBytes}, ErrBadAnswer, "cannot be sent"},
				{sum{Text: strings.Repeat("x", MaxEventBytes)}, ErrTooLarge, "sum"},
			} {
				_, err := Request[total](t.Context(), n, to, c.req)
				_, failed := errors.AsType[*HandlerError](err)
				if err == nil || failed != (c.want == nil) || !failed && !errors.Is(err, c.want) ||
					!strings.Contains(err.Error(), c.text) {
					t.Errorf("%T %.20v to %v: got %v, want %v and %q", c.req, c.req, to, err, c.want, c.text)
				}
			}
			if _, err := Request[string](t.Context(), n, to, sum{}); !errors.Is(err, ErrBadAnswer) {
				t.Errorf("an answer of another type from %v: got %v, want ErrBadAnswer", to, err)
			}
			_, err := Request[total](t.Context(), n, to, note{})
			if !errors.Is(err, receiver.ErrUnknown) {
				t.Errorf("no handler at %v: got %v, want receiver.ErrUnknown too", to, err)
			}
		}
		if _, err := Request[total](t.Context(), n, address(9), sum{}); !errors.Is(err, ErrNotActive) {
			t.Errorf("asking a stranger: got %v, want ErrNotActive", err)
		}
		w.end(w.nodes[2])
		_, err := Request[total](w.within(time.Second/10), n, address(2), sum{})
		if !errors.Is(err, ErrNotDelivered) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request to a closed node: got %v, want ErrNotDelivered by the deadline", err)
		}
	})
}

// TestEndOfARequestCrossesTheWire checks that the handler's context ends with the caller's context,
// by deadline and by cancellation.
func TestEndOfARequestCrossesTheWire(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, d *desk) {
		for i, to := range []member.Address{address(0), address(1), address(0), address(1)} {
			ctx, cancel := context.WithCancelCause(w.within(time.Second))
			if i >= 2 {
				time.AfterFunc(time.Second/2, func() { cancel(errBoom) })
			}
			begin := time.Now()
			_, err := Request[total](ctx, w.nodes[0], to, sum{Text: "wait"})
			cancel(nil)
			want, after := context.DeadlineExceeded, time.Second
			if i >= 2 {
				want, after = errBoom, time.Second/2
			}
			// Both nodes run in one process, so they see the deadline at the same moment.
			_, failed := errors.AsType[*HandlerError](err)
			if (!errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, want)) && (i >= 2 || !failed) {
				t.Errorf("%d: got %v, want ErrUnknownOutcome and %v", i, err, want)
			}
			if took := time.Since(begin); took != after {
				t.Errorf("%d: took %v, want %v", i, took, after)
			}
			time.Sleep(50 * time.Millisecond) // less than the time left until the deadline
			synctest.Wait()
			if _, ended := d.seen(); len(ended) != i+1 {
				t.Errorf("%d: %d handlers ended, want %d: %v", i, len(ended), i+1, ended)
			}
		}
		if got := w.nodes[0].Status().Dropped[messaging.DropNotAwaited]; got == 0 {
			t.Error("no answer was dropped, want that of the call taken back at least")
		}
	})
}

// TestClosingNodeCancelsItsRequests checks that a closing node cancels each of its requests before
// it closes its connections.
func TestClosingNodeCancelsItsRequests(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, d *desk) {
		const requests = receiver.RequestConcurrency
		leader := w.leader()
		asker, asked := w.others(leader)[0], w.others(leader)[1]
		failed := make(chan error, requests)
		for range requests {
			go func() {
				_, err := Request[total](t.Context(), asker, asked.cfg.self, sum{Text: "wait"})
				failed <- err
			}()
		}
		synctest.Wait()
		w.end(asker)
		for range requests {
			if err := <-failed; !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrUnknownOutcome and ErrClosed", err)
			}
		}
		synctest.Wait()
		_, ended := d.seen()
		if len(ended) != requests {
			t.Errorf("%d handlers ended, want %d", len(ended), requests)
		}
		for _, err := range ended {
			if err != receiver.ErrCanceled {
				t.Errorf("the handler's context: got %v, want ErrCanceled", err)
			}
		}
	})
}

// TestLostConnectionEndsItsRequests checks that a lost connection ends its requests on both sides.
func TestLostConnectionEndsItsRequests(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, d *desk) {
		leader := w.leader()
		asker, asked := w.others(leader)[0], w.others(leader)[1]
		failed := make(chan error, 2)
		for _, from := range []*Node{asker, leader} {
			go func() {
				_, err := Request[total](t.Context(), from, asked.cfg.self, sum{Text: "wait"})
				failed <- err
			}()
		}
		synctest.Wait()
		w.net.Kill(asker.cfg.self) // so that the asker cannot cancel its requests
		if err := asker.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("asker that dies: got %v, want ErrUnknownOutcome", err)
		}
		time.Sleep(2 * time.Second) // too short to make another connection
		if _, ended := d.seen(); len(ended) != 1 ||
			!matchesError(ended[0], textError("the connection to "+asker.cfg.self.String()+" was lost")) {
			t.Errorf("the handler's context: got %v, want the asker lost", ended)
		}
		if err := asked.Close(); err != nil {
			t.Fatal(err)
		}
		_, handler := errors.AsType[*HandlerError](<-failed)
		if !handler {
			t.Error("asked node that closes: want the error of the handler, which ran")
		}
	})
}

// timed is an answer that would arrive without its text.
type timed struct {
	time.Time
	Text string
}

// TestRequestForUnsendableAnswer checks that no handler runs if its answer could not arrive.
func TestRequestForUnsendableAnswer(t *testing.T) {
	var d desk
	withReceivers(t, 2, d.register, func(t *testing.T, w *world) {
		_, err := Request[timed](t.Context(), w.nodes[0], address(1), sum{A: 1})
		if !errors.Is(err, ErrUnknownType) || !strings.Contains(err.Error(), "without Text") {
			t.Errorf("got %v, want ErrUnknownType with the field", err)
		}
		if d.ran > 0 {
			t.Errorf("%d handlers ran, want none", d.ran)
		}
	})
}

// TestRequestLeaderFollows checks that RequestLeader follows a change of leader and asks no other
// member.
func TestRequestLeaderFollows(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, d *desk) {
		old := w.leader()
		for _, n := range w.nodes {
			if got, err := RequestLeader[total](t.Context(), n, sum{A: 1}); err != nil || got.Sum != 1 {
				t.Errorf("%v asks: got %v, %v, want 1", n.cfg.self, got, err)
			}
		}
		asker := w.others(old)[0]
		// A leader without authority does not answer, even while the other nodes know no new leader.
		w.cut(old)
		time.Sleep(old.cfg.LeaseTimeout)
		answered := make(chan error, 1)
		ran, _ := d.seen()
		go func() {
			// Idempotent, because both nodes dial when the links heal, and the connection on which the
			// request goes may be one whose dialer has given it up.
			_, err := RequestLeader[total](w.within(time.Minute), old, sum{}, Idempotent())
			answered <- err
		}()
		time.Sleep(2 * old.cfg.LeaderTimeout)
		if now, _ := d.seen(); now != ran {
			t.Errorf("%d handlers ran for a leader that was cut off", now-ran)
		}
		if _, err := RequestLeader[total](w.within(time.Minute), asker, sum{}); err != nil {
			t.Errorf("the majority asks: got %v, want nil", err)
		}
		w.heal(old)
		if err := <-answered; err != nil {
			t.Errorf("asked while cut off: got %v, want the next leader's answer", err)
		}
		for _, n := range w.others(asker) {
			w.end(n)
		}
		time.Sleep(asker.cfg.LeaseTimeout)
		_, err := RequestLeader[total](w.within(10*time.Second), asker, sum{})
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a leader: got %v, want the deadline", err)
		}
	})
}

// TestRequestLeaderLeavesALostLeader checks that RequestLeader does not wait for a connection to a
// leader that no longer leads.
func TestRequestLeaderLeavesALostLeader(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		old := w.leader()
		asker := w.others(old)[0]
		w.end(old) // the others are not notified
		begin := time.Now()
		if _, err := RequestLeader[total](w.within(time.Minute), asker, sum{}); err != nil {
			t.Errorf("got %v, want the answer of the next leader", err)
		}
		if took := time.Since(begin); took > 2*old.cfg.LeaderTimeout {
			t.Errorf("took %v, want about %v", took, old.cfg.LeaderTimeout)
		}
	})
}

// TestIdempotentRequestOutlivesItsLeader checks that a request with Idempotent is repeated by the
// next leader if the leader is lost while its handler runs, and that no other request is.
func TestIdempotentRequestOutlivesItsLeader(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, d *desk) {
		old := w.leader()
		asker := w.others(old)[0]
		answers := make(chan error, 2)
		for _, opts := range [][]SendOption{{Idempotent()}, nil} {
			go func() {
				_, err := RequestLeader[total](w.within(time.Minute), asker, sum{Text: "wait"}, opts...)
				answers <- err
			}()
		}
		synctest.Wait()
		w.cut(old)
		began := time.Now()
		if err := <-answers; !errors.Is(err, ErrUnknownOutcome) || time.Since(began) > 3*time.Second {
			t.Errorf("once: got %v after %v, want ErrUnknownOutcome", err, time.Since(began))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if ran, _ := d.seen(); ran != 3 {
			t.Errorf("%d handlers ran, want two at the old leader and one at the next", ran)
		}
		w.heal(old)
		if err := <-answers; err == nil || errors.Is(err, ErrNotActive) {
			t.Errorf("got %v, want the end of the context", err)
		}
		_, err := Request[total](t.Context(), asker, asker.cfg.self, sum{}, Idempotent())
		if err == nil || asker.Send(t.Context(), asker.cfg.self, note{}, Idempotent()) == nil {
			t.Error("Request and Send accept Idempotent")
		}
	})
}

// TestRequestToARemovedMember checks that a request to a member ends, at the latest, when the
// member is removed.
func TestRequestToARemovedMember(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		asker := w.leader()
		gone := w.others(asker)[0]
		begin, failed := time.Now(), make(chan error)
		go func() {
			_, err := Request[total](t.Context(), asker, gone.cfg.self, sum{Text: "wait"})
			failed <- err
		}()
		synctest.Wait()
		w.cut(gone)
		if err := <-failed; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		if took := time.Since(begin); took > asker.cfg.TTLTimeout+asker.cfg.LeaderTimeout {
			t.Errorf("took %v, want at most %v", took, asker.cfg.TTLTimeout+asker.cfg.LeaderTimeout)
		}
	})
}

// TestOutcomesAreReported checks that one outcome is reported for each member that accepted the
// event.
func TestOutcomesAreReported(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		var box mailbox
		told := WithOutcome(func(to member.Address, err error) {
			_, failed := errors.AsType[*HandlerError](err)
			box.add("%d %t %t", to.Port, errors.Is(err, ErrUnknownType), failed)
		})
		n := w.nodes[0]
		for _, err := range []error{
			n.Send(t.Context(), address(1), note{1, ""}, told),
			n.Broadcast(t.Context(), note{2, "fail"}, told, WithSelf()),
			n.Send(t.Context(), address(2), flags{}, told),
		} {
			if err != nil {
				t.Errorf("got %v, want nil", err)
			}
		}
		synctest.Wait()
		want := []string{"7001 false true", "7002 false false", "7002 false true",
			"7003 false true", "7003 true false"}
		if got := box.sorted(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		if err := n.Send(t.Context(), address(9), note{}, told); !errors.Is(err, ErrNotActive) {
			t.Errorf("Send to a stranger: got %v, want ErrNotActive", err)
		}
		if err := n.Send(t.Context(), address(0), flags{}, told); err == nil {
			t.Error("Send to itself without a handler: got nil, want an error")
		}
		if got := len(box.sorted()); got != len(want) {
			t.Errorf("told %d outcomes of events that were not taken", got-len(want))
		}
	})
}

// TestEachLostEventIsReported checks that each event to a member that dies has one outcome, and
// that each event with a nil outcome was handled.
func TestEachLostEventIsReported(t *testing.T) {
	handled := map[int]bool{}
	var mu sync.Mutex
	withReceivers(t, 3, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(ctx context.Context, _ member.Member, m note) error {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			handled[m.Number] = true
			return nil
		})
	}, func(t *testing.T, w *world) {
		from, to := w.leader(), w.others(w.leader())[0]
		told := map[int][]error{}
		taken := 0
		time.AfterFunc(time.Second, func() { _ = to.Close() })
		for i := 0; ; i++ {
			err := from.Send(w.within(5*time.Second), to.cfg.self, note{Number: i},
				WithOutcome(func(_ member.Address, err error) {
					mu.Lock()
					defer mu.Unlock()
					told[i] = append(told[i], err)
				}))
			if err != nil {
				break
			}
			taken++
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		lost := 0
		for i := range taken {
			switch errs := told[i]; {
			case len(errs) != 1:
				t.Fatalf("event %d of %d: told %d times: %v", i, taken, len(errs), errs)
			case (errs[0] == nil) != handled[i]:
				t.Errorf("event %d: told %v, handled %t", i, errs[0], handled[i])
			case errs[0] != nil:
				lost++
			}
		}
		if len(told) != taken || lost == 0 || lost == taken {
			t.Errorf("%d taken, %d told, %d lost; want all told and some lost", taken, len(told), lost)
		}
	})
}

// TestLaterRunGetsNoAnswerOfAnEarlierOne checks that a node that restarts does not get the answer
// to a request of its previous run.
func TestLaterRunGetsNoAnswerOfAnEarlierOne(t *testing.T) {
	withReceivers(t, 3, func(t *testing.T, _ int, mux *receiver.Mux) {
		receiver.HandleRequest(mux, func(_ context.Context, _ member.Member, s sum) (total, error) {
			time.Sleep(time.Duration(s.A) * time.Second) // ignores the context
			return total{s.A}, nil
		})
	}, func(t *testing.T, w *world) {
		for _, n := range w.nodes[1:] {
			go func() { _, _ = Request[total](t.Context(), w.nodes[0], n.cfg.self, sum{A: 20}) }()
		}
		synctest.Wait()
		w.end(w.nodes[0])
		n, err := w.start(0, w.profile)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[0] = n
		if err := n.WaitActive(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		var sums sync.WaitGroup
		for _, to := range w.nodes[1:] {
			sums.Go(func() {
				got, err := Request[total](t.Context(), n, to.cfg.self, sum{A: 30})
				if err != nil || got.Sum != 30 {
					t.Errorf("of %v: got %v, %v, want 30", to.cfg.self, got, err)
				}
			})
		}
		sums.Wait()
	})
}

// TestMetadataIsTheCallersAgain checks that the caller may reuse the metadata after Send has
// returned, even for an event to itself.
func TestMetadataIsTheCallersAgain(t *testing.T) {
	var seen chan map[string]string
	withReceivers(t, 3, func(t *testing.T, i int, mux *receiver.Mux) {
		if i > 0 {
			return
		}
		seen = make(chan map[string]string, 2) // of the bubble
		receiver.Handle(mux, func(ctx context.Context, _ member.Member, _ note) error {
			time.Sleep(time.Second)
			seen <- receiver.Metadata(ctx)
			return nil
		})
	}, func(t *testing.T, w *world) {
		n, entries := w.nodes[0], map[string]string{"trace": "1"}
		if err := n.Send(t.Context(), n.cfg.self, note{}, WithMetadata(entries)); err != nil {
			t.Fatal(err)
		}
		entries["trace"] = "2"
		if got := (<-seen)["trace"]; got != "1" {
			t.Errorf("got %q, want what was sent", got)
		}
	})
}
