// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// slow returns a mux whose request handler takes one second per byte of the text. If its
// context is done first, the handler returns the cause.
func slow(opts ...Option) *Mux {
	mux := NewMux()
	HandleRequest(mux, func(ctx context.Context, _ member.Member, m order) (int, error) {
		switch m.Text {
		case "panic":
			panic("boom")
		case "exit":
			runtime.Goexit()
		}
		select {
		case <-time.After(time.Duration(len(m.Text)) * time.Second):
			return len(m.Text), nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}, opts...)
	return mux
}

func TestRequestsRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := slow(Concurrency(2))
		started(t, mux, Setup{})
		begin := time.Now()
		var got [3]outcome
		for i := range got {
			if err := mux.Deliver(t.Context(), orderFor("xx", got[i].call(uint64(i+1), true))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until its handler runs, or waits for another
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got[0].want(t, 2, true, nil)
		got[1].want(t, 2, true, nil)
		if got[2].count() != 0 {
			t.Errorf("the third was answered after %v, with two concurrently", time.Since(begin))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got[2].want(t, 2, true, nil)
	})
}

// TestRequestEnds checks every way in which a request can end.
func TestRequestEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		text    string
		timeout time.Duration
		end     func(mux *Mux)
		ran     bool
		want    error
	}{
		{"by its deadline", "xxxxx", 2 * time.Second, nil, true, context.DeadlineExceeded},
		{"taken back", "xxxxx", 0, func(m *Mux) { m.Cancel(sender(1).Address, 1) }, true, ErrCanceled},
		{"connection lost", "xxxxx", 0, func(m *Mux) { m.CancelAll(sender(1).Address, errBoom) },
			true, errBoom},
		{"another taken back", "x", 0, func(m *Mux) {
			m.Cancel(sender(1).Address, 2)
			m.Cancel(sender(2).Address, 1)
			m.CancelAll(sender(2).Address, errBoom)
		}, true, nil},
		{"by the node", "xxxxx", 0, func(m *Mux) { _ = m.Close(context.Background()) }, true, ErrClosed},
		{"by a panic", "panic", 0, nil, true, nil},
		{"without a word", "exit", 0, nil, true, errExited},
	} {
		synctest.Test(t, func(t *testing.T) {
			mux := slow()
			started(t, mux, Setup{})
			var got outcome
			d := orderFor(c.text, got.call(1, true))
			d.Call.Timeout = c.timeout
			if err := mux.Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 2)
			if c.end != nil {
				c.end(mux)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if c.text == "panic" {
				if _, ok := errors.AsType[*PanicError](got.err); !ok {
					t.Errorf("%s: got %v, want a PanicError", c.name, got.err)
				}
				return
			}
			if got.times != 1 || got.ran != c.ran || !errors.Is(got.err, c.want) {
				t.Errorf("%s: answered %d times, ran %t, %v; want once, %t, %v",
					c.name, got.times, got.ran, got.err, c.ran, c.want)
			}
			if run := mux.live.Load(); run != nil && len(run.calls.pending) > 0 {
				t.Errorf("%s: %d calls are remembered", c.name, len(run.calls.pending))
			}
		})
	}
}

// TestRequestThatWaitedTooLong checks that the handler does not run if the deadline has passed.
func TestRequestThatWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := slow(Concurrency(1))
		started(t, mux, Setup{})
		var first, second outcome
		if err := mux.Deliver(t.Context(), orderFor("xxx", first.call(1, true))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d := orderFor("x", second.call(2, true))
		d.Call.Timeout = time.Second
		if err := mux.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		first.want(t, 3, true, nil)
		second.want(t, nil, false, context.DeadlineExceeded)
		if got := stats(t, mux, "order").Handled; got != 1 {
			t.Errorf("Handled: got %d, want the first alone", got)
		}
	})
}

// TestCloseAnswersWhatWaits checks that Close answers every pending request.
func TestCloseAnswersWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := slow(Concurrency(1))
		started(t, mux, Setup{})
		got := make([]outcome, 5)
		for i := range got {
			if err := mux.Deliver(t.Context(), orderFor("xxx", got[i].call(uint64(i+1), true))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := mux.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			var value any
			if i == 0 {
				value = 0 // returned in addition to the error of the handler
			}
			got[i].want(t, value, i == 0, ErrClosed)
		}
	})
}

func TestRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := slow()
		Handle(mux, ignore[other])
		started(t, mux, Setup{})
		var got outcome
		if err := mux.Deliver(t.Context(), orderFor("xxx", got.call(1, true))); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			d    Delivery
			want error
		}{
			{"a number twice", orderFor("x", got.call(1, true)), ErrMalformed},
			{"no handler that answers", Delivery{From: ptr(sender(1)), Raw: Raw{"other", []byte{0x80}},
				Call: got.call(2, true)}, ErrUnknown},
			{"no handler", Delivery{From: ptr(sender(1)), Raw: Raw{"strange", nil},
				Call: got.call(3, true)}, ErrUnknown},
		} {
			if err := mux.Deliver(t.Context(), c.d); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.want)
			}
		}
		// If the request is sent as an event, the handler runs and the answer is dropped.
		if err := mux.Deliver(t.Context(), orderFor("x", nil)); err != nil {
			t.Errorf("an event for a handler of requests: got %v, want nil", err)
		}
		time.Sleep(time.Minute)
		got.want(t, 3, true, nil)
		if got := stats(t, mux, "order").Handled; got != 2 {
			t.Errorf("Handled: got %d, want 2", got)
		}
	})
}

// nameless is an error whose Error method panics, like that of a nil pointer.
type nameless struct{ text string }

func (e *nameless) Error() string { return e.text }

// TestErrorWithoutTextIsAPanic checks that a panic in Error counts as a panic of the
// handler.
func TestErrorWithoutTextIsAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		HandleRequest(mux, func(context.Context, member.Member, order) (int, error) {
			var e *nameless
			return 0, e
		})
		Handle(mux, func(context.Context, member.Member, other) error {
			var e *nameless
			return e
		})
		started(t, mux, Setup{})
		var asked1, sent outcome
		event := orderFor("x", sent.call(2, false))
		event.Name = "other"
		for _, d := range []Delivery{orderFor("x", asked1.call(1, true)), event} {
			if err := mux.Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, o := range []*outcome{&asked1, &sent} {
			if _, ok := errors.AsType[*PanicError](o.err); !ok {
				t.Errorf("got %v, want a PanicError", o.err)
			}
		}
	})
}

// brittle is an answer that cannot be encoded.
type brittle struct{}

func (brittle) MarshalText() ([]byte, error) { panic("boom") }

func TestEncodingThatPanicsIsAnError(t *testing.T) {
	mux := NewMux()
	started(t, mux, Setup{})
	if _, err := mux.EncodeAnswer(nil, brittle{}); !errors.Is(err, ErrUnsendable) {
		t.Errorf("got %v, want ErrUnsendable", err)
	}
}

// TestCancelBeforeItsRequest checks that a cancel that overtakes its request cancels it, unless the
// connection was lost in between or the sender has sent too many other cancels.
func TestCancelBeforeItsRequest(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(m *Mux)
		want    error
	}{
		{"nothing between", func(*Mux) {}, ErrCanceled},
		{"cancels of another sender", func(m *Mux) {
			for id := range uint64(maxEarlyCancels - 1) {
				m.Cancel(sender(2).Address, id)
			}
		}, ErrCanceled},
		{"too many cancels of an observer", func(m *Mux) {
			for id := range uint64(3 * maxEarlyCancels) {
				m.Cancel(member.ObserverAddress("o"), id)
			}
		}, ErrCanceled},
		{"lost", func(m *Mux) { m.CancelAll(sender(1).Address, errBoom) }, nil},
		{"too many cancels", func(m *Mux) {
			for id := range uint64(3 * maxEarlyCancels) {
				m.Cancel(sender(1).Address, id+2)
			}
		}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			mux := slow()
			started(t, mux, Setup{})
			mux.Cancel(sender(1).Address, 1)
			mux.Cancel(sender(1).Address, 1)
			c.between(mux)
			early := mux.live.Load().calls.early
			if len(early.known) > maxEarlyCancels || len(early.ring) > maxEarlyCancels {
				t.Errorf("%s: %d cancels are remembered", c.name, len(early.ring))
			}
			for range 2 { // the second request with the id is not canceled
				var got outcome
				if err := mux.Deliver(t.Context(), orderFor("x", got.call(1, true))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if c.want != nil {
					got.want(t, nil, false, c.want)
				} else {
					got.want(t, 1, true, nil)
				}
				c.want = nil
			}
		})
	}
}
