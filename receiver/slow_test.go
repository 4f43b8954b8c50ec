// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// withSlow runs a test with a Mux. Its handler of order sleeps for the duration in the text; one
// runs at a time. Handlers of requests of type other sleep for 100 s; two run at a time.
func withSlow(t *testing.T, test func(t *testing.T, mux *Mux, reports *journal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mux, reports, began := NewMux(), &journal{}, time.Now()
		Handle(mux, func(_ context.Context, _ member.Member, m order) error {
			d, err := time.ParseDuration(m.Text)
			time.Sleep(d)
			return err
		}, Concurrency(1))
		HandleRequest(mux, func(context.Context, member.Member, other) (other, error) {
			time.Sleep(100 * time.Second)
			return other{}, nil
		}, Concurrency(2))
		Handle(mux, func(context.Context, member.Member, Raw) error {
			time.Sleep(10 * time.Second)
			return nil
		})
		started(t, mux, Setup{ReportSlow: func(h SlowHandler) {
			reports.add("%v: %s from %d for %v, %d wait",
				time.Since(began), h.Event, h.From.Port, h.Running, h.Waiting)
		}})
		time.Sleep(time.Millisecond) // so that no handler begins at the moment of a look
		test(t, mux, reports)
	})
}

// TestSlowEventHandlerIsReported checks that a handler of events that does not return is reported
// with its sender and the events that wait, at growing intervals, and no longer once it has
// returned.
func TestSlowEventHandlerIsReported(t *testing.T) {
	withSlow(t, func(t *testing.T, mux *Mux, reports *journal) {
		send(t, mux, sender(1), "150s")
		synctest.Wait() // it has the slot
		send(t, mux, sender(2), "1s")
		for range 3 {
			send(t, mux, sender(1), "1s")
		}
		time.Sleep(30 * time.Second)
		got, want := stats(t, mux, "order").Slowest, SlowHandler{
			"order", sender(1).Address, 29*time.Second + time.Millisecond, 3}
		if got != want {
			t.Errorf("after 30 s: got %+v, want %+v", got, want)
		}
		time.Sleep(150 * time.Second)
		reports.want(t, "6s: order from 1 for 5s, 3 wait", "1m6s: order from 1 for 1m5s, 3 wait",
			"2m11s: order from 1 for 2m10s, 3 wait")
		if got := stats(t, mux, "order").Slowest; got != (SlowHandler{}) {
			t.Errorf("after the handler has returned: got %+v, want none", got)
		}
	})
}

// TestSlowRequestHandlersAreReported checks that each handler of requests that does not return is
// reported, one of a type in a minute, with the requests that wait. The third request is refused
// after 5 s, because both handlers are running.
func TestSlowRequestHandlersAreReported(t *testing.T) {
	withSlow(t, func(t *testing.T, mux *Mux, reports *journal) {
		payload, err := mux.Encode(nil, other{})
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(3) {
			d := Delivery{From: ptr(sender(1)), Raw: Raw{"other", payload}}
			d.Call = new(outcome).call(id, true)
			if err := mux.Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		reports.want(t, "6s: other from 1 for 5s, 1 wait", "1m6s: other from 1 for 1m3s, 0 wait")
	})
}

// TestSlowHandlerOfRawIsReported checks that a report has the name under which the event was sent.
func TestSlowHandlerOfRawIsReported(t *testing.T) {
	withSlow(t, func(t *testing.T, mux *Mux, reports *journal) {
		d := Delivery{From: ptr(sender(1)), Raw: Raw{Name: "unregistered"}}
		if err := mux.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		reports.want(t, "6s: unregistered from 1 for 5s, 0 wait")
	})
}

// TestFastHandlersAreNotReported checks that a busy worker is not reported if each of its handlers
// returns in time, nor while it waits for a slot.
func TestFastHandlersAreNotReported(t *testing.T) {
	withSlow(t, func(t *testing.T, mux *Mux, reports *journal) {
		for i := range 20 {
			send(t, mux, sender(uint16(i%5)), fmt.Sprint(StallTimeout-time.Millisecond))
		}
		for range 100 {
			time.Sleep(time.Second)
			if got := stats(t, mux, "order").Slowest; got != (SlowHandler{}) {
				t.Fatalf("got %+v, want none", got)
			}
		}
		reports.want(t)
	})
}
