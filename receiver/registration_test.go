// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// noteOrder returns a handler that adds the text of each order to a journal.
func noteOrder(seen *journal, name string) func(context.Context, member.Member, order) error {
	return func(_ context.Context, _ member.Member, m order) error {
		seen.add("%s %s", name, m.Text)
		return nil
	}
}

// TestHandlersChangeWhileRunning adds, replaces and removes handlers of a type between its events.
func TestHandlersChangeWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		started(t, mux, Setup{})
		if err := deliver(t.Context(), mux, sender(1), "early"); !errors.Is(err, ErrUnknown) {
			t.Errorf("without a handler: got %v, want ErrUnknown", err)
		}
		first := Handle(mux, noteOrder(seen, "first"))
		last := Handle(mux, noteOrder(seen, "last"))
		send(t, mux, sender(1), "1")
		synctest.Wait()
		second := Handle(mux, noteOrder(seen, "second"), Replacing(first))
		send(t, mux, sender(1), "2")
		synctest.Wait()
		first.Remove() // has no effect: second has replaced first
		send(t, mux, sender(1), "3")
		synctest.Wait()
		<-second.Remove()
		<-last.Remove()
		<-last.Remove()
		err := deliver(t.Context(), mux, sender(1), "4")
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("after the removal: got %v, want ErrUnknown", err)
		}
		Handle(mux, noteOrder(seen, "third"), Replacing(second))
		send(t, mux, sender(1), "5")
		synctest.Wait()
		seen.want(t, "first 1", "last 1", "second 2", "last 2", "second 3", "last 3", "third 5")
		if n := stats(t, mux, "order").Handled; n != 4 {
			t.Errorf("handled: got %d, want 4", n)
		}
	})
}

// TestRunningCallsOutliveTheirHandler removes a handler during its call. The call must complete,
// the next event of the sender must get the new handler, and the channel of Remove must wait for
// the call.
func TestRunningCallsOutliveTheirHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		var slow *Registration
		slow = Handle(mux, func(_ context.Context, _ member.Member, m order) error {
			slow.Remove() // a handler may remove itself
			time.Sleep(time.Second)
			seen.add("slow %s", m.Text)
			return nil
		})
		next := Handle(mux, noteOrder(seen, "next"))
		started(t, mux, Setup{})
		send(t, mux, sender(1), "1")
		send(t, mux, sender(1), "2")
		synctest.Wait()
		Handle(mux, noteOrder(seen, "new"), Replacing(next))
		idle := slow.Remove()
		select {
		case <-idle:
			t.Error("the channel of Remove is closed while the handler runs")
		default:
		}
		<-idle
		<-next.Remove()
		synctest.Wait()
		seen.want(t, "slow 1", "new 1", "new 2")
	})
}

// TestQueuedEventsAfterTheRemoval removes the last handler of a type while events wait. Their
// senders must get ErrUnknown.
func TestQueuedEventsAfterTheRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		h := Handle(mux, func(context.Context, member.Member, order) error {
			time.Sleep(time.Second)
			return nil
		})
		started(t, mux, Setup{})
		var running, queued outcome
		for i, o := range []*outcome{&running, &queued} {
			if err := mux.Deliver(t.Context(), orderFor("x", o.call(uint64(i+1), false))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		<-h.Remove()
		synctest.Wait()
		running.want(t, nil, true, nil)
		queued.want(t, nil, false, ErrUnknown)
	})
}

// TestRequestsAndStreamsChangeWhileRunning replaces and removes handlers of requests and streams.
func TestRequestsAndStreamsChangeWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		started(t, mux, Setup{})
		answer := func(n int) func(context.Context, member.Member, order) (int, error) {
			return func(context.Context, member.Member, order) (int, error) { return n, nil }
		}
		ask := func() (got outcome) {
			if err := mux.Deliver(t.Context(), orderFor("x", got.call(1, true))); err != nil {
				got.err = err
			}
			synctest.Wait()
			return outcome{value: got.value, err: got.err}
		}
		one := HandleRequest(mux, answer(1), Concurrency(3))
		if got := ask(); got.value != 1 {
			t.Errorf("got %v, %v; want 1", got.value, got.err)
		}
		two := HandleRequest(mux, answer(2), Replacing(one))
		if got := ask(); got.value != 2 {
			t.Errorf("after the replacement: got %v, %v; want 2", got.value, got.err)
		}
		<-two.Remove()
		if got := ask(); !errors.Is(got.err, ErrUnknown) {
			t.Errorf("after the removal: got %v, %v; want ErrUnknown", got.value, got.err)
		}

		echo := func(context.Context, member.Member, Stream) error { return nil }
		file := HandleStream(mux, "file", echo)
		again := HandleStream(mux, "file", echo, Replacing(file))
		if _, err := opened(mux, sender(1), "file", nil); err != nil {
			t.Errorf("stream: got %v, want nil", err)
		}
		<-again.Remove()
		if _, err := opened(mux, sender(1), "file", nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("stream after the removal: got %v, want ErrUnknown", err)
		}
		synctest.Wait()
	})
}

