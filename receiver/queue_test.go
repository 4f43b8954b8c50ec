// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/member"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

func sender(port uint16) member.Member {
	a := member.Address{Host: "127.0.0.1", Port: port}
	return member.Member{Identity: member.Identity{Address: a}, Name: a.String()}
}

func ptr[T any](v T) *T { return &v }

// started runs mux until the test ends. Its scan rejects payloads that begin with 0xc1,
// which is not used in msgpack.
func started(t *testing.T, mux *Mux, setup Setup) {
	t.Helper()
	setup.Scan = func(payload []byte) error {
		if len(payload) > 0 && payload[0] == 0xc1 {
			return errBoom
		}
		return nil
	}
	if err := mux.Start(setup); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		// The context of the test is already done.
		if err := mux.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func send(t *testing.T, mux *Mux, from member.Member, text string) {
	t.Helper()
	if err := deliver(t.Context(), mux, from, text); err != nil {
		t.Fatalf("Deliver(%q): got %v, want nil", text, err)
	}
}

func deliver(ctx context.Context, mux *Mux, from member.Member, text string) error {
	payload, err := msgpack.Marshal(order{text})
	if err != nil {
		return err
	}
	return mux.Deliver(ctx, Delivery{From: &from, Raw: Raw{Name: "order", Payload: payload}})
}

func stats(t *testing.T, mux *Mux, event string) Stats {
	t.Helper()
	for _, s := range mux.Stats() {
		if s.Event == event {
			return s
		}
	}
	t.Fatalf("Stats: got %+v, want an entry %q", mux.Stats(), event)
	return Stats{}
}

// journal records the events that handlers received, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !reflect.DeepEqual(j.lines, want) {
		t.Errorf("handlers saw: got %q, want %q", j.lines, want)
	}
}

func TestEventsOfOneSenderRunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, from member.Member, m order) error {
			time.Sleep(time.Millisecond)
			seen.add("%s", m.Text)
			return nil
		})
		started(t, mux, Setup{})
		var want []string
		for i := range 3 * QueueLength {
			send(t, mux, sender(1), fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		seen.want(t, want...)
	})
}

func TestHandlersOfDifferentSendersRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, from member.Member, m order) error {
			time.Sleep(time.Duration(from.Address.Port) * time.Second)
			seen.add("%d %s", from.Address.Port, m.Text)
			return nil
		})
		started(t, mux, Setup{})
		send(t, mux, sender(5), "a")
		send(t, mux, sender(1), "b")
		send(t, mux, sender(1), "c")
		time.Sleep(6 * time.Second)
		seen.want(t, "1 b", "1 c", "5 a")
	})
}

func TestAllHandlersOfATypeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		for _, name := range []string{"first", "second"} {
			Handle(mux, func(_ context.Context, _ member.Member, m order) error {
				seen.add("%s %s", name, m.Text)
				return errBoom
			})
		}
		Handle(mux, func(_ context.Context, _ member.Member, m Raw) error {
			seen.add("raw %s %s", m.Name, m.Payload)
			return nil
		})
		started(t, mux, Setup{})
		send(t, mux, sender(1), "a")
		synctest.Wait()
		strange := Delivery{From: ptr(sender(1)), Raw: Raw{"strange", []byte("{}")}}
		if err := mux.Deliver(t.Context(), strange); err != nil {
			t.Errorf("Deliver of a name that only Raw takes: got %v, want nil", err)
		}
		synctest.Wait()
		seen.want(t, "first a", "second a", "raw strange {}")
	})
}

