// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

type contextKey struct{}

// noteAround returns an interceptor that records each call in a journal and adds its name to the
// context.
func noteAround(seen *journal, name string) MuxOption {
	return WithInterceptor(func(
		ctx context.Context, info Info, next func(context.Context) error,
	) error {
		seen.add("%s: %s of %d, %T, request %t, stream %t, %s", name, info.Name,
			info.From.Address.Port, info.Event, info.Request, info.Stream, Metadata(ctx)["trace"])
		err := next(context.WithValue(ctx, contextKey{}, fmt.Sprint(ctx.Value(contextKey{}), name)))
		seen.add("%s: %v", name, err)
		return err
	})
}

// TestInterceptorsRunAroundHandlers checks the order of interceptors, what they see, and that their
// context reaches the handlers.
func TestInterceptorsRunAroundHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &journal{}
		mux := NewMux(noteAround(seen, "outer"), noteAround(seen, "inner"))
		note := func(ctx context.Context, what any, err error) error {
			seen.add("%v after %v", what, ctx.Value(contextKey{}))
			return err
		}
		Handle(mux, func(ctx context.Context, _ member.Member, m order) error {
			return note(ctx, m.Text, errBoom)
		})
		Handle(mux, func(ctx context.Context, _ member.Member, r Raw) error {
			return note(ctx, r.Name, nil)
		})
		HandleRequest(mux, func(ctx context.Context, _ member.Member, m book) (int, error) {
			return 7, note(ctx, m.Text, nil)
		})
		HandleStream(mux, "file", func(ctx context.Context, _ member.Member, s Stream) error {
			return note(ctx, "stream", errBoom)
		})
		started(t, mux, Setup{})
		var event, request outcome
		asked := orderFor("book", request.call(2, true))
		asked.Name = "book"
		for _, d := range []Delivery{
			orderFor("order", event.call(1, false)),
			{From: ptr(sender(2)), Raw: Raw{"unknown", nil}, Metadata: map[string]string{"trace": "5"}},
			asked,
		} {
			if err := mux.Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := opened(mux, sender(3), "file", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		event.want(t, nil, true, errBoom)
		request.want(t, 7, true, nil)
		want := wrapped("order of 1, *receiver.order, request false, stream false, ", "order", "boom")
		want = append(want,
			wrapped("unknown of 2, *receiver.Raw, request false, stream false, 5", "unknown", "<nil>")...)
		want = append(want,
			wrapped("book of 1, *receiver.book, request true, stream false, ", "book", "<nil>")...)
		seen.want(t, append(want,
			wrapped("file of 3, <nil>, request false, stream true, ", "stream", "boom")...)...)
		if n := stats(t, mux, "order").Failed; n != 1 {
			t.Errorf("an error that the interceptors pass on: counted %d times, want 1", n)
		}
	})
}

// wrapped returns the journal of two interceptors and a handler.
func wrapped(what, handler, err string) []string {
	return []string{"outer: " + what, "inner: " + what, handler + " after <nil>outerinner",
		"inner: " + err, "outer: " + err}
}

var errDenied = errors.New("denied")

type nextFunc = func(context.Context) error

// A decision is a way in which an interceptor can end.
type decision struct {
	name           string
	run            func(ctx context.Context, next nextFunc) error
	handled        bool  // the handler runs
	event, request error // outcomes; a stream has the outcome of a request
	failures       int   // total for an event, a request and a stream
}

var decisions = []decision{
	{"refuses", func(context.Context, nextFunc) error { return errDenied },
		false, errDenied, errDenied, 3},
	{"drops", func(context.Context, nextFunc) error { return nil }, false, nil, errNoAnswer, 2},
	{"panics", func(context.Context, nextFunc) error { panic(errDenied) },
		false, &PanicError{}, &PanicError{}, 3},
	{"replaces the error", func(ctx context.Context, next nextFunc) error {
		_ = next(ctx)
		return errDenied
	}, true, errDenied, errDenied, 3},
	{"repeats", func(ctx context.Context, next nextFunc) error {
		_ = next(ctx)
		return next(ctx)
	}, true, errNextTwice, errNextTwice, 3},
	{"does not wait", func(ctx context.Context, next nextFunc) error {
		go next(ctx)
		time.Sleep(time.Millisecond)
		return errDenied
	}, true, errDenied, errDenied, 3},
	{"is late", func(ctx context.Context, next nextFunc) error {
		time.AfterFunc(time.Second, func() {
			if err := next(ctx); err != errNextTwice {
				panic(err)
			}
		})
		return errDenied
	}, false, errDenied, errDenied, 3},
}

