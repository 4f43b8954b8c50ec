// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// TestMatchChoosesHandlers checks that all handlers that match run, and that the default handler
// runs if no other handler matches.
func TestMatchChoosesHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		Handle(mux, func(_ context.Context, _ member.Member, m other) error {
			seen.add("other %s", m.Text)
			return nil
		})
		HandleMatch(mux, func(from member.Member, m order) bool { return m.Text > "b" },
			func(_ context.Context, _ member.Member, m order) error {
				seen.add("large %s", m.Text)
				return nil
			})
		HandleMatch(mux, func(from member.Member, _ order) bool { return from.Address.Port == 2 },
			func(_ context.Context, _ member.Member, m order) error {
				seen.add("of two %s", m.Text)
				return nil
			})
		HandleMatch(mux, func(_ member.Member, r Raw) bool { return strings.HasPrefix(r.Name, "o") },
			func(_ context.Context, _ member.Member, r Raw) error {
				seen.add("all %s", r.Name)
				return nil
			})
		started(t, mux, Setup{})
		for _, d := range []struct {
			port uint16
			text string
		}{{1, "a"}, {1, "c"}, {2, "a"}, {2, "c"}} {
			send(t, mux, sender(d.port), d.text)
			synctest.Wait()
		}
		seen.want(t, "all order", "large c", "all order", "of two a", "all order",
			"large c", "of two c", "all order")
	})
}

// TestDefaultTakesWhatNobodyTook checks that the default handler also gets unmatched events
// of types with handlers.
func TestDefaultTakesWhatNobodyTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(), &journal{}
		HandleMatch(mux, func(_ member.Member, m order) bool {
			if m.Text == "panic" {
				panic("match")
			}
			return m.Text == "mine"
		}, func(_ context.Context, _ member.Member, m order) error {
			seen.add("typed %s", m.Text)
			return nil
		})
		Handle(mux, func(_ context.Context, _ member.Member, r Raw) error {
			seen.add("default %s %q", r.Name, r.Payload[len(r.Payload)-1])
			return nil
		})
		var failures []Failure
		started(t, mux, Setup{Report: func(f Failure) { failures = append(failures, f) }})
		for _, text := range []string{"mine", "yours", "panic"} {
			send(t, mux, sender(1), text)
		}
		synctest.Wait()
		seen.want(t, "typed mine", `default order 's'`)
		if len(failures) != 1 || !strings.Contains(failures[0].Err.Error(), "panicked: match") {
			t.Errorf("reports: got %v, want the panic of the match", failures)
		}
	})
}

// TestEventThatNobodyMatches checks that an event without a matching handler is counted and
// reported, and that its sender receives the error.
func TestEventThatNobodyMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		HandleMatch(mux, func(member.Member, order) bool { return false }, ignore[order])
		var failures []Failure
		started(t, mux, Setup{Report: func(f Failure) { failures = append(failures, f) }})
		var got outcome
		if err := mux.Deliver(t.Context(), orderFor("order", got.call(1, false))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(failures) != 1 || !errors.Is(failures[0].Err, ErrUnknown) {
			t.Errorf("reports: got %v, want ErrUnknown", failures)
		}
		got.want(t, nil, false, ErrUnknown)
		if n := stats(t, mux, "").Dropped; n != 1 {
			t.Errorf("Dropped without a handler: got %d, want 1", n)
		}
	})
}

// outcome records the arguments of Call.Answer.
type outcome struct {
	mu    sync.Mutex
	times int
	value any
	ran   bool
	err   error
}

func (o *outcome) call(id uint64, request bool) *Call {
	return &Call{ID: id, Request: request, Answer: func(value any, ran bool, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.times, o.value, o.ran, o.err = o.times+1, value, ran, err
	}}
}

func (o *outcome) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.times
}

func (o *outcome) want(t *testing.T, value any, ran bool, err error) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.times != 1 || o.value != value || o.ran != ran || !errors.Is(o.err, err) {
		t.Errorf("answered %d times: %v, ran %t, %v; want once %v, %t, %v",
			o.times, o.value, o.ran, o.err, value, ran, err)
	}
}