// TestFullLaneHoldsItsSenderAndNobodyElse fills a lane: the first event is being handled,
// QueueLength events are waiting, and the next event blocks its Deliver.
func TestFullLaneHoldsItsSenderAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		Handle(mux, func(_ context.Context, from member.Member, m order) error {
			if from.Address.Port == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		started(t, mux, Setup{})
		send(t, mux, sender(1), "first")
		synctest.Wait()
		for range QueueLength {
			send(t, mux, sender(1), "waits")
		}
		begin := time.Now()
		for range 10 * QueueLength {
			send(t, mux, sender(2), "quick")
			synctest.Wait()
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("events of another sender took %v, want 0", took)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := deliver(short, mux, sender(1), "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Deliver to a full lane: got %v, want a deadline", err)
		}
		if got := stats(t, mux, "order").Queued; got != QueueLength {
			t.Errorf("Queued: got %d, want %d", got, QueueLength)
		}
		begin = time.Now()
		send(t, mux, sender(1), "next")
		if took := time.Since(begin); took != 59*time.Second {
			t.Errorf("Deliver waited %v, want the 59s until the handler returned", took)
		}
	})
}

func TestPanicIsRecoveredAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, _ member.Member, m order) error {
			switch m.Text {
			case "panic":
				panic("boom")
			case "error":
				return errBoom
			}
			seen.add("%s", m.Text)
			return nil
		})
		var failures []Failure
		started(t, mux, Setup{Report: func(f Failure) { failures = append(failures, f) }})
		for _, text := range []string{"panic", "error", "fine"} {
			send(t, mux, sender(1), text)
		}
		synctest.Wait()
		seen.want(t, "fine")
		if len(failures) != 2 {
			t.Fatalf("reports: got %v, want two", failures)
		}
		p, ok := errors.AsType[*PanicError](failures[0].Err)
		if !ok || p.Value != "boom" || !strings.Contains(string(p.Stack), "queue_test.go") {
			t.Errorf("first report: got %v, want the panic with its stack", failures[0].Err)
		}
		if failures[1].Err != errBoom || failures[1].Event != "order" ||
			failures[1].From != sender(1) {
			t.Errorf("second report: got %+v, want boom of order from port 1", failures[1])
		}
		want := Stats{Event: "order", Handled: 3, Failed: 1, Panicked: 1}
		got := stats(t, mux, "order")
		if n := got.Took.Count(); n != 1 {
			t.Errorf("Stats: %d events were timed, want the first of 3", n)
		}
		if got.Took = want.Took; got != want {
			t.Errorf("Stats: got %+v, want %+v", got, want)
		}
	})
}

func TestRefusedEventsAreCounted(t *testing.T) {
	mux := NewMux()
	Handle(mux, ignore[order])
	Register[other](mux) // sent only
	started(t, mux, Setup{})
	for _, c := range []struct {
		raw  Raw
		want error
	}{
		{Raw{"order", []byte{0xc1}}, ErrMalformed},   // by the scan
		{Raw{"order", []byte("text")}, ErrMalformed}, // by the decoder
		{Raw{"other", []byte("{}")}, ErrUnknown},
		{Raw{"strange", nil}, ErrUnknown},
		{Raw{"", nil}, ErrUnknown},
	} {
		err := mux.Deliver(t.Context(), Delivery{From: ptr(sender(1)), Raw: c.raw})
		if !errors.Is(err, c.want) {
			t.Errorf("Deliver(%q): got %v, want %v", c.raw.Name, err, c.want)
		}
	}
	if got := stats(t, mux, "order").Malformed; got != 2 {
		t.Errorf("Malformed: got %d, want 2", got)
	}
	if got := stats(t, mux, "").Dropped; got != 3 {
		t.Errorf("Dropped without a handler: got %d, want 3", got)
	}
}