// TestInterceptorDecides checks the outcome of an event, a request and a stream for each decision.
func TestInterceptorDecides(t *testing.T) {
	for _, c := range decisions {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.check) })
	}
}

func (c decision) check(t *testing.T) {
	var failures failureList
	handled := 0
	mux := NewMux(WithInterceptor(func(
		ctx context.Context, _ Info, next func(context.Context) error,
	) error {
		return c.run(ctx, next)
	}))
	handle := func() error {
		time.Sleep(10 * time.Millisecond)
		handled++
		return nil
	}
	Handle(mux, func(context.Context, member.Member, order) error { return handle() })
	HandleRequest(mux, func(context.Context, member.Member, book) (int, error) {
		return 1, handle()
	})
	HandleStream(mux, "file", func(context.Context, member.Member, Stream) error { return handle() })
	started(t, mux, Setup{Report: failures.add})
	var event, request outcome
	asked := orderFor("x", request.call(2, true))
	asked.Name = "book"
	for _, d := range []Delivery{orderFor("x", event.call(1, false)), asked} {
		if err := mux.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	}
	checkOutcome(t, "event", event.err, c.event)
	checkOutcome(t, "request", request.err, c.request)
	serveOne(t, mux, c.handled)
	if want := map[bool]int{true: 3}[c.handled]; handled != want {
		t.Errorf("the handlers ran %d times, want %d", handled, want)
	}
	if !event.ran || !request.ran {
		t.Error("got the outcome of an event without a handler")
	}
	if all := failures.list(); len(all) != c.failures {
		t.Errorf("failures: got %v, want %d", all, c.failures)
	} else {
		checkOutcome(t, "stream", all[len(all)-1].Err, c.request)
	}
}

func checkOutcome(t *testing.T, what string, got, want error) {
	t.Helper()
	if _, panicked := want.(*PanicError); panicked {
		if _, ok := got.(*PanicError); ok {
			return
		}
	}
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// failureList collects the reports of a Mux.
type failureList struct {
	mu  sync.Mutex
	all []Failure
}

func (l *failureList) add(f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, f)
}

func (l *failureList) list() []Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// serveOne serves a stream and checks whether its handler begins.
func serveOne(t *testing.T, mux *Mux, begins bool) {
	t.Helper()
	serve, err := mux.AcceptStream("file", false)
	if err != nil {
		t.Fatal(err)
	}
	var begun []error
	serve(sender(1), nil, newFakeStream(), func(refused error) { begun = append(begun, refused) })
	time.Sleep(time.Minute)
	synctest.Wait()
	if len(begun) != 1 || (begun[0] == nil) != begins {
		t.Errorf("begin was called with %v, want once, without an error: %t", begun, begins)
	}
}

// TestInterceptorSeesWhatHasNoHandler checks the outcome of an event that the filters of all
// handlers refuse.
func TestInterceptorSeesWhatHasNoHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		mux := NewMux(WithInterceptor(func(
			ctx context.Context, _ Info, next func(context.Context) error,
		) error {
			got = next(ctx)
			return got
		}))
		HandleMatch(mux, func(member.Member, order) bool { return false }, ignore[order])
		started(t, mux, Setup{})
		var event outcome
		if err := mux.Deliver(t.Context(), orderFor("x", event.call(1, false))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		event.want(t, nil, false, ErrUnknown)
		if !errors.Is(got, ErrUnknown) {
			t.Errorf("next: got %v, want ErrUnknown", got)
		}
	})
}

func TestNilInterceptor(t *testing.T) {
	err := NewMux(WithInterceptor(nil)).Validate(nil)
	if err == nil || !strings.Contains(err.Error(), "the interceptor is nil") {
		t.Errorf("Validate: got %v, want a mistake", err)
	}
}