// orderFor returns the delivery of an order whose sender waits for the outcome.
func orderFor(text string, c *Call) Delivery {
	payload, err := msgpackCodec{&sync.Map{}}.Marshal(order{text})
	if err != nil {
		panic(err)
	}
	return Delivery{From: ptr(sender(1)), Raw: Raw{"order", payload}, Call: c}
}

// TestQueuePolicies fills a queue of two while the handler is busy.
func TestQueuePolicies(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		want   []string
		err    error // outcome of the first event that does not fit
		old    error // outcome of the oldest waiting event
	}{
		{Drop, []string{"0", "2", "3"}, nil, ErrBusy},
		{Reject, []string{"0", "1", "2"}, ErrBusy, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			mux, seen := NewMux(), &journal{}
			Handle(mux, func(_ context.Context, _ member.Member, m order) error {
				time.Sleep(time.Second)
				seen.add("%s", m.Text)
				return nil
			}, Queue(2, c.policy))
			started(t, mux, Setup{})
			var first outcome
			for i := range 4 {
				d := orderFor(fmt.Sprint(i), nil)
				if i == 1 {
					d.Call = first.call(1, false)
				}
				want := error(nil)
				if i == 3 {
					want = c.err
				}
				if err := mux.Deliver(t.Context(), d); !errors.Is(err, want) {
					t.Errorf("policy %d: Deliver %d: got %v, want %v", c.policy, i, err, want)
				}
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			seen.want(t, c.want...)
			first.want(t, nil, c.old == nil, c.old)
			s := stats(t, mux, "order")
			if s.Dropped+s.Rejected != 1 || (s.Rejected == 1) != (c.policy == Reject) {
				t.Errorf("policy %d: got %+v, want one dropped or rejected", c.policy, s)
			}
		})
	}
}

// TestQueueBytesBoundAQueue checks that an event larger than the limit waits alone.
func TestQueueBytesBoundAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		Handle(mux, func(ctx context.Context, _ member.Member, _ order) error {
			<-ctx.Done()
			return nil
		}, Queue(1000, Reject))
		started(t, mux, Setup{})
		send(t, mux, sender(1), "is handled")
		synctest.Wait()
		large := orderFor(strings.Repeat("x", 2*QueueBytes), nil)
		if err := mux.Deliver(t.Context(), large); err != nil {
			t.Errorf("a large event alone: got %v, want nil", err)
		}
		if err := deliver(t.Context(), mux, sender(1), "x"); !errors.Is(err, ErrBusy) {
			t.Errorf("beside a large event: got %v, want ErrBusy", err)
		}
		taken := 0
		for deliver(t.Context(), mux, sender(2), strings.Repeat("x", QueueBytes/10)) == nil {
			taken++
			synctest.Wait()
		}
		if taken != 1+9 { // one is handled
			t.Errorf("%d events of a tenth of QueueBytes were taken, want 10", taken)
		}
	})
}

// TestConcurrencyIsOverAllSenders checks that the limit applies to all senders together, and that
// events of one sender stay in order.
func TestConcurrencyIsOverAllSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		var now, most atomic.Int64
		last := map[uint16]string{}
		Handle(mux, func(_ context.Context, from member.Member, m order) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if m.Text <= last[from.Address.Port] {
				t.Errorf("of %d: %s after %s", from.Address.Port, m.Text, last[from.Address.Port])
			}
			last[from.Address.Port] = m.Text
			time.Sleep(time.Second)
			return nil
		}, Concurrency(1))
		started(t, mux, Setup{})
		for i := range 5 {
			for port := range uint16(4) {
				send(t, mux, sender(port), fmt.Sprint(i+1))
			}
		}
		time.Sleep(20 * time.Second)
		if got := stats(t, mux, "order"); got.Handled != 20 || most.Load() != 1 {
			t.Errorf("got %d handled, %d concurrently; want 20 and 1", got.Handled, most.Load())
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	mux := NewMux(WithCodec(nil))
	Handle(mux, ignore[order], Queue(0, Block), Concurrency(0))
	Handle(mux, ignore[order], Queue(1, Policy(7)))
	HandleMatch(mux, nil, ignore[order])
	HandleRequest(mux, func(context.Context, member.Member, order) (int, error) { return 0, nil })
	HandleRequest(mux, func(context.Context, member.Member, Raw) (int, error) { return 0, nil })
	HandleRequest[other, int](mux, nil)
	err := mux.Validate(nil)
	for _, want := range []string{
		"queue of order: length 0", "policy 7", "concurrency of order: 0 handlers",
		"match function of a handler",
		"order cannot have a handler of requests", "Raw cannot have a handler of requests",
		"handler of other is nil",
		"the codec is nil",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: got %v, want it to contain %q", err, want)
		}
	}
}