// TestLocalEventsCannotBeSent checks that other members cannot send an event with the name
// of a local type.
func TestLocalEventsCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, from member.Member, m order) error {
			seen.add("%s", m.Text)
			return nil
		})
		started(t, mux, Setup{Local: []reflect.Type{reflect.TypeFor[order]()}})
		if err := deliver(t.Context(), mux, sender(2), "forged"); !errors.Is(err, ErrUnknown) {
			t.Errorf("Deliver of a local event: got %v, want ErrUnknown", err)
		}
		if err := mux.Emit(t.Context(), sender(1), order{"own"}); err != nil {
			t.Errorf("Emit: got %v, want nil", err)
		}
		if err := mux.Emit(t.Context(), sender(1), other{"nobody"}); err != nil {
			t.Errorf("Emit without a handler: got %v, want nil", err)
		}
		synctest.Wait()
		seen.want(t, "own")
	})
}

func TestCloseEndsHandlersAndDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		Handle(mux, func(ctx context.Context, _ member.Member, m order) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		var failures []Failure
		started(t, mux, Setup{Report: func(f Failure) { failures = append(failures, f) }})
		for range QueueLength + 1 {
			send(t, mux, sender(1), "waits")
			synctest.Wait()
		}
		blocked := make(chan error, 1)
		go func() { blocked <- deliver(t.Context(), mux, sender(1), "blocked") }()
		synctest.Wait()
		if err := mux.Close(t.Context()); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
		if err := <-blocked; !errors.Is(err, ErrClosed) {
			t.Errorf("blocked Deliver: got %v, want ErrClosed", err)
		}
		if len(failures) != 1 || failures[0].Err != ErrClosed {
			t.Errorf("reports: got %v, want the one handler that ran, with the cause", failures)
		}
		if got := stats(t, mux, "order").Dropped; got != QueueLength {
			t.Errorf("Dropped: got %d, want %d", got, QueueLength)
		}
		if err := deliver(t.Context(), mux, sender(1), "late"); !errors.Is(err, ErrClosed) {
			t.Errorf("Deliver after Close: got %v, want ErrClosed", err)
		}
	})
}

func TestCloseNamesHandlersThatGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		Handle(mux, func(context.Context, member.Member, order) error {
			time.Sleep(time.Hour)
			return nil
		})
		started(t, mux, Setup{})
		send(t, mux, sender(1), "slow")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range QueueLength {
			send(t, mux, sender(1), "waits")
		}
		blocked := make(chan error, 1)
		go func() { blocked <- deliver(t.Context(), mux, sender(1), "blocked") }()
		synctest.Wait()
		if err := mux.Close(ctx); err == nil || !strings.Contains(err.Error(), "order") {
			t.Errorf("Close: got %v, want an error that names order", err)
		}
		// Close also unblocks a Deliver that is waiting for room.
		if err := <-blocked; !errors.Is(err, ErrClosed) {
			t.Errorf("blocked Deliver: got %v, want ErrClosed", err)
		}
		time.Sleep(time.Hour) // the handler returns, and the last goroutine ends with it
	})
}

func TestCloseBeforeStart(t *testing.T) {
	mux := NewMux()
	if err := mux.Close(t.Context()); err != nil {
		t.Errorf("Close: got %v, want nil", err)
	}
	if err := deliver(t.Context(), mux, sender(1), "early"); !errors.Is(err, ErrClosed) {
		t.Errorf("Deliver: got %v, want ErrClosed", err)
	}
}

func TestHandlerThatEndsItsGoroutineHoldsUpNobody(t *testing.T) {
	mux := NewMux()
	done := make(chan order)
	Handle(mux, func(_ context.Context, _ member.Member, o order) error {
		if o.Text == "exit" {
			runtime.Goexit()
		}
		done <- o
		return nil
	})
	if err := mux.Start(Setup{Scan: func([]byte) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	defer mux.Close(t.Context())
	for _, text := range []string{"exit", "next"} {
		payload, err := mux.Encode(nil, order{text})
		if err != nil {
			t.Fatal(err)
		}
		d := Delivery{From: &member.Member{}, Raw: Raw{"order", payload}}
		if err := mux.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-done; got.Text != "next" {
		t.Errorf("handled %q after a handler that ended its goroutine, want %q", got.Text, "next")
	}
}