type named interface{ Title() string }

type book struct{ Text string }

func (b book) Title() string { return b.Text }

type film struct{ Text string }

func (f *film) Title() string { return f.Text }

// TestInterfaceHandlers checks the order of handlers: those of the type, those of its interfaces in
// the order in which they were added, then those of Raw.
func TestInterfaceHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, _ member.Member, n named) error {
			seen.add("named %T %s", n, n.Title())
			return nil
		})
		Register[book](mux)
		Register[film](mux)
		HandleMatch(mux, func(_ member.Member, m order) bool { return m.Text == "own" },
			noteOrder(seen, "own"))
		started(t, mux, Setup{})
		give := func(event any) {
			t.Helper()
			name, err := mux.Name(event)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := mux.Encode(nil, event)
			if err != nil {
				t.Fatal(err)
			}
			d := Delivery{From: ptr(sender(1)), Raw: Raw{name, payload}}
			if err := mux.Deliver(t.Context(), d); err != nil {
				seen.add("%v", errors.Is(err, ErrUnknown))
			}
			synctest.Wait()
		}
		give(book{"b"})
		give(film{"f"})
		everything := HandleMatch(mux, func(_ member.Member, e any) bool { return e != book{"skip"} },
			func(_ context.Context, _ member.Member, e any) error {
				seen.add("any %T", e)
				return nil
			})
		give(book{"c"})
		give(order{"own"})
		give(order{"other"})
		give(other{"unregistered"})
		own := Handle(mux, func(_ context.Context, _ member.Member, b book) error {
			seen.add("book %s", b.Text)
			return nil
		})
		Handle(mux, func(_ context.Context, _ member.Member, r Raw) error {
			seen.add("raw %s", r.Name)
			return nil
		})
		give(book{"d"})
		own.Remove()
		everything.Remove()
		give(book{"e"})
		give(order{"other"})
		seen.want(t, "named receiver.book b", "named *receiver.film f",
			"named receiver.book c", "any receiver.book", "own own", "any receiver.order", "true",
			"book d", "named receiver.book e", "raw order")
	})
}

// TestMistakesWhileRunning checks that a mistake panics with its text and has no effect.
func TestMistakesWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		orders := Handle(mux, noteOrder(seen, "order"))
		Register[film](mux)
		Handle(mux, ignore[named])
		started(t, mux, Setup{})
		request := func(context.Context, member.Member, order) (int, error) { return 0, nil }
		requestFilm := func(context.Context, member.Member, film) (int, error) { return 0, nil }
		for want, register := range map[string]func(){
			"handler of order is nil":              func() { Handle[order](mux, nil) },
			"two types are named \"order\"":        func() { Handle(mux, ignore[other], Named("order")) },
			"options of order cannot change":       func() { Handle(mux, ignore[order], Queue(1, Drop)) },
			"order cannot have a handler of":       func() { HandleRequest(mux, request) },
			"film cannot have a handler of":        func() { HandleRequest(mux, requestFilm) },
			"replaces a handler of another type":   func() { Handle(mux, ignore[book], Replacing(orders)) },
			"its only option is Replacing":         func() { Handle(mux, ignore[named], Queue(1, Drop)) },
			"streams named \"a\\nb\": the name":    func() { HandleStream(mux, "a\nb", nil) },
			"the options Concurrency and Replaci":  func() { HandleStream(mux, "s", nil, Queue(1, Drop)) },
			"has no name: declare a named":         func() { Register[struct{ N int }](mux) },
			"none of its fields would be sent":     func() { Register[hidden](mux) },
			"the match function of a handler of r": func() { HandleMatch(mux, nil, ignore[order]) },
		} {
			func() {
				defer func() {
					if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
						t.Errorf("got the panic %q, want %q", got, want)
					}
				}()
				register()
			}()
		}
		Handle(mux, ignore[other])
		Handle(mux, noteOrder(seen, "again"))
		send(t, mux, sender(1), "1")
		synctest.Wait()
		seen.want(t, "order 1", "again 1")
		if len(mux.faults) != 0 {
			t.Errorf("faults are kept: %v", mux.faults)
		}
	})
}