// jsons is a codec that an application might use.
type jsons struct{}

func (jsons) Marshal(event any) ([]byte, error)     { return json.Marshal(event) }
func (jsons) Unmarshal(payload []byte, e any) error { return json.Unmarshal(payload, e) }

// TestCodecIsReplaced checks that with another codec, neither msgpack nor its scan is used.
func TestCodecIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux, seen := NewMux(WithCodec(jsons{})), &journal{}
		Handle(mux, func(_ context.Context, _ member.Member, m order) error {
			seen.add("%s", m.Text)
			return nil
		})
		if err := mux.Start(Setup{Scan: func([]byte) error { return errBoom }}); err != nil {
			t.Fatal(err)
		}
		defer mux.Close(t.Context())
		payload, err := mux.Encode([]byte("before "), order{"hello"})
		if want := `before {"Text":"hello"}`; err != nil || string(payload) != want {
			t.Fatalf("Encode: got %q, %v; want %q", payload, err, want)
		}
		d := Delivery{From: ptr(sender(1)), Raw: Raw{"order", payload[len("before "):]}}
		if err := mux.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		clear(payload) // Deliver has returned
		synctest.Wait()
		seen.want(t, "hello")
		var got int
		answer, err := mux.EncodeAnswer(nil, 7)
		if err == nil {
			err = mux.DecodeAnswer(answer, &got)
		}
		if err != nil || got != 7 {
			t.Errorf("answer: got %d, %v, want 7", got, err)
		}
		if err := mux.DecodeAnswer([]byte("{"), &got); !errors.Is(err, ErrMalformed) {
			t.Errorf("DecodeAnswer of half a value: got %v, want ErrMalformed", err)
		}
	})
}

func TestMetadataReachesHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		var got []map[string]string
		Handle(mux, func(ctx context.Context, _ member.Member, m order) error {
			got = append(got, Metadata(ctx))
			return nil
		})
		started(t, mux, Setup{})
		d := orderFor("a", nil)
		d.Metadata = map[string]string{"trace": "00f1"}
		if err := mux.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		send(t, mux, sender(1), "b")
		synctest.Wait()
		if want := []map[string]string{d.Metadata, nil}; !reflect.DeepEqual(got, want) {
			t.Errorf("handlers saw %v, want %v", got, want)
		}
	})
}

// TestDropKeepsWithinQueueBytes checks that enough small events are dropped to make room for a
// large event.
func TestDropKeepsWithinQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		Handle(mux, func(ctx context.Context, _ member.Member, _ order) error {
			<-ctx.Done()
			return nil
		}, Queue(20, Drop))
		started(t, mux, Setup{})
		send(t, mux, sender(1), "is handled")
		synctest.Wait()
		replies := make([]outcome, 20)
		for i := range replies {
			d := orderFor("x", replies[i].call(uint64(i+1), false))
			if err := mux.Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			send(t, mux, sender(1), strings.Repeat("x", QueueBytes/2))
		}
		l := mux.types[reflect.TypeFor[order]()].lanes[laneKey{sender(1).Address, 0, false}]
		if _, got := l.readWaiting(); got > QueueBytes {
			t.Errorf("%d bytes wait, want at most %d", got, QueueBytes)
		}
		for i := range replies {
			replies[i].want(t, nil, false, ErrBusy)
		}
		if got := stats(t, mux, "order"); got.Dropped != 29 || got.Queued != 1 {
			t.Errorf("got %+v, want 29 dropped and 1 queued", got)
		}
	})
}