// TestRegistrationDuringClose opens streams and registers handlers while the Mux closes. No handler
// runs after Close has returned.
func TestRegistrationDuringClose(t *testing.T) {
	for range 50 {
		mux := NewMux()
		if err := mux.Start(Setup{}); err != nil {
			t.Fatal(err)
		}
		var work sync.WaitGroup
		var running atomic.Int64
		stop := make(chan struct{})
		for i := range 3 {
			work.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					name := fmt.Sprint(i, "/", n%100)
					h := HandleStream(mux, name, func(context.Context, member.Member, Stream) error {
						running.Add(1)
						defer running.Add(-1)
						return nil
					})
					_, _ = opened(mux, sender(1), name, nil)
					h.Remove()
				}
			})
		}
		time.Sleep(time.Millisecond)
		if err := mux.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d handlers run after Close", n)
		}
		close(stop)
		work.Wait()
	}
}

type tick struct{ N int64 }

// TestHandlersChangeUnderLoad changes the handlers of a type in a drawn order while senders send.
// The handler that is only replaced must handle every event once, in the order of its sender. No
// handler may run after the channel of its removal is closed.
func TestHandlersChangeUnderLoad(t *testing.T) {
	const senders, events = 4, 3000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	mux := NewMux()
	var handled sync.WaitGroup
	handled.Add(senders * events)
	var last [senders]atomic.Int64
	// stable is the handler that takes each event.
	stable := func(_ context.Context, from member.Member, n tick) error {
		i := from.Address.Port
		if !last[i].CompareAndSwap(n.N, n.N+1) {
			t.Errorf("sender %d: event %d out of order", i, n.N)
		}
		handled.Done()
		return nil
	}
	current := Handle(mux, stable)
	started(t, mux, Setup{})
	var work sync.WaitGroup
	stop := make(chan struct{})
	for i := range senders {
		work.Go(func() {
			from := sender(uint16(i))
			for n := range events {
				payload, err := mux.Encode(nil, tick{int64(n)})
				if err != nil {
					t.Error(err)
				}
				err = mux.Deliver(t.Context(), Delivery{From: &from, Raw: Raw{"tick", payload}})
				if err != nil {
					t.Error(err)
					handled.Done()
				}
			}
		})
	}
	for i := range 2 {
		work.Go(func() { addAndRemove(t, mux, rand.New(rand.NewPCG(seed, uint64(i))), stop) })
	}
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				old := current
				current = Handle(mux, stable, Replacing(old))
				<-old.Remove()
			}
		}
	})
	handled.Wait()
	close(stop)
	work.Wait()
	if r := mux.types[reflect.TypeFor[tick]()]; len(r.places) != 1 {
		t.Errorf("%d handlers remain, want 1", len(r.places))
	}
}

// addAndRemove adds handlers of tick, of an interface and of Raw and removes them, in a drawn
// order, until stop is closed.
func addAndRemove(t *testing.T, mux *Mux, draw *rand.Rand, stop <-chan struct{}) {
	type added struct {
		*Registration
		gone *atomic.Bool
	}
	var all []added
	for ended := false; !ended || len(all) > 0; {
		select {
		case <-stop:
			ended = true
		default:
		}
		if !ended && len(all) < 5 && draw.IntN(2) == 0 {
			gone := &atomic.Bool{}
			check := func() error {
				if gone.Load() {
					t.Error("a handler runs after its removal")
				}
				return nil
			}
			var h *Registration
			switch draw.IntN(3) {
			case 0:
				h = Handle(mux, func(context.Context, member.Member, tick) error { return check() })
			case 1:
				h = Handle(mux, func(context.Context, member.Member, any) error { return check() })
			default:
				h = Handle(mux, func(context.Context, member.Member, Raw) error { return check() })
			}
			all = append(all, added{h, gone})
		} else if n := len(all); n > 0 {
			i := draw.IntN(n)
			<-all[i].Remove()
			all[i].gone.Store(true)
			all[i] = all[n-1]
			all = all[:n-1]
		}
	}
}
